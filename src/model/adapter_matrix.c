/* adapter_matrix.c — matrices inside stored tensors: any two strides, rows in another order, any
 * type with a decoder; read in pieces of bounded size. */
#include "codec/codec.h"
#include "model/adapter_internal.h"

/* --- orders of rows --------------------------------------------------------------------------- */

static int64_t rope_row(const qni_rows *rows, int64_t row)
{
    const int64_t d = rows->n_rows / rows->n_heads;
    const int64_t in_head = row % d;
    return row - in_head + in_head / 2 + in_head % 2 * (d / 2);
}

static int64_t neox_row(const qni_rows *rows, int64_t row)
{
    const int64_t d = rows->n_rows / (3 * rows->n_heads);
    const int64_t which = row / (rows->n_heads * d);
    const int64_t rest = row % (rows->n_heads * d);
    return rest / d * 3 * d + which * d + rest % d;
}

static int64_t falcon_row(const qni_rows *rows, int64_t row)
{
    const int64_t n_groups = rows->n_heads_kv;
    const int64_t n_queries = rows->n_heads / n_groups; /* of a group */
    const int64_t d = rows->n_rows / (rows->n_heads + 2 * n_groups);
    const int64_t head = row / d;
    int64_t group = head / n_queries;
    int64_t member = head % n_queries;
    if (head >= rows->n_heads) { /* k of all groups, then v */
        group = (head - rows->n_heads) % n_groups;
        member = n_queries + (head - rows->n_heads) / n_groups;
    }
    return (group * (n_queries + 2) + member) * d + row % d;
}

int64_t qni_row_of(const qni_rows *rows, int64_t row)
{
    row += rows->first;
    switch (rows->order) {
    case QNI_ROWS_ROPE:
        return rope_row(rows, row);
    case QNI_ROWS_NEOX:
        return neox_row(rows, row);
    case QNI_ROWS_FALCON:
        return falcon_row(rows, row);
    case QNI_ROWS_AS_STORED:
    default:
        return row;
    }
}

bool qni_rows_fit(const qni_rows *rows)
{
    const int64_t n = rows->n_rows;
    const int64_t heads = rows->n_heads;
    const int64_t groups = rows->n_heads_kv;
    switch (rows->order) {
    case QNI_ROWS_ROPE:
        return heads > 0 && n % heads == 0 && n / heads % 2 == 0;
    case QNI_ROWS_NEOX:
        return heads > 0 && heads <= n / 3 && n % (3 * heads) == 0;
    case QNI_ROWS_FALCON:
        return heads > 0 && groups > 0 && heads % groups == 0 && heads <= n && groups <= n &&
               n % (heads + 2 * groups) == 0;
    case QNI_ROWS_AS_STORED:
    default:
        return true;
    }
}

/* --- views ------------------------------------------------------------------------------------ */

qni_matrix qni_matrix_of(const qn_model *file, const qn_tensor_info *tensor)
{
    qni_matrix m = {.file = file, .tensor = tensor};
    m.n_cols = tensor->n_dims > 1 ? tensor->ne[0] : 1;
    m.n_rows = tensor->n_dims > 1 ? tensor->ne[1] : tensor->ne[0];
    m.row_stride = m.n_cols;
    m.col_stride = 1;
    m.rows.n_rows = m.n_rows;
    return m;
}

qni_matrix qni_matrix_slice(const qn_model *file, const qn_tensor_info *tensor, int64_t slice)
{
    qni_matrix m = qni_matrix_of(file, tensor);
    m.offset = slice * m.n_rows * m.n_cols;
    return m;
}

qni_matrix qni_matrix_turned(const qni_matrix *m)
{
    qni_matrix turned = *m;
    turned.n_rows = m->n_cols;
    turned.n_cols = m->n_rows;
    turned.row_stride = m->col_stride;
    turned.col_stride = m->row_stride;
    turned.rows = (qni_rows){.n_rows = turned.n_rows};
    return turned;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* n elements from `first` on, at most QNI_MATRIX_PIECE of them, as stored one after the other. */
static qn_status read_run(const qni_matrix *m, int64_t first, int64_t n, qni_matrix_room *room,
                          const float **out_values, qn_error *err)
{
    const int64_t block = qn_dtype_block_elems(m->tensor->dtype);
    const int64_t block_bytes = qn_dtype_block_bytes(m->tensor->dtype);
    const int64_t first_block = first / block;
    const int64_t n_blocks = (first + n + block - 1) / block - first_block;
    QN_TRY(qni_source_read(m->file, m->tensor, first_block * block_bytes,
                           (size_t)(n_blocks * block_bytes), room->raw, err));
    QN_TRY(qn_decode(m->tensor->dtype, room->raw, n_blocks, room->values, err));
    *out_values = room->values + first % block;
    return QN_OK;
}

/* Along one line of a matrix: elements 0, step, 2 step, ... after `from` go to out[0],
 * out[out_step],
 * ... */
static qn_status read_line(const qni_matrix *m, int64_t from, int64_t step, int64_t n,
                           qni_matrix_room *room, float *out, int64_t out_step, qn_error *err)
{
    const int64_t n_piece = qni_max_i64(1, (QNI_MATRIX_PIECE - 1) / step + 1);
    for (int64_t done = 0; done < n;) {
        const int64_t now = qni_min_i64(n_piece, n - done);
        const float *values;
        QN_TRY(read_run(m, from + done * step, (now - 1) * step + 1, room, &values, err));
        for (int64_t i = 0; i < now; i++) {
            out[(done + i) * out_step] = values[i * step];
        }
        done += now;
    }
    return QN_OK;
}

/* How many lines, `stride` apart, may be read as one run: what lies between them is read too. */
static int64_t lines_together(int64_t stride, int64_t span, int64_t n_lines)
{
    if (stride > 2 * span || span > QNI_MATRIX_PIECE) {
        return 1;
    }
    return qni_min_i64(n_lines, 1 + (QNI_MATRIX_PIECE - span) / qni_max_i64(1, stride));
}

typedef struct lines {
    int64_t from; /* of the first line's first element */
    int64_t line_stride;
    int64_t n_lines;
    int64_t step; /* inside a line */
    int64_t n;
    int64_t out_line; /* where they go */
    int64_t out_step;
} lines;

/* Lines at equal distances. */
static qn_status read_lines(const qni_matrix *m, const lines *l, qni_matrix_room *room, float *out,
                            qn_error *err)
{
    const int64_t span = (l->n - 1) * l->step + 1;
    const int64_t n_together = lines_together(l->line_stride, span, l->n_lines);
    for (int64_t done = 0; done < l->n_lines;) {
        const int64_t now = qni_min_i64(n_together, l->n_lines - done);
        const int64_t from = l->from + done * l->line_stride;
        if (now == 1) {
            QN_TRY(read_line(m, from, l->step, l->n, room, out + done * l->out_line, l->out_step,
                             err));
            done++;
            continue;
        }
        const float *values;
        QN_TRY(read_run(m, from, (now - 1) * l->line_stride + span, room, &values, err));
        for (int64_t i = 0; i < now; i++) {
            float *line = out + (done + i) * l->out_line;
            for (int64_t j = 0; j < l->n; j++) {
                line[j * l->out_step] = values[i * l->line_stride + j * l->step];
            }
        }
        done += now;
    }
    return QN_OK;
}

/* A run of rows that are stored one after the other. */
static qn_status read_rows(const qni_matrix *m, int64_t stored_row, int64_t n_rows,
                           qni_matrix_room *room, float *out, int64_t out_stride, qn_error *err)
{
    const int64_t from = m->offset + stored_row * m->row_stride;
    const lines by_row = {from, m->row_stride, n_rows, m->col_stride, m->n_cols, out_stride, 1};
    const lines by_col = {from, m->col_stride, m->n_cols, m->row_stride, n_rows, 1, out_stride};
    return read_lines(m, m->col_stride <= m->row_stride ? &by_row : &by_col, room, out, err);
}

/* How many rows from `row` on are stored one after the other. */
static int64_t run_of_rows(const qni_rows *rows, int64_t row, int64_t n_rows)
{
    if (rows->order == QNI_ROWS_AS_STORED) {
        return n_rows;
    }
    const int64_t first = qni_row_of(rows, row);
    int64_t n = 1;
    while (n < n_rows && qni_row_of(rows, row + n) == first + n) {
        n++;
    }
    return n;
}

/* --- matrices woven into one another ---------------------------------------------------------- */

/* As much as is kept of them at a time. */
#define WOVEN_FLOATS (INT64_C(512) << 10)

int64_t qni_matrix_woven_floats(const qni_matrix *m)
{
    return m->tensor != NULL && m->n_woven > 1
               ? qni_min_i64(WOVEN_FLOATS, m->tensor->ne[0] * m->tensor->ne[1])
               : 0;
}

/* Element e of n_woven goes to matrix e: read all once, keep those from `first` on. */
static qn_status unweave(const qni_matrix *m, int64_t first, int64_t n, qni_matrix_room *room,
                         qn_error *err)
{
    const int64_t n_each = m->tensor->ne[0] * m->tensor->ne[1] / m->n_woven;
    const int64_t n_groups = qni_max_i64(1, QNI_MATRIX_PIECE / m->n_woven);
    room->woven_tensor = NULL;
    for (int64_t at = 0; at < n_each; at += n_groups) {
        const int64_t now = qni_min_i64(n_groups, n_each - at);
        const float *values;
        QN_TRY(
            read_run(m, at * m->n_woven + first, (now - 1) * m->n_woven + n, room, &values, err));
        for (int64_t i = 0; i < now; i++) {
            for (int64_t e = 0; e < n; e++) {
                room->woven[e * n_each + at + i] = values[i * m->n_woven + e];
            }
        }
    }
    room->woven_tensor = m->tensor;
    room->woven_first = first;
    room->n_woven = n;
    return QN_OK;
}

/* Is there room for at least two of them? */
static bool can_unweave(const qni_matrix *m, const qni_matrix_room *room)
{
    const int64_t n_all = m->n_woven > 1 ? m->tensor->ne[0] * m->tensor->ne[1] : 0;
    return m->n_woven > 1 && m->n_woven <= QNI_MATRIX_PIECE && room->woven != NULL &&
           room->n_woven_max / 2 >= n_all / m->n_woven;
}

static qn_status read_woven(const qni_matrix *m, int64_t first_row, int64_t n_rows,
                            qni_matrix_room *room, float *out, int64_t out_stride, qn_error *err)
{
    const int64_t n_each = m->tensor->ne[0] * m->tensor->ne[1] / m->n_woven;
    const int64_t which = m->offset;
    if (room->woven_tensor != m->tensor || which < room->woven_first ||
        which >= room->woven_first + room->n_woven) {
        const int64_t n_fit = room->n_woven_max / n_each;
        QN_TRY(unweave(m, which, qni_min_i64(n_fit, m->n_woven - which), room, err));
    }
    const float *from = room->woven + (which - room->woven_first) * n_each;
    const int64_t row_stride = m->row_stride / m->n_woven;
    const int64_t col_stride = m->col_stride / m->n_woven;
    for (int64_t i = 0; i < n_rows; i++) {
        const float *row = from + qni_row_of(&m->rows, first_row + i) * row_stride;
        for (int64_t j = 0; j < m->n_cols; j++) {
            out[i * out_stride + j] = row[j * col_stride];
        }
    }
    return QN_OK;
}

qn_status qni_matrix_read(const qni_matrix *m, int64_t first_row, int64_t n_rows,
                          qni_matrix_room *room, float *out, int64_t out_stride, qn_error *err)
{
    if (can_unweave(m, room)) {
        return read_woven(m, first_row, n_rows, room, out, out_stride, err);
    }
    for (int64_t done = 0; done < n_rows && m->n_cols > 0;) {
        const int64_t row = first_row + done;
        const int64_t now = run_of_rows(&m->rows, row, n_rows - done);
        QN_TRY(read_rows(m, qni_row_of(&m->rows, row), now, room, out + done * out_stride,
                         out_stride, err));
        done += now;
    }
    return QN_OK;
}

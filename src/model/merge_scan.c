/* merge_scan.c — one look at all values of the adapters: are they finite, is a product zero, and a
 * digest of what they mean. The digest is made of A and B as they are merged, as f32, in the GGUF's
 * order of rows, so that it is the same for every form of an adapter. */
#include "codec/codec.h"
#include "model/adapter_internal.h"

#define BLOCK_FLOATS (INT64_C(1) << 16)

typedef struct scanner {
    const qn_merge *merge;
    qni_matrix_room *room;
    float *values;
    int64_t n_values;
} scanner;

static qn_status make_room(scanner *s, int64_t n_values, qn_error *err)
{
    if (n_values <= s->n_values) {
        return QN_OK;
    }
    float *values = qni_alloc_array(s->merge->allocator, n_values, sizeof *values);
    if (values == NULL) {
        return qni_fail_memory(err, (size_t)n_values * sizeof *values);
    }
    qni_free(s->merge->allocator, s->values, (size_t)s->n_values * sizeof *values);
    s->values = values;
    s->n_values = n_values;
    return QN_OK;
}

static bool is_zero(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (values[i] != 0.0f) {
            return false;
        }
    }
    return true;
}

/* Zeros of either sign are one value. */
static void drop_signs_of_zeros(float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = values[i] == 0.0f ? 0.0f : values[i];
    }
}

static qn_status scan_block(const scanner *s, const qni_matrix *m, int64_t row, int64_t n_rows,
                            qn_error *err)
{
    QN_TRY(qni_matrix_read(m, row, n_rows, s->room, s->values, m->n_cols, err));
    const int64_t bad = qn_find_non_finite(s->values, n_rows * m->n_cols);
    QN_CHECK(bad < 0, err, QN_ERR_NON_FINITE_VALUE, -1,
             "element [%" PRId64 ", %" PRId64
             "] of %s is NaN or infinite; the adapter is damaged, or "
             "its training failed",
             row + bad / m->n_cols, bad % m->n_cols, m->tensor->name);
    return QN_OK;
}

/* The sum of the digests of the rows, so that it does not matter how they are grouped. */
static qn_status scan_matrix(scanner *s, const qni_matrix *m, int64_t n_rows, uint64_t *out_digest,
                             bool *out_is_zero, qn_error *err)
{
    *out_digest = 0;
    *out_is_zero = true;
    if (m->tensor == NULL || m->n_cols == 0) {
        return QN_OK;
    }
    const int64_t n_block = qni_max_i64(1, BLOCK_FLOATS / m->n_cols);
    QN_TRY(make_room(s, qni_min_i64(n_block, n_rows) * m->n_cols, err));
    for (int64_t row = 0; row < n_rows; row += n_block) {
        const int64_t now = qni_min_i64(n_block, n_rows - row);
        QN_TRY(scan_block(s, m, row, now, err));
        *out_is_zero = *out_is_zero && is_zero(s->values, now * m->n_cols);
        drop_signs_of_zeros(s->values, now * m->n_cols);
        for (int64_t i = 0; i < now; i++) {
            *out_digest += qni_hash64(s->values + i * m->n_cols,
                                      (size_t)m->n_cols * sizeof *s->values, (uint64_t)(row + i));
        }
    }
    return QN_OK;
}

/* Room for woven matrices, once there are any. */
static qn_status make_woven_room(scanner *s, const qni_edit *edit, qn_error *err)
{
    qni_matrix_room *room = s->room;
    const int64_t n =
        qni_max_i64(qni_matrix_woven_floats(&edit->a), qni_matrix_woven_floats(&edit->b));
    if (n <= room->n_woven_max) {
        return QN_OK;
    }
    float *woven = qni_alloc_array(s->merge->allocator, n, sizeof *woven);
    if (woven == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *woven);
    }
    qni_free(s->merge->allocator, room->woven, (size_t)room->n_woven_max * sizeof *woven);
    room->woven = woven;
    room->n_woven_max = n;
    room->woven_tensor = NULL;
    return QN_OK;
}

static qn_status scan_edit(scanner *s, const char *target, qni_edit *edit, uint64_t *out_digest,
                           qn_error *err)
{
    uint64_t parts[6];
    bool is_zero_a, is_zero_b, is_zero_m;
    QN_TRY(make_woven_room(s, edit, err));
    QN_TRY(scan_matrix(s, &edit->a, edit->a.n_rows, &parts[0], &is_zero_a, err));
    QN_TRY(scan_matrix(s, &edit->b, edit->n_rows, &parts[1], &is_zero_b, err));
    QN_TRY(scan_matrix(s, &edit->magnitude, edit->magnitude.n_rows, &parts[2], &is_zero_m, err));
    parts[3] = (uint64_t)edit->first_row;
    parts[4] = (uint64_t)edit->kind;
    parts[5] = qni_f32_bits(edit->own_scale);
    edit->is_zero = edit->kind == QNI_PART_PAIR && edit->magnitude.tensor == NULL &&
                    (is_zero_a || is_zero_b || edit->scale == 0.0f);
    *out_digest = qni_hash64(parts, sizeof parts, qni_hash64(target, strlen(target), 0));
    return QN_OK;
}

static qn_status scan_all(scanner *s, qn_merge *merge, qn_error *err)
{
    for (int64_t i = 0; i < merge->model.n_tensors; i++) {
        qni_edits *edits = &merge->edits[i];
        for (int64_t k = 0; k < edits->n; k++) {
            qni_adapter *adapter = &merge->adapters[edits->list[k].adapter];
            uint64_t digest;
            const qn_status st =
                scan_edit(s, merge->model.tensors[i].name, &edits->list[k], &digest, err);
            if (st != QN_OK) {
                return qni_fail_path(err, st, adapter->path);
            }
            edits->digest += digest;
            adapter->digest += edits->list[k].is_repeat ? 0 : digest;
        }
    }
    return QN_OK;
}

qn_status qni_merge_scan(qn_merge *merge, qn_error *err)
{
    scanner s = {.merge = merge};
    s.room = qni_alloc_zeroed(merge->allocator, sizeof *s.room);
    if (s.room == NULL) {
        return qni_fail_memory(err, sizeof *s.room);
    }
    const qn_status st = scan_all(&s, merge, err);
    qni_free(merge->allocator, s.values, (size_t)s.n_values * sizeof *s.values);
    qni_free(merge->allocator, s.room->woven, (size_t)s.room->n_woven_max * sizeof(float));
    qni_free(merge->allocator, s.room, sizeof *s.room);
    return st;
}

/* imatrix.c — importance matrices: both file forms, normalised to what the encoders get.
 *
 *     .dat   i32 n_entries; each: i32 n_name, name, i32 n_calls, i32 n_values, f32 values;
 *            optionally i32 n_chunks, i32 n_dataset, dataset. Values were multiplied by n_calls.
 *     GGUF   NAME.in_sum2 [ne0, experts] and NAME.counts [1, experts], f32: sums of squares and the
 *            numbers of tokens that they are sums over. */
#include <math.h>

#include "model/imatrix_internal.h"
#include "quench/gguf.h"

#define MAX_FILE_BYTES (INT64_C(64) << 30)

typedef struct entry {
    const char *name;
    int64_t n_name;
    float *values;
    int64_t n_values;
} entry;

struct qn_imatrix {
    const qn_allocator *allocator;
    qni_arena arena;
    entry *entries;
    int64_t n_entries;
    qni_strmap by_name;
    int64_t n_chunks;
    const char *dataset;
    bool is_gguf;
};

/* --- parts that both forms share -------------------------------------------------------------- */

static qn_status reserve(qn_imatrix *m, int64_t n_entries, qn_error *err)
{
    int64_t n_bytes;
    QN_CHECK(qni_mul_i64(n_entries, (int64_t)sizeof(entry), &n_bytes), err, QN_ERR_INVALID_IMATRIX,
             -1, "%" PRId64 " entries are too many", n_entries);
    m->entries = qni_arena_alloc(&m->arena, (size_t)n_bytes);
    if (m->entries == NULL) {
        return qni_fail_memory(err, (size_t)n_bytes);
    }
    return qni_strmap_reserve(&m->by_name, n_entries, err);
}

/* An entry with room for n values; one of the same name is replaced. */
static qn_status add_entry(qn_imatrix *m, const char *name, int64_t n_name, int64_t n_values,
                           entry **out_entry, qn_error *err)
{
    const char *copy = qni_arena_copy(&m->arena, name, (size_t)n_name);
    float *values = qni_arena_alloc(&m->arena, (size_t)n_values * sizeof *values);
    if (copy == NULL || values == NULL) {
        return qni_fail_memory(err, (size_t)n_values * sizeof *values);
    }
    memset(values, 0, (size_t)n_values * sizeof *values);
    int64_t at;
    QN_TRY(qni_strmap_add(&m->by_name, copy, n_name, m->n_entries, &at, err));
    entry *e = &m->entries[at < 0 ? m->n_entries++ : at];
    *e = (entry){at < 0 ? copy : e->name, n_name, values, n_values};
    *out_entry = e;
    return QN_OK;
}

static qn_status check_finite(const entry *e, qn_error *err)
{
    for (int64_t i = 0; i < e->n_values; i++) {
        qni_name_text text;
        QN_CHECK(isfinite(e->values[i]), err, QN_ERR_INVALID_IMATRIX, -1,
                 "value %" PRId64 " of entry %s is not finite; make the matrix again", i,
                 qni_escape_name(e->name, e->n_name, &text));
    }
    return QN_OK;
}

/* --- the .dat form ---------------------------------------------------------------------------- */

/* Which part of the file is being read, for messages. */
typedef struct dat_place {
    int32_t number; /* of the entry, from 1; 0: what follows the entries */
    int32_t n_entries;
    const char *name; /* of the entry, escaped; NULL: not read yet */
} dat_place;

static qn_status refuse_cut(const qni_cursor *cur, const dat_place *place, const char *what,
                            qn_error *err)
{
    const int64_t n_left = qni_cursor_left(cur);
    if (place->number == 0) {
        return qni_fail(err, QN_ERR_INVALID_IMATRIX, cur->pos,
                        "the file ends inside the %s: %" PRId64
                        " of 4 bytes are there; it is cut: copy or make the matrix again",
                        what, n_left);
    }
    return qni_fail(err, QN_ERR_INVALID_IMATRIX, cur->pos,
                    "the file ends inside entry %d of %d%s%s: %" PRId64
                    " of the 4 bytes of its %s are there, at byte %" PRId64
                    "; it is cut: copy or make the matrix again",
                    (int)place->number, (int)place->n_entries, place->name != NULL ? ", " : "",
                    place->name != NULL ? place->name : "", n_left, what, cur->pos);
}

static qn_status take_i32(qni_cursor *cur, const dat_place *place, const char *what, int32_t *out,
                          qn_error *err)
{
    uint32_t bits;
    *out = 0;
    if (qni_cursor_left(cur) < 4) {
        return refuse_cut(cur, place, what, err);
    }
    QN_TRY(qni_cursor_u32(cur, &bits, what, err));
    *out = (int32_t)bits;
    return QN_OK;
}

static qn_status parse_dat_entry(qn_imatrix *m, qni_cursor *cur, dat_place place, qn_error *err)
{
    int32_t n_name, n_calls, n_values;
    const uint8_t *name, *values;
    const int64_t start = cur->pos;
    QN_TRY(take_i32(cur, &place, "name's length", &n_name, err));
    QN_CHECK(n_name > 0 && n_name <= qni_cursor_left(cur), err, QN_ERR_INVALID_IMATRIX, start,
             "entry %d of %d, at byte %" PRId64 ", has a name of %d bytes, but %" PRId64
             " are left; this is no importance matrix, or it is cut",
             (int)place.number, (int)place.n_entries, start, (int)n_name, qni_cursor_left(cur));
    QN_TRY(qni_cursor_take(cur, n_name, &name, "name of an entry", err));
    qni_name_text text;
    place.name = qni_escape_name((const char *)name, n_name, &text);
    QN_TRY(take_i32(cur, &place, "number of calls", &n_calls, err));
    QN_TRY(take_i32(cur, &place, "number of values", &n_values, err));
    QN_CHECK(
        n_values >= 1 && n_values <= qni_cursor_left(cur) / 4, err, QN_ERR_INVALID_IMATRIX, start,
        "entry %s announces %d values, but %" PRId64 " bytes are left; the file is cut or damaged",
        text.text, n_values, qni_cursor_left(cur));
    QN_TRY(qni_cursor_take(cur, (int64_t)n_values * 4, &values, "values of an entry", err));
    entry *e;
    QN_TRY(add_entry(m, (const char *)name, n_name, n_values, &e, err));
    for (int32_t i = 0; i < n_values; i++) {
        const float value = qni_load_f32le(values + (size_t)i * 4);
        e->values[i] = n_calls > 0 ? value / (float)n_calls : value;
    }
    return check_finite(e, err);
}

static qn_status parse_dat_trailer(qn_imatrix *m, qni_cursor *cur, qn_error *err)
{
    const dat_place place = {.number = 0};
    int32_t n_chunks, n_dataset;
    const uint8_t *dataset;
    if (qni_cursor_left(cur) == 0) {
        return QN_OK;
    }
    QN_TRY(take_i32(cur, &place, "number of chunks", &n_chunks, err));
    m->n_chunks = n_chunks;
    if (qni_cursor_left(cur) == 0) {
        return QN_OK;
    }
    QN_TRY(take_i32(cur, &place, "length of the data set's name", &n_dataset, err));
    if (n_dataset <= 0) {
        return QN_OK;
    }
    QN_CHECK(n_dataset <= qni_cursor_left(cur), err, QN_ERR_INVALID_IMATRIX, cur->pos,
             "the file ends inside the name of the data set: %" PRId64
             " of %d bytes are there; it is cut: copy or make the matrix again",
             qni_cursor_left(cur), (int)n_dataset);
    QN_TRY(qni_cursor_take(cur, n_dataset, &dataset, "name of the data set", err));
    m->dataset = qni_arena_copy(&m->arena, dataset, (size_t)n_dataset);
    return m->dataset != NULL ? QN_OK : qni_fail_memory(err, (size_t)n_dataset);
}

static qn_status parse_dat(qn_imatrix *m, const void *bytes, size_t n_bytes, qn_error *err)
{
    qni_cursor cur = {.bytes = bytes, .n_bytes = (int64_t)n_bytes};
    const dat_place head = {.number = 0};
    int32_t n_entries;
    QN_TRY(take_i32(&cur, &head, "number of entries", &n_entries, err));
    QN_CHECK(n_entries >= 1, err, QN_ERR_INVALID_IMATRIX, 0,
             "%d entries are announced; this is no importance matrix", (int)n_entries);
    /* the smallest entry has a name of 1 byte and 1 value: no more than this many can be there */
    QN_TRY(reserve(m, qni_min_i64(n_entries, qni_cursor_left(&cur) / 17 + 1), err));
    for (int32_t i = 0; i < n_entries; i++) {
        const dat_place place = {.number = i + 1, .n_entries = n_entries};
        QN_TRY(parse_dat_entry(m, &cur, place, err));
    }
    return parse_dat_trailer(m, &cur, err);
}

/* --- the GGUF form ---------------------------------------------------------------------------- */

#define SUMS   ".in_sum2"
#define COUNTS ".counts"

static bool has_suffix(const qn_tensor_info *tensor, const char *suffix, int64_t *out_n_base)
{
    const int64_t n_suffix = (int64_t)strlen(suffix);
    *out_n_base = tensor->n_name - n_suffix;
    return *out_n_base > 0 && memcmp(tensor->name + *out_n_base, suffix, (size_t)n_suffix) == 0;
}

static float value_at(const qn_tensor_info *tensor, int64_t i, bool is_big_endian)
{
    uint32_t bits = qni_load_u32le((const uint8_t *)tensor->data + (size_t)i * 4);
    if (is_big_endian) {
        bits = bits >> 24 | (bits >> 8 & 0xFF00u) | (bits << 8 & 0xFF0000u) | bits << 24;
    }
    return qni_f32_from_bits(bits);
}

/* The other half of a pair: the tensor called base + suffix. */
static const qn_tensor_info *partner(const qn_gguf *gguf, const char *base, int64_t n_base,
                                     const char *suffix)
{
    char name[1024];
    const int64_t n_name = n_base + (int64_t)strlen(suffix);
    if (n_name >= (int64_t)sizeof name) {
        return NULL; /* no tensor has such a name */
    }
    memcpy(name, base, (size_t)n_base); /* names may hold a NUL */
    memcpy(name + n_base, suffix, strlen(suffix) + 1);
    const int64_t at = qn_gguf_find_tensor(gguf, name, n_name);
    return at >= 0 ? qn_gguf_tensor(gguf, at) : NULL;
}

static void normalise(const qn_tensor_info *sums, const qn_tensor_info *counts, bool is_big_endian,
                      entry *e)
{
    const int64_t n_counts = counts->n_bytes / 4;
    const int64_t ne0 = e->n_values / n_counts;
    for (int64_t j = 0; j < n_counts; j++) {
        const float count = roundf(value_at(counts, j, is_big_endian));
        for (int64_t i = j * ne0; i < (j + 1) * ne0; i++) {
            e->values[i] = count > 0 ? value_at(sums, i, is_big_endian) / count : 1.0f;
        }
    }
}

static qn_status parse_pair(qn_imatrix *m, const qn_gguf *gguf, const qn_tensor_info *sums,
                            int64_t n_base, qn_error *err)
{
    qni_name_text text;
    (void)qni_escape_name(sums->name, n_base, &text);
    const qn_tensor_info *counts = partner(gguf, sums->name, n_base, COUNTS);
    QN_CHECK(counts != NULL, err, QN_ERR_INVALID_IMATRIX, sums->file_offset,
             "entry %s has sums but no counts; make the matrix again", text.text);
    QN_CHECK(sums->dtype == QN_DTYPE_F32 && counts->dtype == QN_DTYPE_F32, err,
             QN_ERR_INVALID_IMATRIX, sums->file_offset,
             "entry %s is stored as %s and %s, but both must be f32", text.text,
             qn_dtype_name(sums->dtype), qn_dtype_name(counts->dtype));
    QN_CHECK(sums->n_bytes > 0 && counts->n_bytes > 0, err, QN_ERR_INVALID_IMATRIX,
             sums->file_offset, "entry %s is empty; make the matrix again", text.text);
    QN_CHECK(sums->data != NULL && counts->data != NULL, err, QN_ERR_INVALID_IMATRIX,
             sums->file_offset, "the values of entry %s are not in the file", text.text);
    entry *e;
    QN_TRY(add_entry(m, sums->name, n_base, sums->n_bytes / 4, &e, err));
    normalise(sums, counts, qn_gguf_is_big_endian(gguf), e);
    return check_finite(e, err);
}

static qn_status parse_gguf_tensors(qn_imatrix *m, const qn_gguf *gguf, qn_error *err)
{
    const int64_t n = qn_gguf_n_tensors(gguf);
    QN_TRY(reserve(m, n, err));
    for (int64_t i = 0; i < n; i++) {
        const qn_tensor_info *tensor = qn_gguf_tensor(gguf, i);
        int64_t n_base;
        qni_name_text text;
        if (has_suffix(tensor, SUMS, &n_base)) {
            QN_TRY(parse_pair(m, gguf, tensor, n_base, err));
        } else if (has_suffix(tensor, COUNTS, &n_base)) {
            QN_CHECK(partner(gguf, tensor->name, n_base, SUMS) != NULL, err, QN_ERR_INVALID_IMATRIX,
                     tensor->file_offset, "entry %s has counts but no sums; make the matrix again",
                     qni_escape_name(tensor->name, n_base, &text));
        }
    }
    QN_CHECK(m->n_entries > 0, err, QN_ERR_INVALID_IMATRIX, -1,
             "this GGUF holds no importance entries (tensors NAME.in_sum2 and NAME.counts)");
    return QN_OK;
}

static qn_status parse_gguf_keys(qn_imatrix *m, const qn_gguf *gguf, qn_error *err)
{
    static const char advice[] = "; make the matrix again with a current llama-imatrix";
    uint32_t n_chunks, chunk_size;
    qn_gguf_array datasets;
    qn_gguf_string first;
    QN_CHECK(qn_gguf_get_u32(gguf, "imatrix.chunk_count", &n_chunks, NULL) == QN_OK, err,
             QN_ERR_INVALID_IMATRIX, -1, "the key imatrix.chunk_count is missing or no u32%s",
             advice);
    QN_CHECK(qn_gguf_get_u32(gguf, "imatrix.chunk_size", &chunk_size, NULL) == QN_OK, err,
             QN_ERR_INVALID_IMATRIX, -1, "the key imatrix.chunk_size is missing or no u32%s",
             advice);
    QN_CHECK(qn_gguf_get_array(gguf, "imatrix.datasets", &datasets, NULL) == QN_OK &&
                 datasets.elem_type == QN_GGUF_STRING,
             err, QN_ERR_INVALID_IMATRIX, -1,
             "the key imatrix.datasets is missing or no array of strings%s", advice);
    m->n_chunks = n_chunks;
    if (datasets.n_elems > 0 && qn_gguf_array_string(&datasets, 0, &first, NULL) == QN_OK) {
        m->dataset = qni_arena_copy(&m->arena, first.bytes, (size_t)first.n_bytes);
        return m->dataset != NULL ? QN_OK : qni_fail_memory(err, (size_t)first.n_bytes);
    }
    return QN_OK;
}

static qn_status parse_gguf(qn_imatrix *m, const void *bytes, size_t n_bytes, qn_error *err)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.allocator = m->allocator;
    qn_gguf *gguf;
    m->is_gguf = true;
    QN_TRY(qn_gguf_parse(bytes, (int64_t)n_bytes, &options, &gguf, err));
    qn_status st = parse_gguf_tensors(m, gguf, err);
    if (st == QN_OK) {
        st = parse_gguf_keys(m, gguf, err);
    }
    qn_gguf_close(gguf);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

qn_status qn_imatrix_parse(const void *bytes, size_t n_bytes, const qn_allocator *allocator,
                           qn_imatrix **out_imatrix, qn_error *err)
{
    *out_imatrix = NULL;
    QN_CHECK(bytes != NULL && n_bytes > 0 && n_bytes <= INT64_MAX, err, QN_ERR_INVALID_IMATRIX, 0,
             "the importance matrix is empty");
    qn_imatrix *m = qni_alloc_zeroed(allocator, sizeof *m);
    if (m == NULL) {
        return qni_fail_memory(err, sizeof *m);
    }
    m->allocator = allocator;
    m->arena.allocator = allocator;
    qni_strmap_init(&m->by_name, allocator);
    const bool is_gguf = n_bytes >= 4 && memcmp(bytes, "GGUF", 4) == 0;
    const qn_status st =
        is_gguf ? parse_gguf(m, bytes, n_bytes, err) : parse_dat(m, bytes, n_bytes, err);
    if (st != QN_OK) {
        qn_imatrix_free(m);
        return st;
    }
    *out_imatrix = m;
    return QN_OK;
}

qn_status qn_imatrix_open(const char *path, const qn_allocator *allocator, qn_imatrix **out_imatrix,
                          qn_error *err)
{
    *out_imatrix = NULL;
    QN_CHECK(path != NULL, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the path of the importance matrix is missing");
    uint8_t *bytes;
    int64_t n_bytes;
    QN_TRY(qni_file_read_all(path, allocator, MAX_FILE_BYTES, &bytes, &n_bytes, err));
    const qn_status st = qn_imatrix_parse(bytes, (size_t)n_bytes, allocator, out_imatrix, err);
    qni_free(allocator, bytes, (size_t)n_bytes);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

void qn_imatrix_free(qn_imatrix *imatrix)
{
    if (imatrix == NULL) {
        return;
    }
    qni_strmap_free(&imatrix->by_name);
    qni_arena_free(&imatrix->arena);
    qni_free(imatrix->allocator, imatrix, sizeof *imatrix);
}

/* --- filtering and looking -------------------------------------------------------------------- */

static bool contains_any(const char *name, const char *const *parts, int32_t n_parts)
{
    for (int32_t i = 0; i < n_parts; i++) {
        if (strstr(name, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

qn_status qn_imatrix_filter(qn_imatrix *imatrix, const char *const *include, int32_t n_include,
                            const char *const *exclude, int32_t n_exclude, qn_error *err)
{
    QN_CHECK(n_include <= 0 || n_exclude <= 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "including and excluding entries of the matrix exclude each other");
    int64_t n_kept = 0;
    for (int64_t i = 0; i < imatrix->n_entries; i++) {
        const char *name = imatrix->entries[i].name;
        const bool is_kept = (n_include <= 0 || contains_any(name, include, n_include)) &&
                             !contains_any(name, exclude, n_exclude);
        if (is_kept) {
            imatrix->entries[n_kept++] = imatrix->entries[i];
        }
    }
    imatrix->n_entries = n_kept;
    qni_strmap_free(&imatrix->by_name);
    qni_strmap_init(&imatrix->by_name, imatrix->allocator);
    for (int64_t i = 0; i < n_kept; i++) {
        const entry *e = &imatrix->entries[i];
        int64_t existing;
        QN_TRY(qni_strmap_add(&imatrix->by_name, e->name, e->n_name, i, &existing, err));
    }
    return QN_OK;
}

int64_t qn_imatrix_n_entries(const qn_imatrix *imatrix)
{
    return imatrix->n_entries;
}

bool qn_imatrix_entry(const qn_imatrix *imatrix, int64_t index, const char **out_name,
                      int64_t *out_n_name, const float **out_values, int64_t *out_n_values)
{
    if (index < 0 || index >= imatrix->n_entries) {
        return false;
    }
    const entry *e = &imatrix->entries[index];
    *out_name = e->name;
    *out_n_name = e->n_name;
    *out_values = e->values;
    *out_n_values = e->n_values;
    return true;
}

const float *qni_imatrix_find(const qn_imatrix *imatrix, const char *name, int64_t n_name,
                              int64_t *out_n_values)
{
    *out_n_values = 0;
    const int64_t at = qni_strmap_find(&imatrix->by_name, name, n_name);
    if (at < 0) {
        return NULL;
    }
    *out_n_values = imatrix->entries[at].n_values;
    return imatrix->entries[at].values;
}

int64_t qn_imatrix_n_chunks(const qn_imatrix *imatrix)
{
    return imatrix->n_chunks;
}

const char *qn_imatrix_dataset(const qn_imatrix *imatrix)
{
    return imatrix->dataset;
}

bool qn_imatrix_is_gguf(const qn_imatrix *imatrix)
{
    return imatrix->is_gguf;
}

static bool may_lack_entry(const qn_tensor_info *tensor)
{
    return strcmp(tensor->name, "token_embd.weight") == 0 ||
           strcmp(tensor->name, "per_layer_token_embd.weight") == 0;
}

qn_status qni_imatrix_weights(const qn_imatrix *imatrix, const qn_tensor_info *tensor,
                              const float **out_weights, int64_t *out_n, qn_error *err)
{
    *out_weights = NULL;
    *out_n = 0;
    if (imatrix == NULL) {
        return QN_OK;
    }
    int64_t n_values;
    const float *values = qni_imatrix_find(imatrix, tensor->name, tensor->n_name, &n_values);
    int64_t n_expected;
    const int64_t n_slices = tensor->n_dims > 2 ? tensor->ne[2] : 1;
    QN_CHECK(qni_mul_i64(tensor->ne[0], n_slices, &n_expected), err, QN_ERR_OVERFLOW, -1,
             "its shape is too large");
    if (values == NULL || (n_values != n_expected && may_lack_entry(tensor))) {
        return QN_OK;
    }
    QN_CHECK(n_values == n_expected, err, QN_ERR_INVALID_IMATRIX, -1,
             "its entry in the importance matrix has %" PRId64 " values, but it needs %" PRId64
             " x %" PRId64 "; the matrix was made for another model",
             n_values, tensor->ne[0], n_slices);
    *out_weights = values;
    *out_n = n_values;
    return QN_OK;
}

/* gguf_place.c — where tensors lie: inside the file, aligned, none over another. */
#include "gguf/gguf_internal.h"

typedef struct place {
    qni_gguf_part *part;
    const qn_gguf_options *options;
    qn_error *damage;
    qn_error *err;
    int64_t data_end; /* one past the last byte of any whole tensor */
} place;

qn_status qni_gguf_forgive(qn_status status, const qn_gguf_options *options, qn_error *damage,
                           const qn_error *err)
{
    if (!options->keep_damaged) {
        return status;
    }
    if (damage->status == QN_OK) {
        *damage = *err;
    }
    return QN_OK;
}

static qn_status forgive(const place *pl, qn_status st, qn_tensor_info *info, const qn_error *err)
{
    info->data = NULL;
    if (pl->err) {
        *pl->err = *err;
    }
    return qni_gguf_forgive(st, pl->options, pl->damage, err);
}

/* The end of all tensors as the directory has it; INT64_MAX if that overflows. Those before
 * `n_placed` have absolute offsets already. */
static int64_t announced_end(const qni_gguf_part *part, int64_t n_placed)
{
    int64_t end = part->shard.data_offset;
    for (int64_t i = 0; i < part->shard.n_tensors; i++) {
        const qn_tensor_info *info = &part->tensors[i];
        int64_t at = 0;
        const int64_t base = i < n_placed ? 0 : part->shard.data_offset;
        if (!qni_add_i64(info->file_offset, base, &at) ||
            !qni_add_i64(at, qni_max_i64(info->n_bytes, 0), &at)) {
            return INT64_MAX;
        }
        end = qni_max_i64(end, at);
    }
    return end;
}

/* The first tensor that is not whole; file_offset of later ones is still relative. */
QNI_COLD static qn_status fail_cut(const place *pl, int64_t index, int64_t announced)
{
    qn_tensor_info *info = &pl->part->tensors[index];
    const int64_t n_file = pl->part->shard.n_bytes;
    qni_name_text text;
    (void)qni_escape_name(info->name, info->n_name, &text);
    qn_error local = QN_ERROR_INIT;
    qn_status st = QN_OK;
    if (announced == INT64_MAX) {
        st = qni_fail(&local, QN_ERR_INVALID_TENSOR_INFO, -1,
                      "the data of tensor \"%s\" (number %" PRId64
                      ") lie past any possible end of the file of %" PRId64
                      " bytes: the directory is damaged",
                      text.text, index, n_file);
    } else {
        const int64_t missing = announced - n_file;
        st = qni_fail(&local, QN_ERR_INVALID_TENSOR_INFO, n_file,
                      "tensor \"%s\" is not whole: %" PRId64 " of %" PRId64
                      " bytes (%.2f GB) are missing; the file is cut short or incomplete: download "
                      "or export it again",
                      text.text, missing, announced, (double)missing / 1e9);
    }
    st = qni_fail_tensor(&local, st, index);
    return forgive(pl, st, info, &local);
}

QNI_COLD static qn_status fail_offset(const place *pl, int64_t index, qn_status status,
                                      const char *why, int64_t number)
{
    qn_tensor_info *info = &pl->part->tensors[index];
    qni_name_text text;
    qn_error local = QN_ERROR_INIT;
    qn_status st = qni_fail(&local, status, info->file_offset,
                            "tensor \"%s\" has offset %" PRId64 " in the data section, %s %" PRId64,
                            qni_escape_name(info->name, info->n_name, &text),
                            info->file_offset - pl->part->shard.data_offset, why, number);
    st = qni_fail_tensor(&local, st, index);
    return forgive(pl, st, info, &local);
}

/* --- overlap, for files whose tensors are not in order -----------------------------------------
 */

typedef struct span {
    int64_t start;
    int64_t index;
} span;

/* Bottom-up merge sort by start; `scratch` is as large as `spans`. */
static void sort_spans(span *spans, span *scratch, int64_t n)
{
    span *from = spans;
    span *to = scratch;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            const int64_t mid = qni_min_i64(low + width, n);
            const int64_t high = qni_min_i64(low + 2 * width, n);
            int64_t a = low;
            int64_t b = mid;
            for (int64_t k = low; k < high; k++) {
                const bool take_a = a < mid && (b >= high || from[a].start <= from[b].start);
                to[k] = take_a ? from[a++] : from[b++];
            }
        }
        span *other = from;
        from = to;
        to = other;
    }
    if (from != spans) {
        memcpy(spans, from, (size_t)n * sizeof *spans);
    }
}

static qn_status check_sorted(const place *pl, const span *spans, int64_t n)
{
    const qn_tensor_info *tensors = pl->part->tensors;
    int64_t last = -1; /* the tensor that reaches furthest so far */
    for (int64_t i = 0; i < n; i++) {
        const qn_tensor_info *info = &tensors[spans[i].index];
        const int64_t end = last < 0 ? 0 : tensors[last].file_offset + tensors[last].n_bytes;
        if (info->file_offset < end) {
            qni_name_text text;
            char why[QNI_NAME_MAX + 48];
            (void)snprintf(why, sizeof why, "inside \"%s\", which ends at",
                           qni_escape_name(tensors[last].name, tensors[last].n_name, &text));
            QN_TRY(fail_offset(pl, spans[i].index, QN_ERR_INVALID_TENSOR_INFO, why,
                               end - pl->part->shard.data_offset));
            continue;
        }
        last = spans[i].index;
    }
    return QN_OK;
}

static qn_status check_overlap(const place *pl)
{
    const qn_allocator *allocator = pl->options->allocator;
    const int64_t n = pl->part->shard.n_tensors;
    span *spans = qni_alloc_array(allocator, n, 2 * sizeof *spans);
    if (!spans) {
        return qni_fail_memory(pl->err, (size_t)n * 2 * sizeof *spans);
    }
    int64_t n_spans = 0;
    for (int64_t i = 0; i < n; i++) {
        const qn_tensor_info *info = &pl->part->tensors[i];
        if (info->n_bytes > 0 && info->data) {
            spans[n_spans++] = (span){info->file_offset, i};
        }
    }
    sort_spans(spans, spans + n, n_spans);
    const qn_status st = check_sorted(pl, spans, n_spans);
    qni_free(allocator, spans, (size_t)n * 2 * sizeof *spans);
    return st;
}

/* --- placing -----------------------------------------------------------------------------------
 */

/* Bounds and alignment of one tensor; makes its offset absolute. */
QNI_INLINE qn_status place_one(place *pl, int64_t index, int64_t *announced)
{
    qn_tensor_info *info = &pl->part->tensors[index];
    const qn_gguf_shard *shard = &pl->part->shard;
    const int64_t relative = info->file_offset;
    int64_t start = 0;
    int64_t end = 0;
    if (QNI_UNLIKELY(info->n_bytes < 0)) { /* of an unknown type, kept for looking at */
        info->file_offset = qni_add_i64(relative, shard->data_offset, &start) ? start : -1;
        return QN_OK;
    }
    const bool fits = qni_add_i64(relative, shard->data_offset, &start) &&
                      qni_add_i64(start, info->n_bytes, &end) && end <= shard->n_bytes;
    if (QNI_UNLIKELY(!fits)) {
        *announced = *announced >= 0 ? *announced : announced_end(pl->part, index);
        const qn_status st = fail_cut(pl, index, *announced);
        info->file_offset = start > 0 ? start : -1;
        return st;
    }
    info->file_offset = start;
    info->data = pl->part->bytes + start;
    if (QNI_UNLIKELY((relative & (shard->alignment - 1)) != 0)) {
        return fail_offset(pl, index, QN_ERR_INVALID_TENSOR_INFO,
                           "which is no multiple of the alignment of", shard->alignment);
    }
    pl->data_end = qni_max_i64(pl->data_end, end);
    return QN_OK;
}

/* Fill in the account of the file's bytes. */
static void account(const place *pl, int64_t n_tensor_bytes)
{
    qn_gguf_shard *shard = &pl->part->shard;
    const int64_t data_start = qni_min_i64(shard->data_offset, shard->n_bytes);
    const int64_t data_end = qni_max_i64(pl->data_end, data_start);
    shard->n_header_padding = data_start - shard->n_header_bytes;
    shard->n_tensor_bytes = n_tensor_bytes;
    shard->n_gap_bytes = data_end - data_start - n_tensor_bytes;
    shard->n_tail_bytes = shard->n_bytes - data_end;
}

qn_status qni_gguf_place_tensors(qni_gguf_part *part, const qn_gguf_options *options,
                                 qn_error *damage, qn_error *err)
{
    place pl = {part, options, damage, err, part->shard.data_offset};
    const int64_t n = part->shard.n_tensors;
    const int64_t alignment = part->shard.alignment;
    int64_t expected = part->shard.data_offset; /* if the file is as ggml wants it */
    int64_t previous_end = 0;
    int64_t n_tensor_bytes = 0;
    int64_t announced = -1;
    bool is_ascending = true;
    part->is_in_order = true;
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(place_one(&pl, i, &announced));
        const qn_tensor_info *info = &part->tensors[i];
        if (!info->data) {
            part->is_in_order = false;
            continue;
        }
        if (info->file_offset != expected) {
            part->is_in_order = false;
            if (options->strict) {
                QN_TRY(fail_offset(&pl, i, QN_ERR_STRICT, "where ggml expects",
                                   expected - part->shard.data_offset));
            }
        }
        is_ascending &= info->n_bytes == 0 || info->file_offset >= previous_end;
        previous_end = info->n_bytes > 0 ? info->file_offset + info->n_bytes : previous_end;
        n_tensor_bytes += info->n_bytes; /* cannot overflow while nothing overlaps */
        if (!qni_add_i64(expected, info->n_bytes, &expected) ||
            !qni_align_up_i64(expected, alignment, &expected)) {
            expected = -1;
        }
        if (QNI_UNLIKELY(n_tensor_bytes > part->shard.n_bytes)) {
            is_ascending = false; /* they must overlap: the sort below names the pair */
            n_tensor_bytes = part->shard.n_bytes;
        }
    }
    QN_CHECK(n == 0 || part->shard.data_offset <= part->shard.n_bytes || options->keep_damaged, err,
             QN_ERR_INVALID_TENSOR_INFO, part->shard.n_bytes,
             "the file ends before its data section, which begins at byte %" PRId64
             "; it is cut short or incomplete: download or export it again",
             part->shard.data_offset);
    if (!is_ascending) {
        QN_TRY(check_overlap(&pl));
    }
    account(&pl, n_tensor_bytes);
    return QN_OK;
}

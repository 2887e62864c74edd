/* st_access.c — what an open file hands out: tensors, bytes, slices, metadata. */
#include "safetensors/safetensors_internal.h"

/* --- files and metadata ----------------------------------------------------------------------- */

const qn_error *qn_safetensors_damage(const qn_safetensors *st, int64_t index)
{
    const int64_t n = (int64_t)(st->damages.n_bytes / sizeof(qn_error));
    const qn_error *damages = (const qn_error *)(const void *)st->damages.bytes;
    return index >= 0 && index < n ? &damages[index] : NULL;
}

int32_t qn_safetensors_n_shards(const qn_safetensors *st)
{
    return st->n_files;
}

const qn_safetensors_shard *qn_safetensors_shard_at(const qn_safetensors *st, int32_t index)
{
    return index >= 0 && index < st->n_files ? &st->files[index].shard : NULL;
}

bool qn_safetensors_is_sharded(const qn_safetensors *st)
{
    return st->is_sharded;
}

int64_t qn_safetensors_total_size(const qn_safetensors *st)
{
    return st->total_size;
}

int64_t qn_safetensors_n_entries(const qn_safetensors *st)
{
    return st->files[0].n_metadata;
}

const qn_safetensors_entry *qn_safetensors_entry_at(const qn_safetensors *st, int64_t index)
{
    const st_file *file = &st->files[0];
    return index >= 0 && index < file->n_metadata ? &file->metadata[index] : NULL;
}

const qn_safetensors_entry *qn_safetensors_find_entry(const qn_safetensors *st, const char *key)
{
    const st_file *file = &st->files[0];
    const size_t n_key = strlen(key);
    for (int64_t i = 0; i < file->n_metadata; i++) {
        const qn_safetensors_entry *entry = &file->metadata[i];
        if ((size_t)entry->n_key == n_key && memcmp(entry->key, key, n_key) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* --- tensors ---------------------------------------------------------------------------------- */

int64_t qn_safetensors_n_tensors(const qn_safetensors *st)
{
    return st->is_sharded ? st->n_refs : st->files[0].n_entries;
}

bool qni_st_entry_at(const qn_safetensors *st, int64_t index, const st_file **out_file,
                     const st_entry **out_entry)
{
    if (index < 0 || index >= qn_safetensors_n_tensors(st)) {
        return false;
    }
    *out_file = &st->files[st->is_sharded ? st->refs[index].file : 0];
    *out_entry = &(*out_file)->entries[st->is_sharded ? st->refs[index].entry : index];
    return true;
}

bool qn_safetensors_tensor_at(const qn_safetensors *st, int64_t index,
                              qn_safetensors_tensor *out_tensor)
{
    const st_file *file = NULL;
    const st_entry *entry = NULL;
    *out_tensor = (qn_safetensors_tensor){.dtype = QN_SAFETENSORS_NONE};
    if (!qni_st_entry_at(st, index, &file, &entry)) {
        return false;
    }
    const bool is_there = file->data && entry->begin + entry->n_bytes <= file->n_data_present;
    *out_tensor = (qn_safetensors_tensor){
        .name = entry->name,
        .n_name = (int64_t)entry->n_name,
        .dtype = (qn_safetensors_dtype)entry->dtype,
        .rank = (int32_t)entry->rank,
        .shape = file->dims + entry->first_dim,
        .n_elems = qni_st_n_elems(entry),
        .n_bytes = entry->n_bytes,
        .file_offset = file->shard.n_header_bytes + entry->begin,
        .shard = (int32_t)(file - st->files),
        .data = is_there ? file->data + entry->begin : NULL,
    };
    return true;
}

int64_t qn_safetensors_find(const qn_safetensors *st, const char *name, int64_t n_name)
{
    return st->is_sharded ? qni_strmap_find(&st->names, name, n_name)
                          : qni_st_find_name(&st->files[0], name, n_name);
}

qn_status qn_safetensors_get(const qn_safetensors *st, const char *name,
                             qn_safetensors_tensor *out_tensor, qn_error *err)
{
    const int64_t n_name = (int64_t)strlen(name);
    if (!qn_safetensors_tensor_at(st, qn_safetensors_find(st, name, n_name), out_tensor)) {
        qni_name_text text;
        return qni_fail(err, QN_ERR_TENSOR_NOT_FOUND, -1, "there is no tensor \"%s\"",
                        qni_escape_name(name, n_name, &text));
    }
    return QN_OK;
}

static qn_status get_at(const qn_safetensors *st, int64_t index, qn_safetensors_tensor *out_tensor,
                        qn_error *err)
{
    QN_CHECK(qn_safetensors_tensor_at(st, index, out_tensor), err, QN_ERR_INVALID_ARGUMENT, -1,
             "there is no tensor number %" PRId64 ", only %" PRId64, index,
             qn_safetensors_n_tensors(st));
    return QN_OK;
}

qn_status qn_safetensors_tensor_info(const qn_safetensors *st, int64_t index,
                                     qn_tensor_info *out_info, qn_error *err)
{
    qn_safetensors_tensor tensor;
    qn_dtype dtype = QN_DTYPE_NONE;
    *out_info = (qn_tensor_info){.dtype = QN_DTYPE_NONE};
    QN_TRY(get_at(st, index, &tensor, err));
    qn_status code = qn_safetensors_dtype_to_core(tensor.dtype, &dtype, err);
    if (code != QN_OK) {
        return qni_fail_tensor(err, code, index);
    }
    if (tensor.rank > QN_MAX_DIMS) {
        qni_name_text name;
        code = qni_fail(err, QN_ERR_INVALID_SHAPE, -1,
                        "tensor \"%s\" has %d dimensions; at most %d can be worked with",
                        qni_escape_name(tensor.name, tensor.n_name, &name), (int)tensor.rank,
                        QN_MAX_DIMS);
        return qni_fail_tensor(err, code, index);
    }
    *out_info = (qn_tensor_info){.name = tensor.name,
                                 .n_name = tensor.n_name,
                                 .dtype = dtype,
                                 .n_dims = tensor.rank,
                                 .n_bytes = tensor.n_bytes,
                                 .file_offset = tensor.file_offset,
                                 .shard = tensor.shard,
                                 .data = tensor.data};
    for (int32_t i = 0; i < QN_MAX_DIMS; i++) {
        out_info->ne[i] = i < tensor.rank ? tensor.shape[tensor.rank - 1 - i] : 1;
    }
    return QN_OK;
}

qn_status qn_safetensors_read(const qn_safetensors *st, int64_t index, int64_t byte_offset,
                              size_t n_bytes, void *out, qn_error *err)
{
    const st_file *file = NULL;
    const st_entry *entry = NULL;
    QN_CHECK(qni_st_entry_at(st, index, &file, &entry) && byte_offset >= 0 &&
                 byte_offset <= entry->n_bytes &&
                 n_bytes <= (uint64_t)(entry->n_bytes - byte_offset),
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "%zu bytes from byte %" PRId64 " of tensor number %" PRId64 " are not all inside it",
             n_bytes, byte_offset, index);
    const int64_t begin = entry->begin + byte_offset;
    const int64_t end = begin + (int64_t)n_bytes;
    if (end > file->n_data_present) {
        const qn_status code =
            qni_fail(err, QN_ERR_METADATA_INCOMPLETE_BUFFER, file->shard.n_header_bytes + begin,
                     "the file ends before these data; download it again");
        return qni_fail_path(err, code, file->shard.path);
    }
    if (n_bytes == 0) {
        return QN_OK;
    }
    if (file->data) {
        memcpy(out, file->data + begin, n_bytes);
        return QN_OK;
    }
    return qni_file_pread(&file->file, out, n_bytes, file->shard.n_header_bytes + begin, err);
}

/* --- slices ----------------------------------------------------------------------------------- */

/* A slice as a walk: runs of contiguous bytes, one for each index of the outer dimensions. */
typedef struct slice_plan {
    qn_safetensors_tensor tensor;
    int32_t n_outer; /* dimensions that are stepped through */
    int64_t elem_bytes;
    int64_t run_start; /* elements into the innermost sliced dimension's row */
    int64_t run_bytes;
    int64_t n_out_bytes;
} slice_plan;

static int64_t range_start(const qn_safetensors_range *ranges, int32_t n_ranges, int32_t dim)
{
    return dim < n_ranges ? ranges[dim].start : 0;
}

static int64_t range_end(const qn_safetensors_range *ranges, int32_t n_ranges, int32_t dim,
                         int64_t extent)
{
    return dim < n_ranges && ranges[dim].end != -1 ? ranges[dim].end : extent;
}

static qn_status check_ranges(const qn_safetensors_tensor *t, const qn_safetensors_range *ranges,
                              int32_t n_ranges, qn_error *err)
{
    qni_name_text name;
    QN_CHECK(n_ranges >= 0 && n_ranges <= t->rank, err, QN_ERR_INVALID_SLICE, -1,
             "%d ranges for tensor \"%s\" of %d dimensions", (int)n_ranges,
             qni_escape_name(t->name, t->n_name, &name), (int)t->rank);
    QN_CHECK(qn_safetensors_dtype_bits(t->dtype) % 8 == 0, err, QN_ERR_MISALIGNED_SLICE, -1,
             "tensor \"%s\" of %s cannot be sliced: its elements are not whole bytes",
             qni_escape_name(t->name, t->n_name, &name), qn_safetensors_dtype_tag(t->dtype));
    for (int32_t i = 0; i < n_ranges; i++) {
        const int64_t start = ranges[i].start;
        const int64_t end = range_end(ranges, n_ranges, i, t->shape[i]);
        QN_CHECK(start >= 0 && start <= end && end <= t->shape[i], err, QN_ERR_INVALID_SLICE, -1,
                 "range %" PRId64 ":%" PRId64
                 " lies outside dimension %d of tensor \"%s\", which has "
                 "%" PRId64,
                 start, end, (int)i, qni_escape_name(t->name, t->n_name, &name), t->shape[i]);
    }
    return QN_OK;
}

static qn_status plan_slice(const qn_safetensors *st, int64_t index,
                            const qn_safetensors_range *ranges, int32_t n_ranges, slice_plan *plan,
                            qn_error *err)
{
    *plan = (slice_plan){.n_outer = 0};
    QN_TRY(get_at(st, index, &plan->tensor, err));
    const qn_safetensors_tensor *t = &plan->tensor;
    QN_TRY(check_ranges(t, ranges, n_ranges, err));
    plan->elem_bytes = qn_safetensors_dtype_bits(t->dtype) / 8;
    /* Dimensions behind the last narrowed one are whole: together they are one run. */
    int32_t innermost = n_ranges - 1;
    while (innermost >= 0 && range_start(ranges, n_ranges, innermost) == 0 &&
           range_end(ranges, n_ranges, innermost, t->shape[innermost]) == t->shape[innermost]) {
        innermost--;
    }
    /* Products of parts of the shape: none is above n_bytes unless the tensor is empty. */
    int64_t tail_bytes = t->n_elems > 0 ? plan->elem_bytes : 0;
    for (int32_t i = innermost + 1; i < t->rank; i++) {
        tail_bytes *= t->n_elems > 0 ? t->shape[i] : 0;
    }
    plan->run_bytes = tail_bytes;
    if (innermost >= 0) {
        const int64_t start = range_start(ranges, n_ranges, innermost);
        const int64_t end = range_end(ranges, n_ranges, innermost, t->shape[innermost]);
        plan->run_start = start * tail_bytes;
        plan->run_bytes = (end - start) * tail_bytes;
        plan->n_outer = innermost;
    }
    plan->n_out_bytes = plan->run_bytes;
    for (int32_t i = 0; i < plan->n_outer; i++) {
        plan->n_out_bytes *=
            range_end(ranges, n_ranges, i, t->shape[i]) - range_start(ranges, n_ranges, i);
    }
    return QN_OK;
}

qn_status qn_safetensors_slice_bytes(const qn_safetensors *st, int64_t index,
                                     const qn_safetensors_range *ranges, int32_t n_ranges,
                                     int64_t *out_n_bytes, qn_error *err)
{
    slice_plan plan;
    *out_n_bytes = 0;
    QN_TRY(plan_slice(st, index, ranges, n_ranges, &plan, err));
    *out_n_bytes = plan.n_out_bytes;
    return QN_OK;
}

/* Bytes that one step in dimension `dim` moves. */
static void fill_strides(const slice_plan *plan, int64_t *strides)
{
    int64_t stride = plan->elem_bytes;
    for (int32_t i = plan->tensor.rank - 1; i >= 0; i--) {
        if (i < plan->n_outer) {
            strides[i] = stride;
        }
        stride *= plan->tensor.shape[i];
    }
}

static qn_status copy_runs(const qn_safetensors *st, int64_t index, const slice_plan *plan,
                           const qn_safetensors_range *ranges, int32_t n_ranges, int64_t *strides,
                           int64_t *at, uint8_t *out, qn_error *err)
{
    fill_strides(plan, strides);
    int64_t offset = plan->run_start;
    for (int32_t i = 0; i < plan->n_outer; i++) {
        at[i] = range_start(ranges, n_ranges, i);
        offset += at[i] * strides[i];
    }
    for (int64_t n_left = plan->n_out_bytes; n_left > 0; n_left -= plan->run_bytes) {
        QN_TRY(qn_safetensors_read(st, index, offset, (size_t)plan->run_bytes, out, err));
        out += plan->run_bytes;
        for (int32_t i = plan->n_outer - 1; i >= 0; i--) { /* step as an odometer does */
            const int64_t start = range_start(ranges, n_ranges, i);
            offset += strides[i];
            if (++at[i] < range_end(ranges, n_ranges, i, plan->tensor.shape[i])) {
                break;
            }
            offset -= (at[i] - start) * strides[i];
            at[i] = start;
        }
    }
    return QN_OK;
}

qn_status qn_safetensors_slice(const qn_safetensors *st, int64_t index,
                               const qn_safetensors_range *ranges, int32_t n_ranges, void *out,
                               int64_t n_out, qn_error *err)
{
    slice_plan plan;
    QN_TRY(plan_slice(st, index, ranges, n_ranges, &plan, err));
    QN_CHECK(n_out == plan.n_out_bytes, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the slice takes %" PRId64 " bytes, room for %" PRId64 " was given", plan.n_out_bytes,
             n_out);
    if (plan.n_out_bytes == 0) {
        return QN_OK;
    }
    const size_t n_scratch = (size_t)plan.n_outer * 2 * sizeof(int64_t);
    int64_t *scratch = qni_alloc(st->allocator, n_scratch);
    if (!scratch) {
        return qni_fail_memory(err, n_scratch);
    }
    const qn_status code =
        copy_runs(st, index, &plan, ranges, n_ranges, scratch, scratch + plan.n_outer, out, err);
    qni_free(st->allocator, scratch, n_scratch);
    return code;
}

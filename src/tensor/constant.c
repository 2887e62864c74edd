/* constant.c — making tensors, and widening them. */
#include "tensor/constant_internal.h"

static qn_status check_shape(qn_dtype dtype, const int64_t *ne, int32_t n_dims, int64_t n_bytes,
                             qn_error *err)
{
    int64_t n_expected = 0;
    QN_CHECK(n_dims >= 1 && n_dims <= QN_MAX_DIMS, err, QN_ERR_INVALID_SHAPE, -1,
             "%" PRId32 " dimensions: 1 to %d are possible", n_dims, QN_MAX_DIMS);
    QN_CHECK(ne, err, QN_ERR_INVALID_ARGUMENT, -1, "no dimensions were given");
    for (int32_t i = 0; i < n_dims; i++) {
        QN_CHECK(ne[i] > 0, err, QN_ERR_INVALID_SHAPE, -1, "dimension %" PRId32 " is %" PRId64, i,
                 ne[i]);
    }
    QN_TRY(qn_dtype_tensor_bytes(dtype, ne, n_dims, &n_expected, err));
    QN_CHECK(n_bytes == n_expected, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "%" PRId64 " bytes of %s, but the shape takes %" PRId64, n_bytes, qn_dtype_name(dtype),
             n_expected);
    return QN_OK;
}

qn_status qn_tensor_from_borrowed_blocks(qn_dtype dtype, const int64_t *ne, int32_t n_dims,
                                         const void *blocks, int64_t n_bytes,
                                         const qn_allocator *allocator, qn_tensor **out_tensor,
                                         qn_error *err)
{
    *out_tensor = NULL;
    QN_TRY(check_shape(dtype, ne, n_dims, n_bytes, err));
    QN_CHECK(blocks, err, QN_ERR_INVALID_ARGUMENT, -1, "no blocks were given");
    qn_tensor *tensor = qni_alloc_zeroed(allocator, sizeof *tensor);
    if (!tensor) {
        return qni_fail_memory(err, sizeof *tensor);
    }
    tensor->allocator = allocator;
    tensor->info = (qn_tensor_info){
        .dtype = dtype,
        .n_dims = n_dims,
        .n_bytes = n_bytes,
        .file_offset = -1,
        .data = blocks,
    };
    for (int32_t i = 0; i < QN_MAX_DIMS; i++) {
        tensor->info.ne[i] = i < n_dims ? ne[i] : 1;
    }
    *out_tensor = tensor;
    return QN_OK;
}

/* Room for the blocks, which the caller fills. */
static qn_status new_owned(qn_dtype dtype, const int64_t *ne, int32_t n_dims, int64_t n_bytes,
                           const qn_allocator *allocator, qn_tensor **out_tensor, qn_error *err)
{
    uint8_t *owned = qni_alloc(allocator, (size_t)n_bytes);
    if (!owned) {
        return qni_fail_memory(err, (size_t)n_bytes);
    }
    const qn_status st = qn_tensor_from_borrowed_blocks(dtype, ne, n_dims, owned, n_bytes,
                                                        allocator, out_tensor, err);
    if (st != QN_OK) {
        qni_free(allocator, owned, (size_t)n_bytes);
        return st;
    }
    (*out_tensor)->owned = owned;
    return QN_OK;
}

qn_status qn_tensor_from_blocks(qn_dtype dtype, const int64_t *ne, int32_t n_dims,
                                const void *blocks, int64_t n_bytes, const qn_allocator *allocator,
                                qn_tensor **out_tensor, qn_error *err)
{
    *out_tensor = NULL;
    QN_TRY(check_shape(dtype, ne, n_dims, n_bytes, err));
    QN_CHECK(blocks, err, QN_ERR_INVALID_ARGUMENT, -1, "no blocks were given");
    QN_TRY(new_owned(dtype, ne, n_dims, n_bytes, allocator, out_tensor, err));
    memcpy((*out_tensor)->owned, blocks, (size_t)n_bytes);
    return QN_OK;
}

qn_status qn_tensor_from_info(const qn_tensor_info *info, const qn_allocator *allocator,
                              qn_tensor **out_tensor, qn_error *err)
{
    *out_tensor = NULL;
    QN_CHECK(info, err, QN_ERR_INVALID_ARGUMENT, -1, "no tensor was given");
    QN_CHECK(info->data, err, QN_ERR_TENSOR_DATA_MISSING, -1,
             "the data are not in memory: open the file mapped");
    return qn_tensor_from_borrowed_blocks(info->dtype, info->ne, info->n_dims, info->data,
                                          info->n_bytes, allocator, out_tensor, err);
}

void qn_tensor_free(qn_tensor *tensor)
{
    if (!tensor) {
        return;
    }
    if (tensor->owned) {
        qni_free(tensor->allocator, tensor->owned, (size_t)tensor->info.n_bytes);
    }
    qni_free(tensor->allocator, tensor, sizeof *tensor);
}

qn_tensor_info qn_tensor_describe(const qn_tensor *tensor)
{
    return tensor->info;
}

bool qn_tensor_is_borrowed(const qn_tensor *tensor)
{
    return tensor->owned == NULL;
}

bool qn_tensor_requires_grad(const qn_tensor *tensor)
{
    (void)tensor;
    return false;
}

qn_status qn_tensor_materialize(const qn_tensor *tensor, const qn_allocator *allocator,
                                qn_tensor **out_tensor, qn_error *err)
{
    const qn_tensor_info *info = &tensor->info;
    return qn_tensor_from_blocks(info->dtype, info->ne, info->n_dims, info->data, info->n_bytes,
                                 allocator, out_tensor, err);
}

qn_status qn_tensor_to_f32(const qn_tensor *tensor, float *out, int64_t n_elems, qn_error *err)
{
    const qn_tensor_info *info = &tensor->info;
    const int64_t n_blocks = info->n_bytes / qn_dtype_block_bytes(info->dtype);
    const int64_t n_expected = n_blocks * qn_dtype_block_elems(info->dtype);
    QN_CHECK(n_elems == n_expected, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "room for %" PRId64 " elements, but the tensor has %" PRId64, n_elems, n_expected);
    return qn_decode(info->dtype, info->data, n_blocks, out, err);
}

qn_status qni_check_matrix(const qn_tensor *tensor, qn_error *err)
{
    QN_CHECK(tensor, err, QN_ERR_INVALID_ARGUMENT, -1, "no tensor was given");
    QN_CHECK(tensor->info.n_dims == 2, err, QN_ERR_INVALID_SHAPE, -1,
             "a tensor of %" PRId32 " dimensions, but two are needed", tensor->info.n_dims);
    return QN_OK;
}

qn_status qn_tensor_get_rows(const qn_tensor *tensor, const int64_t *picks, int64_t n_picks,
                             float *out, int64_t n_elems, qn_error *err)
{
    int64_t n_expected = 0;
    QN_TRY(qni_check_matrix(tensor, err));
    const qn_tensor_info *info = &tensor->info;
    QN_CHECK(n_picks > 0, err, QN_ERR_INVALID_SHAPE, -1, "%" PRId64 " row numbers", n_picks);
    QN_CHECK(qni_mul_i64(n_picks, info->ne[0], &n_expected) && n_elems == n_expected, err,
             QN_ERR_INVALID_DATA_LENGTH, -1,
             "room for %" PRId64 " elements, but %" PRId64 " rows of %" PRId64 " were asked for",
             n_elems, n_picks, info->ne[0]);
    return qn_get_rows(info->dtype, info->data, info->n_bytes, info->ne[0], picks, n_picks, out,
                       err);
}

static qn_status check_stack(const qn_tensor *const *tensors, int32_t n_tensors,
                             int64_t *out_n_rows, qn_error *err)
{
    *out_n_rows = 0;
    QN_CHECK(tensors && n_tensors > 0, err, QN_ERR_INVALID_ARGUMENT, -1, "no tensors were given");
    for (int32_t i = 0; i < n_tensors; i++) {
        QN_TRY(qni_check_matrix(tensors[i], err));
        const qn_tensor_info *first = &tensors[0]->info;
        const qn_tensor_info *info = &tensors[i]->info;
        QN_CHECK(info->dtype == first->dtype, err, QN_ERR_TYPE_MISMATCH, -1,
                 "tensor %" PRId32 " is %s, the first one %s", i, qn_dtype_name(info->dtype),
                 qn_dtype_name(first->dtype));
        QN_CHECK(info->ne[0] == first->ne[0], err, QN_ERR_SHAPE_MISMATCH, -1,
                 "rows of tensor %" PRId32 " have %" PRId64 " elements, of the first one %" PRId64,
                 i, info->ne[0], first->ne[0]);
        QN_CHECK(qni_add_i64(*out_n_rows, info->ne[1], out_n_rows), err, QN_ERR_OVERFLOW, -1,
                 "too many rows");
    }
    return QN_OK;
}

qn_status qn_tensor_concat_rows(const qn_tensor *const *tensors, int32_t n_tensors,
                                const qn_allocator *allocator, qn_tensor **out_tensor,
                                qn_error *err)
{
    int64_t n_rows = 0;
    int64_t n_bytes = 0;
    *out_tensor = NULL;
    QN_TRY(check_stack(tensors, n_tensors, &n_rows, err));
    const qn_tensor_info *first = &tensors[0]->info;
    const int64_t ne[2] = {first->ne[0], n_rows};
    QN_TRY(qn_dtype_tensor_bytes(first->dtype, ne, 2, &n_bytes, err));
    QN_TRY(new_owned(first->dtype, ne, 2, n_bytes, allocator, out_tensor, err));
    uint8_t *to = (*out_tensor)->owned;
    for (int32_t i = 0; i < n_tensors; i++) {
        memcpy(to, tensors[i]->info.data, (size_t)tensors[i]->info.n_bytes);
        to += tensors[i]->info.n_bytes;
    }
    return QN_OK;
}

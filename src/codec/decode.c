/* decode.c — blocks to f32, f16 and bf16; rows picked by number. */
#include "codec/codec.h"

bool qn_has_decoder(qn_dtype dtype)
{
    return qni_kernel_decode(dtype, QN_ISA_SCALAR) != NULL;
}

static qn_status find_kernel(qn_dtype dtype, qn_isa isa, qni_decode_fn *out_kernel, qn_error *err)
{
    *out_kernel = qni_kernel_decode(dtype, isa);
    if (QNI_LIKELY(*out_kernel != NULL)) {
        return QN_OK;
    }
    QN_TRY(qni_codec_check_dtype(dtype, err));
    return qni_fail(err, QN_ERR_DECODER_UNAVAILABLE, -1, "%s has no decoder", qn_dtype_name(dtype));
}

static qn_status check_buffers(const void *blocks, int64_t n_blocks, const void *out, qn_error *err)
{
    QN_CHECK(n_blocks >= 0, err, QN_ERR_INVALID_ARGUMENT, -1, "%" PRId64 " blocks", n_blocks);
    QN_CHECK(n_blocks == 0 || (blocks && out), err, QN_ERR_INVALID_ARGUMENT, -1,
             "no buffer was given");
    return QN_OK;
}

qn_status qn_decode(qn_dtype dtype, const void *blocks, int64_t n_blocks, float *out, qn_error *err)
{
    return qn_decode_isa(dtype, QN_ISA_BEST, blocks, n_blocks, out, err);
}

qn_status qn_decode_isa(qn_dtype dtype, qn_isa isa, const void *blocks, int64_t n_blocks,
                        float *out, qn_error *err)
{
    qni_decode_fn kernel;
    QN_TRY(find_kernel(dtype, isa, &kernel, err));
    QN_TRY(check_buffers(blocks, n_blocks, out, err));
    kernel(blocks, n_blocks, out);
    return QN_OK;
}

/* Decode and round, a piece at a time through a buffer that stays in the first-level cache. */
static void decode_pieces(qni_decode_fn decode, qni_encode_fn encode, qn_dtype dtype,
                          const uint8_t *from, int64_t n_blocks, uint8_t *out)
{
    enum { PIECE_ELEMS = 2048 };
    const int64_t n_elems = qn_dtype_block_elems(dtype);
    const int64_t n_bytes = qn_dtype_block_bytes(dtype);
    float buffer[PIECE_ELEMS];
    while (n_blocks > 0) {
        const int64_t n_here = qni_min_i64(n_blocks, PIECE_ELEMS / n_elems);
        decode(from, n_here, buffer);
        (void)encode(buffer, 1, n_here * n_elems, NULL, NULL, out); /* infinity is meant here */
        from += n_here * n_bytes;
        out += 2 * n_here * n_elems;
        n_blocks -= n_here;
    }
}

/* By the kernel that rounds on the way out, if there is one. */
static qn_status decode_rounded(qn_dtype dtype, qn_dtype to, qn_isa isa, qni_decode_16_fn direct,
                                const void *blocks, int64_t n_blocks, void *out, qn_error *err)
{
    qni_decode_fn decode;
    QN_TRY(find_kernel(dtype, isa, &decode, err));
    QN_TRY(check_buffers(blocks, n_blocks, out, err));
    if (direct) {
        direct(blocks, n_blocks, out);
    } else {
        decode_pieces(decode, qni_kernel_encode(to, isa), dtype, blocks, n_blocks, out);
    }
    return QN_OK;
}

qn_status qn_decode_f16(qn_dtype dtype, qn_isa isa, const void *blocks, int64_t n_blocks, void *out,
                        qn_error *err)
{
    return decode_rounded(dtype, QN_DTYPE_F16, isa, qni_kernel_decode_f16(dtype, isa), blocks,
                          n_blocks, out, err);
}

qn_status qn_decode_bf16(qn_dtype dtype, qn_isa isa, const void *blocks, int64_t n_blocks,
                         void *out, qn_error *err)
{
    return decode_rounded(dtype, QN_DTYPE_BF16, isa, qni_kernel_decode_bf16(dtype, isa), blocks,
                          n_blocks, out, err);
}

qn_status qn_get_rows(qn_dtype dtype, const void *table, int64_t n_table_bytes, int64_t row_len,
                      const int64_t *picks, int64_t n_picks, float *out, qn_error *err)
{
    qni_decode_fn kernel;
    QN_TRY(find_kernel(dtype, QN_ISA_BEST, &kernel, err));
    int64_t n_row_bytes = 0;
    QN_TRY(qn_dtype_row_bytes(dtype, row_len, &n_row_bytes, err));
    QN_CHECK(n_picks >= 0, err, QN_ERR_INVALID_ARGUMENT, -1, "%" PRId64 " row numbers", n_picks);
    if (n_picks == 0 || row_len == 0) {
        return QN_OK;
    }
    QN_CHECK(table && picks && out, err, QN_ERR_INVALID_ARGUMENT, -1, "no buffer was given");
    QN_CHECK(n_table_bytes >= 0 && n_table_bytes % n_row_bytes == 0, err,
             QN_ERR_INVALID_DATA_LENGTH, -1,
             "%" PRId64 " bytes are no whole number of %s rows of %" PRId64 " bytes", n_table_bytes,
             qn_dtype_name(dtype), n_row_bytes);
    const int64_t n_rows = n_table_bytes / n_row_bytes;
    const int64_t n_row_blocks = row_len / qn_dtype_block_elems(dtype);
    for (int64_t i = 0; i < n_picks; i++) {
        QN_CHECK(picks[i] >= 0 && picks[i] < n_rows, err, QN_ERR_INVALID_ARGUMENT, -1,
                 "row number %" PRId64 " at place %" PRId64 ": the table has %" PRId64 " rows",
                 picks[i], i, n_rows);
        kernel((const uint8_t *)table + picks[i] * n_row_bytes, n_row_blocks, out + i * row_len);
    }
    return QN_OK;
}

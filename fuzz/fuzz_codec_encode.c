/* fuzz_codec_encode.c — arbitrary floats through every encoder: non-finite ones are refused and
 * named; finite ones give the scalar referee's bytes and verdict on every instruction set, and what
 * is said to be good passes the row validator. Input: the type's id, flags (bit 0: weights), then
 * floats; weights first. */
#include <math.h>

#include "fuzz.h"

#include "quench/quench.h"

enum { N_ELEMS_MAX = 2048, N_BYTES_MAX = 2 + 4 * 2 * N_ELEMS_MAX };

/* Floats of the input; an exponent of all ones loses a bit when only finite values are wanted. */
static void load_floats(const uint8_t *bytes, int64_t n, bool finite, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, bytes + 4 * i, 4);
        if (finite && (bits & 0x7f800000u) == 0x7f800000u) {
            bits &= ~0x40000000u;
        }
        memcpy(&out[i], &bits, 4);
    }
}

static qn_status encode(qn_dtype dtype, qn_isa isa, const float *x, int64_t n, const float *weights,
                        uint8_t *out, bool *out_overflowed)
{
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = isa;
    options.allow_overflow = true;
    options.out_overflowed = out_overflowed;
    int64_t n_bytes = 0;
    qn_error err = QN_ERROR_INIT;
    qn_status status = qn_dtype_row_bytes(dtype, n, &n_bytes, &err);
    if (status == QN_OK) {
        status = qn_encode_rows(dtype, x, 1, n, weights, &options, out, n_bytes, &err);
    }
    require(status == QN_OK || err.message[0] != '\0', "a failure has a message");
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static float x[N_ELEMS_MAX], weight_buffer[N_ELEMS_MAX];
    static uint8_t want[4 * N_ELEMS_MAX], got[4 * N_ELEMS_MAX];
    if (n_bytes < 2 || n_bytes > N_BYTES_MAX) {
        return 0;
    }
    const qn_dtype dtype = (qn_dtype)((int)bytes[0] - 1);
    const bool has_weights = bytes[1] & 1;
    if (!qn_has_encoder(dtype)) {
        require(encode(dtype, QN_ISA_BEST, x, 0, NULL, want, NULL) != QN_OK, "no encoder");
        return 0;
    }
    const int64_t n_floats = (int64_t)(n_bytes - 2) / 4 / (has_weights ? 2 : 1);
    const int64_t n = n_floats / qn_dtype_block_elems(dtype) * qn_dtype_block_elems(dtype);
    const float *weights = has_weights ? weight_buffer : NULL;
    load_floats(bytes + 2, n, false, weight_buffer);
    load_floats(bytes + 2 + (has_weights ? 4 * n : 0), n, false, x);
    const bool is_finite =
        qn_find_non_finite(x, n) < 0 && (!weights || qn_find_non_finite(weights, n) < 0);
    if (!is_finite && (weights || qn_dtype_weights_use(dtype) != QN_WEIGHTS_REQUIRED)) {
        require(encode(dtype, QN_ISA_BEST, x, n, weights, want, NULL) == QN_ERR_NON_FINITE_VALUE,
                "non-finite values are refused");
    }
    load_floats(bytes + 2, n, true, weight_buffer);
    load_floats(bytes + 2 + (has_weights ? 4 * n : 0), n, true, x);
    bool overflowed = false;
    const qn_status status = encode(dtype, QN_ISA_SCALAR, x, n, weights, want, &overflowed);
    require(status == QN_OK || status == QN_ERR_ENCODE_FAILED || status == QN_ERR_MISSING_WEIGHTS,
            "finite values are encoded, or ggml would abort");
    const int64_t n_out = n / qn_dtype_block_elems(dtype) * qn_dtype_block_bytes(dtype);
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        bool also = false;
        if (!qn_isa_is_available(qn_isa_at(i))) {
            continue;
        }
        require(encode(dtype, qn_isa_at(i), x, n, weights, got, &also) == status,
                "instruction sets agree on the verdict");
        require(status != QN_OK || (also == overflowed && memcmp(want, got, (size_t)n_out) == 0),
                "instruction sets agree on the bytes");
    }
    if (status == QN_OK && dtype != QN_DTYPE_Q8_1) {
        require((qn_validate_rows(dtype, want, n_out, 0, 0, NULL) == QN_OK) == !overflowed,
                "the validator refuses exactly what has overflowed");
    }
    return 0;
}

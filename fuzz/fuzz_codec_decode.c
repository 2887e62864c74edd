/* fuzz_codec_decode.c — arbitrary bytes as blocks of any type: every instruction set gives the
 * scalar referee's floats; rounding and validating them does not fail in other ways than it may.
 * Input: the type's id, then blocks. */
#include <math.h>

#include "fuzz.h"

#include "quench/quench.h"

enum { N_BYTES_MAX = 4096, N_ELEMS_MAX = 8 * N_BYTES_MAX };

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static float want[N_ELEMS_MAX], got[N_ELEMS_MAX];
    static uint8_t rounded[2 * N_ELEMS_MAX];
    if (n_bytes < 1 || n_bytes > N_BYTES_MAX) {
        return 0;
    }
    const qn_dtype dtype = (qn_dtype)((int)bytes[0] - 1); /* -1: no type at all */
    const uint8_t *blocks = bytes + 1;
    if (!qn_has_decoder(dtype)) {
        require(qn_decode(dtype, blocks, 1, want, NULL) == QN_ERR_UNSUPPORTED_DTYPE,
                "a type that is none is refused");
        return 0;
    }
    const int64_t n_blocks = (int64_t)(n_bytes - 1) / qn_dtype_block_bytes(dtype);
    const int64_t n_elems = n_blocks * qn_dtype_block_elems(dtype);
    require(qn_decode_isa(dtype, QN_ISA_SCALAR, blocks, n_blocks, want, NULL) == QN_OK,
            "any bytes decode");
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        if (!qn_isa_is_available(qn_isa_at(i))) {
            continue;
        }
        require(qn_decode_isa(dtype, qn_isa_at(i), blocks, n_blocks, got, NULL) == QN_OK,
                "any bytes decode on every instruction set");
        for (int64_t k = 0; k < n_elems; k++) {
            require(same_float(want[k], got[k]), "instruction sets agree");
        }
    }
    require(qn_decode_f16(dtype, QN_ISA_BEST, blocks, n_blocks, rounded, NULL) == QN_OK, "f16");
    require(qn_decode_bf16(dtype, QN_ISA_BEST, blocks, n_blocks, rounded, NULL) == QN_OK, "bf16");
    qn_error err = QN_ERROR_INIT;
    const qn_status status =
        qn_validate_rows(dtype, blocks, n_blocks * qn_dtype_block_bytes(dtype), 0, 0, &err);
    require(status == QN_OK || err.message[0] != '\0', "a verdict has a message");
    return 0;
}

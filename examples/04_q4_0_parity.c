/* 04_q4_0_parity.c — a q4_0 encoder in forty lines, held to byte parity with the library's.
 *
 * q4_0 stores 32 weights in 18 bytes: a binary16 scale, then 32 four-bit codes. The code of a
 * weight is x / d + 8, and d is chosen so that the weight of largest magnitude gets code 0. What
 * makes a port exact is not the formula but its rounding:
 *   - d keeps the sign of the largest weight; of equal magnitudes the first one counts;
 *   - weights are multiplied by 1 / d, not divided by d;
 *   - codes are rounded by adding 8.5 and cutting off, so halves go up, towards +8;
 *   - code 16 is possible (the opposite end, exactly) and becomes 15;
 *   - codes come from the unrounded d, although the file holds a rounded one;
 *   - element i shares its byte with element i + 16, not with its neighbour. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quench/quench.h"

enum { BLOCK = 32, BLOCK_BYTES = 18, ROW_LEN = 4096, N_ROWS = 400 };

/* binary32 to binary16 for finite values: the library's f16 codec does it. */
static void put_f16(float value, uint8_t *out)
{
    if (qn_encode_rows(QN_DTYPE_F16, &value, 1, 1, NULL, NULL, out, 2, NULL) != QN_OK) {
        memset(out, 0xff, 2);
    }
}

static void encode_block(const float *x, uint8_t *out)
{
    float largest = 0.0f; /* with its sign */
    for (int i = 0; i < BLOCK; i++) {
        if (fabsf(x[i]) > fabsf(largest)) {
            largest = x[i];
        }
    }
    const float d = largest / -8.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    put_f16(d, out);
    for (int i = 0; i < BLOCK / 2; i++) {
        int low = (int)(x[i] * inverse + 8.5f);
        int high = (int)(x[i + BLOCK / 2] * inverse + 8.5f);
        low = low > 15 ? 15 : low;
        high = high > 15 ? 15 : high;
        out[2 + i] = (uint8_t)(low | high << 4);
    }
}

/* A few hundred random rows: sums of uniform numbers, every fourth row full of exact ties. */
static void fill_row(uint64_t *state, int row, float *x)
{
    for (int i = 0; i < ROW_LEN; i++) {
        int64_t sum = 0;
        for (int k = 0; k < 6; k++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u;
            sum += (int64_t)(*state >> 40) - (1 << 23);
        }
        x[i] = (float)sum * 0x1p-26f;
        if (row % 4 == 0) {
            x[i] = nearbyintf(x[i] * 16.0f) / 16.0f;
        }
    }
}

int main(void)
{
    static float x[ROW_LEN];
    static uint8_t mine[ROW_LEN / BLOCK * BLOCK_BYTES];
    static uint8_t theirs[ROW_LEN / BLOCK * BLOCK_BYTES];
    uint64_t state = 4;
    long n_differing = 0;
    for (int row = 0; row < N_ROWS; row++) {
        fill_row(&state, row, x);
        for (int b = 0; b < ROW_LEN / BLOCK; b++) {
            encode_block(x + BLOCK * b, mine + BLOCK_BYTES * b);
        }
        qn_error err = QN_ERROR_INIT;
        if (qn_encode_rows(QN_DTYPE_Q4_0, x, 1, ROW_LEN, NULL, NULL, theirs, sizeof theirs, &err) !=
            QN_OK) {
            (void)fprintf(stderr, "row %d: %s\n", row, err.message);
            return 1;
        }
        for (size_t i = 0; i < sizeof mine; i++) {
            if (mine[i] != theirs[i] && n_differing++ == 0) {
                (void)printf("first difference: row %d, block %zu, byte %zu: %02x, expected %02x\n",
                             row, i / BLOCK_BYTES, i % BLOCK_BYTES, mine[i], theirs[i]);
            }
        }
    }
    (void)printf("%d rows of %d weights: %ld bytes differ\n", N_ROWS, ROW_LEN, n_differing);
    return n_differing != 0;
}

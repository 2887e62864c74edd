/* What somebody who uses the library writes: encodes a row, decodes it, prints the version. */
#include <math.h>
#include <quench/codec.h>
#include <quench/quench.h>
#include <stdio.h>

int main(void)
{
    float row[32], back[32];
    unsigned char block[34];
    qn_error err = QN_ERROR_INIT;

    for (int i = 0; i < 32; i++) {
        row[i] = (float)(i - 16);
    }
    if (qn_encode_rows(QN_DTYPE_Q8_0, row, 1, 32, NULL, NULL, block, sizeof block, &err) != QN_OK ||
        qn_decode(QN_DTYPE_Q8_0, block, 1, back, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < 32; i++) {
        if (fabsf(row[i] - back[i]) > 0.07f) {
            fprintf(stderr, "element %d came back as %g\n", i, (double)back[i]);
            return 1;
        }
    }
    printf("quench %s\n", qn_version());
    return 0;
}

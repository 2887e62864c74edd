/* identical.c - do two providers' encoders give the same bytes? Seven value distributions, 1024 x
 * 4096 values each, no imatrix. build: gcc -O2 identical.c -o identical -ldl -lm     run:
 * ./identical -t q4_0,q8_0 A.so=ARG B.so=ARG */
#include "load.h"
int main(int argc, char **argv)
{
    int im = argc == 6 && !strcmp(argv[1], "-i");
    if (im) {
        argv++;
        argc--;
    }
    if (argc != 5 || strcmp(argv[1], "-t")) {
        fprintf(stderr, "usage: identical -t types A.so=ARG B.so=ARG\n");
        return 2;
    }
    const bench_provider *A = load_provider(argv[3]), *B = load_provider(argv[4]);
    static const char *dn[] = {"gauss",       "cauchy",      "uniform 0..1", "90% zeros",
                               "coarse grid", "tiny (5e-8)", "rare outliers"};
    enum { K = 4096, R = 1024 };
    float *x = malloc((size_t)K * R * 4);
    char *a = malloc((size_t)K * R * 4), *b = malloc((size_t)K * R * 4);
    int bad = 0;
    float *w = NULL;
    if (im) {
        w = malloc(K * 4);
        fill_gauss(w, K, 1.0f);
        for (int i = 0; i < K; i++)
            w[i] = w[i] * w[i] + 1e-3f;
    }
    for (int d = 0; d < 7; d++) {
        fill_gauss(x, (size_t)K * R, 0.05f);
        for (size_t i = 0; i < (size_t)K * R; i++) {
            float g[2];
            if (d == 1) {
                fill_gauss(g, 2, 1);
                x[i] /= fabsf(g[0]) + 1e-6f;
            }
            if (d == 2)
                x[i] = (float)rnd01();
            if (d == 3 && rnd01() < 0.9)
                x[i] = 0;
            if (d == 4)
                x[i] = 0.01f * rintf(x[i] * 100);
            if (d == 5)
                x[i] *= 1e-6f;
            if (d == 6 && i % 257 == 0)
                x[i] *= 100;
        }
        char *list = strdup(argv[2]), *sv = NULL;
        for (char *t = strtok_r(list, ",", &sv); t; t = strtok_r(NULL, ",", &sv)) {
            int ia = A->type_id(t), ib = B->type_id(t);
            if (ia < 0 || ib < 0 || (!w && A->needs_imatrix(ia)))
                continue;
            size_t nb = A->row_bytes(ia, K) * R, df = 0;
            memset(a, 0, nb);
            memset(b, 0, nb);
            A->encode(ia, x, a, R, K, w);
            B->encode(ib, x, b, R, K, w);
            for (size_t i = 0; i < nb; i++)
                df += a[i] != b[i];
            printf("%-14s %-8s %zu of %zu bytes differ\n", dn[d], t, df, nb);
            bad |= df != 0;
        }
        free(list);
    }
    return bad;
}

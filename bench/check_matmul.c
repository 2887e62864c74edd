#include "load.h"
int main(int argc, char **argv)
{
    const bench_provider *G = load_provider(argv[1]), *Q = load_provider(argv[2]);
    (void)argc;
    const char *ty[] = {"q4_0", "q8_0", "iq4_nl", "mxfp4", "q4_K", "q5_K",  "q6_K",
                        "q2_K", "q3_K", "q5_0",   "q4_1",  "q5_1", "iq4_xs"};
    for (int ti = 0; ti < 13; ti++) {
        int g = G->type_id(ty[ti]), q = Q->type_id(ty[ti]);
        double worst = 0, wg = 0, wd = 0;
        int cases = 0;
        for (int dist = 0; dist < 4; dist++)
            for (int sh = 0; sh < 6; sh++) {
                static const int MS[] = {1, 3, 8, 13, 32, 150}, NS[] = {64, 48, 32, 112, 64, 96},
                                 KS[] = {256, 768, 4096, 1280, 2304, 512};
                int M = MS[sh], N = NS[sh], K = KS[sh];
                float *w = malloc(4ul * N * K), *x = malloc(4ul * M * K);
                fill_gauss(w, (size_t)N * K, dist == 2 ? 30.f : 0.02f);
                fill_gauss(x, (size_t)M * K, 1.f);
                if (dist == 1)
                    for (long i = 0; i < (long)N * K; i++)
                        w[i] = w[i] * w[i] * w[i] * 100;
                if (dist >= 1)
                    for (long i = 0; i < (long)M * K; i += 37)
                        x[i] *= 20;
                if (dist == 3) {
                    for (long i = 0; i < (long)M * K; i++)
                        x[i] = (i & 1) ? 1.f : -1.f;
                    for (long i = 0; i < (long)N * K; i++)
                        w[i] = (i & 1) ? 0.1f : -0.1f;
                    for (long i = 0; i < 256 && i < (long)M * K; i++)
                        x[i] = 0;
                }
                size_t rb = G->row_bytes(g, K);
                char *wq = malloc(rb * N);
                G->encode(g, w, wq, N, K, NULL);
                void *hg = G->mm_new(g, wq, N, K, M, 0, 1, 1),
                     *hq = Q->mm_new(q, wq, N, K, M, 1, 1, 1);
                if (!hq)
                    continue;
                G->mm_set_x(hg, x);
                Q->mm_set_x(hq, x);
                G->mm_run(hg, 0);
                Q->mm_run(hq, 0);
                const float *yg = G->mm_y(hg, 0), *yq = Q->mm_y(hq, 0);
                float *wd_ = malloc(4ul * K), *xd = malloc(4ul * K);
                char *xq = malloc(8ul * K);
                int at = G->act_type(g);
                double e = 0, eg = 0, d = 0, n = 0;
                for (int m = 0; m < M; m++) {
                    G->act_quantizer(at)(x + (long)m * K, xq, K);
                    if (at == 15)
                        for (int i = 0; i < K; i++) {
                            const char *b = xq + i / 256 * 292;
                            float dd;
                            memcpy(&dd, b, 4);
                            xd[i] = dd * ((int8_t *)b)[4 + i % 256];
                        }
                    else if (at == 9)
                        for (int i = 0; i < K; i++) {
                            _Float16 h;
                            memcpy(&h, xq + i / 32 * 36, 2);
                            xd[i] = (float)h * ((int8_t *)xq)[i / 32 * 36 + 4 + i % 32];
                        }
                    else
                        G->decoder(8)(xq, xd, K);
                    for (int r = 0; r < N; r++) {
                        G->decoder(g)(wq + rb * r, wd_, K);
                        double s = 0, a = 0;
                        for (int k = 0; k < K; k++) {
                            double t = (double)wd_[k] * xd[k];
                            s += t;
                            a += fabs(t);
                        }
                        double b = fabs(s - yq[(long)m * N + r]) / (a + 1e-30),
                               c = fabs(s - yg[(long)m * N + r]) / (a + 1e-30),
                               f = fabs((double)yg[(long)m * N + r] - yq[(long)m * N + r]) /
                                   (a + 1e-30);
                        if (b > e)
                            e = b;
                        if (c > eg)
                            eg = c;
                        if (f > d)
                            d = f;
                        n++;
                    }
                }
                if (e > worst)
                    worst = e;
                if (eg > wg)
                    wg = eg;
                if (d > wd)
                    wd = d;
                cases++;
                Q->mm_free(hq);
                G->mm_free(hg);
                free(w);
                free(x);
                free(wq);
                free(wd_);
                free(xd);
                free(xq);
            }
        printf("%-7s cases %d  |y - float64 of quantized operands| / sum|terms|: sketch %.2e ggml "
               "%.2e ; sketch vs ggml %.2e\n",
               ty[ti], cases, worst, wg, wd);
    }
    return 0;
}

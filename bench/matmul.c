/* matmul.c - quantized matmul y[M][N] = x[M][K] * w[N][K]^T of one or more providers.
 * build: gcc -O2 matmul.c -o matmul -ldl -lm -pthread
 * run:   ./matmul [-t types] [-n N,..] [-k K] [-m M,M,..] [-j threads,..] [-l 0|1|01 layouts] [-b
 * seconds] [-h MB] PROVIDER.so=ARG ... Weights are kept in several distinct copies (together >= -h
 * MB, default 192) that are used in turn, so that at M=1 the weights come from memory as in a real
 * decode step. Layout 0 = as in the file, 1 = the library's repacked one. 1 thread: process CPU
 * time; more: wall time. Best and median of the repetitions; `busy` = CPU time / (threads * wall)
 * averaged: well below 1 means that someone else had the CPU (a 2-thread line should then be
 * measured again). */
#include "load.h"
enum { MAXP = 4, MAXR = 4001 };
static const bench_provider *P[MAXP];
static int np;

static int ints(const char *s, long *v)
{
    int n = 0;
    char *e;
    while (*s) {
        v[n++] = strtol(s, &e, 10);
        s = *e ? e + 1 : e;
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *types = "q4_0,q8_0,q4_K,q5_K,q6_K,iq4_nl,mxfp4,f16,bf16", *lay = "01";
    long Ns[8] = {4096, 11008}, Ms[16] = {1, 8, 32, 128, 512}, Js[4] = {1, 2}, K = 4096, hot = 192;
    int nN = 2, nM = 5, nJ = 2, cpu = 0;
    double budget = 1.0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-t"))
            types = argv[++i];
        else if (!strcmp(argv[i], "-n"))
            nN = ints(argv[++i], Ns);
        else if (!strcmp(argv[i], "-m"))
            nM = ints(argv[++i], Ms);
        else if (!strcmp(argv[i], "-j"))
            nJ = ints(argv[++i], Js);
        else if (!strcmp(argv[i], "-k"))
            K = atol(argv[++i]);
        else if (!strcmp(argv[i], "-l"))
            lay = argv[++i];
        else if (!strcmp(argv[i], "-b"))
            budget = atof(argv[++i]);
        else if (!strcmp(argv[i], "-c"))
            cpu = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-h"))
            hot = atol(argv[++i]);
        else if (np < MAXP)
            P[np++] = load_provider(argv[i]);
    }
    if (!np) {
        fprintf(stderr, "usage: matmul [options] PROVIDER.so=ARG...\n");
        return 2;
    }
    long maxM = 0, maxN = 0;
    for (int i = 0; i < nM; i++)
        if (Ms[i] > maxM)
            maxM = Ms[i];
    for (int i = 0; i < nN; i++)
        if (Ns[i] > maxN)
            maxN = Ns[i];
    int one = 1;
    for (int i = 0; i < nJ; i++)
        one &= Js[i] == 1;
    if (one)
        pin_cpu(cpu);
    float *x = big_alloc((size_t)(maxM * K) * 4, 0), *wf = big_alloc((size_t)(64 * K) * 4, 0),
          *wd = malloc((size_t)K * 4);
    fill_gauss(x, (size_t)(maxM * K), 1.0f);
    fill_gauss(wf, (size_t)(64 * K), 0.02f);
    char *w = big_alloc((size_t)(maxN * K) * 4, 0);
    static double v[MAXP][MAXR], busy[MAXP][MAXR];
    char *list = strdup(types), *sv = NULL;
    for (char *t = strtok_r(list, ",", &sv); t; t = strtok_r(NULL, ",", &sv)) {
        int id0 = P[0]->type_id(t);
        if (id0 < 0)
            continue;
        size_t rb = P[0]->row_bytes(id0, K);
        float *im = malloc((size_t)K * 4);
        for (long i = 0; i < K; i++)
            im[i] = 1.0f;
        P[0]->encode(id0, wf, w, 64, K,
                     P[0]->needs_imatrix(id0) ? im : NULL); /* 64 different rows, tiled */
        for (long r = 64; r < maxN; r++)
            memcpy(w + (size_t)r * rb, w + (size_t)(r & 63) * rb, rb);
        for (int a = 0; a < nN; a++)
            for (int j = 0; j < nJ; j++)
                for (int b = 0; b < nM; b++)
                    for (const char *l = lay; *l; l++) {
                        long N = Ns[a], M = Ms[b], J = Js[j];
                        size_t wb = rb * (size_t)N;
                        int copies = (int)(((size_t)hot << 20) / wb) + 1;
                        if (M >= 128 && copies > 2)
                            copies = 2;
                        void *h[MAXP];
                        for (int p = 0; p < np; p++) {
                            int id = P[p]->type_id(t);
                            h[p] = id >= 0 && P[p]->mm_new
                                       ? P[p]->mm_new(id, w, N, K, M, *l == '1', (int)J, copies)
                                       : NULL;
                            if (h[p])
                                P[p]->mm_set_x(h[p], x);
                        }
                        int n, any = 0;
                        for (int p = 0; p < np; p++)
                            any |= h[p] != NULL;
                        if (!any)
                            continue;
                        for (int p = 0; p < np; p++)
                            if (h[p])
                                for (int c = 0; c < copies; c++)
                                    P[p]->mm_run(h[p], c);
                        double start = now_s();
                        for (n = 0; n < MAXR && (n < 5 || now_s() - start < budget * np); n++)
                            for (int p = 0; p < np; p++)
                                if (h[p]) {
                                    double c0 = cpu_s(), t0 = now_s();
                                    P[p]->mm_run(h[p], n);
                                    double dt = now_s() - t0, dc = cpu_s() - c0;
                                    busy[p][n] = dc / (dt * (double)J);
                                    v[p][n] = J == 1 && dc < dt
                                                  ? dc
                                                  : dt; /* one thread: CPU time (others may preempt
                                                           us); more: wall */
                                }
                        for (int p = 0; p < np; p++)
                            if (h[p]) {
                                /* check 8 outputs against decoded weights */
                                const float *y = P[p]->mm_y(h[p], n - 1);
                                double e = 0, nrm = 0;
                                bp_dequant_row_fn dq = P[0]->decoder(id0);
                                for (long c = 0; c < 8; c++) {
                                    long r = c * (N / 8) + c, m = c * M / 8;
                                    if (dq)
                                        dq(w + (size_t)r * rb, wd, K);
                                    else
                                        memcpy(wd, w + (size_t)r * rb, (size_t)K * 4);
                                    double s = 0;
                                    for (long k = 0; k < K; k++)
                                        s += (double)wd[k] * x[m * K + k];
                                    e += (s - y[m * N + r]) * (s - y[m * N + r]);
                                    nrm += s * s;
                                }
                                double bz = 0, vv[MAXR];
                                for (int i = 0; i < n; i++) {
                                    bz += busy[p][i];
                                    vv[i] = v[p][i];
                                }
                                stat_t s = stats(vv, n);
                                printf("mm %-7s %-10s %-6s N=%-6ld K=%ld M=%-4ld %ldT  best %10.4f "
                                       "ms  median %10.4f  p90 %10.4f | best %7.2f GB/s w  %8.1f "
                                       "Gop/s | err %.4f busy %.2f n %d\n",
                                       t, P[p]->name, *l == '1' ? "packed" : "plain", N, K, M, J,
                                       s.min * 1e3, s.med * 1e3, s.p90 * 1e3,
                                       (double)wb / s.min / 1e9,
                                       2e-9 * (double)M * (double)N * (double)K / s.min,
                                       sqrt(e / (nrm + 1e-30)), bz / n, n);
                            }
                        fflush(stdout);
                        for (int p = 0; p < np; p++)
                            if (h[p])
                                P[p]->mm_free(h[p]);
                    }
        free(im);
    }
    return 0;
}

/* codecs.c - encoder, decoder, activation-quantizer and vec_dot throughput of one or more
 * providers. build: gcc -O2 codecs.c -o codecs -ldl -lm run:   ./codecs encode|decode|act|dot [-t
 * type,type] [-c cpu] [-b seconds] [-i] PROVIDER.so=ARG [PROVIDER2.so=ARG ...] One thread, thread
 * CPU time; with several providers the repetitions alternate. `-csv` prints one line per result. */
#include "load.h"

static const char *all_types = "q4_0,q4_1,q5_0,q5_1,q8_0,q2_K,q3_K,q4_K,q5_K,q6_K,iq4_nl,iq4_xs,"
                               "mxfp4,nvfp4,q1_0,q2_0,tq1_0,tq2_0,f16,bf16,"
                               "iq3_s,iq3_xxs,iq2_s,iq2_xs,iq2_xxs,iq1_m,iq1_s";
enum { MAXP = 4, MAXR = 101, K = 4096 };
static const bench_provider *P[MAXP];
static int np;
static int64_t max_rows = 1024; /* of 4096 floats, encode: -r 16 stays in the second-level cache */
static double budget = 1.5;     /* seconds per measurement and provider */

static float *src, *imat;
static char *enc;
static float *dec;

/* ---------------- encode ---------------- */
static void enc_one(const char *t, int with_im)
{
    for (int p = 0; p < np; p++) {
        int id = P[p]->type_id(t);
        if (id < 0)
            return;
        if (!with_im && P[p]->needs_imatrix(id))
            return;
    }
    const float *im = with_im ? imat : NULL;
    double v[MAXP][MAXR];
    int64_t nr[MAXP];
    int passes[MAXP];
    int n = 0;
    for (int p = 0; p < np;
         p++) { /* calibrate rows so that one repetition takes about budget/7, at most 16 MB */
        int id = P[p]->type_id(t);
        P[p]->encode(id, src, enc, 1, K, im); /* tables */
        int64_t rows = 1;
        double dt;
        for (;; rows *= 4) {
            double t0 = thr_s();
            P[p]->encode(id, src, enc, rows, K, im);
            dt = thr_s() - t0;
            if (dt > 0.01 || rows >= max_rows)
                break;
        }
        double want = (double)rows * (budget / 7) / dt;
        nr[p] = want > (double)max_rows ? max_rows : want < 1 ? 1 : (int64_t)want;
        passes[p] = want > (double)(2 * max_rows) ? (int)(want / (double)max_rows) : 1;
        if (max_rows == 1024)
            passes[p] = 1;
    }
    for (int p = 1; p < np; p++) { /* same bytes as the first provider? (64 rows) */
        int i0 = P[0]->type_id(t), i1 = P[p]->type_id(t);
        size_t nb = 64 * P[0]->row_bytes(i0, K), diff = 0, first = 0;
        char *o0 = enc, *o1 = enc + (64u << 20);
        P[0]->encode(i0, src, o0, 64, K, im);
        P[p]->encode(i1, src, o1, 64, K, im);
        for (size_t k = 0; k < nb; k++)
            if (o0[k] != o1[k] && !diff++)
                first = k;
        if (diff)
            printf("encode %-8s %s vs %s: %zu of %zu bytes DIFFER (first at %zu)\n", t, P[p]->name,
                   P[0]->name, diff, nb, first);
        else
            printf("encode %-8s %s vs %s: %zu bytes identical\n", t, P[p]->name, P[0]->name, nb);
    }
    double start = now_s();
    for (n = 0; n < 31 && (n < 5 || now_s() - start < budget * np); n++)
        for (int p = 0; p < np; p++) {
            double t0 = thr_s();
            for (int pass = 0; pass < passes[p]; pass++)
                P[p]->encode(P[p]->type_id(t), src, enc, nr[p], K, im);
            v[p][n] = (thr_s() - t0) / passes[p];
        }
    for (int p = 0; p < np; p++) {
        stat_t s = stats(v[p], n);
        double mb = (double)nr[p] * K * 4 / 1e6;
        printf("encode %-8s %-10s %-8s best %9.2f MB/s  median %9.2f  p90 %9.2f  (%d x %.2f MB, "
               "%.1f ns/elt)\n",
               t, P[p]->name, with_im ? "imatrix" : "plain", mb / s.min, mb / s.med, mb / s.p90, n,
               mb, s.min / ((double)nr[p] * K) * 1e9);
    }
    fflush(stdout);
}
/* ---------------- decode ---------------- */
static void dec_one(const char *t)
{
    for (int p = 0; p < np; p++) {
        int id = P[p]->type_id(t);
        if (id < 0 || !P[p]->decoder(id))
            return;
    }
    int id0 = P[0]->type_id(t);
    size_t rb = P[0]->row_bytes(id0, K);
    P[0]->encode(id0, src, enc, 16, K,
                 imat); /* 16 different rows, tiled to 4096 rows = 64 MB of floats */
    for (int64_t r = 16; r < 4096; r += 16)
        memcpy(enc + (size_t)r * rb, enc, 16 * rb);
    for (int mode = 0; mode < 2; mode++) { /* 0: output row reused in L1; 1: 64 MB of output */
        double v[MAXP][MAXR];
        int n;
        double start = now_s();
        for (n = 0; n < 41 && (n < 7 || now_s() - start < budget * np); n++)
            for (int p = 0; p < np; p++) {
                bp_dequant_row_fn f = P[p]->decoder(P[p]->type_id(t));
                double t0 = thr_s();
                if (mode == 0)
                    for (int64_t r = 0; r < 1024; r++)
                        f(enc + (size_t)(r & 15) * rb, dec, K);
                else
                    for (int64_t r = 0; r < 4096; r++)
                        f(enc + (size_t)r * rb, dec + r * K, K);
                v[p][n] = thr_s() - t0;
            }
        for (int p = 0; p < np; p++) {
            stat_t s = stats(v[p], n);
            double gb = (mode ? 4096. : 1024.) * K * 4 / 1e9;
            printf("decode %-8s %-10s %-8s best %9.2f GB/s f32 median %9.2f  p90 %9.2f\n", t,
                   P[p]->name, mode ? "64MB" : "L1 row", gb / s.min, gb / s.med, gb / s.p90);
        }
    }
    fflush(stdout);
}
/* ---------------- activation quantizers ---------------- */
static void act_one(const char *t)
{
    for (int p = 0; p < np; p++) {
        int id = P[p]->type_id(t);
        if (id < 0 || !P[p]->act_quantizer || !P[p]->act_quantizer(id))
            return;
    }
    for (int mode = 0; mode < 2; mode++) {
        double v[MAXP][MAXR];
        int n;
        double start = now_s();
        for (n = 0; n < 101 && (n < 7 || now_s() - start < budget * np); n++)
            for (int p = 0; p < np; p++) {
                int id = P[p]->type_id(t);
                bp_quant_row_fn f = P[p]->act_quantizer(id);
                size_t rb = P[p]->row_bytes(id, K);
                double t0 = thr_s();
                if (mode == 0)
                    for (int r = 0; r < 2048; r++)
                        f(src + (r & 3) * K, enc, K); /* 64 KB in: L2 */
                else
                    for (int r = 0; r < 4096; r++)
                        f(dec + (int64_t)r * K, enc + (size_t)r * rb, K); /* 64 MB in */
                v[p][n] = thr_s() - t0;
            }
        for (int p = 0; p < np; p++) {
            stat_t s = stats(v[p], n);
            double gb = (mode ? 4096. : 2048.) * K * 4 / 1e9;
            printf("act    %-8s %-10s %-8s best %9.2f GB/s f32 in  median %9.2f  p90 %9.2f\n", t,
                   P[p]->name, mode ? "64MB" : "cache", gb / s.min, gb / s.med, gb / s.p90);
        }
    }
    fflush(stdout);
}
/* ---------------- vec_dot ---------------- */
static void dot_one(const char *t)
{
    for (int p = 0; p < np; p++) {
        int id = P[p]->type_id(t);
        if (id < 0 || !P[p]->vec_dot(id))
            return;
    }
    int id0 = P[0]->type_id(t);
    size_t rb = P[0]->row_bytes(id0, K);
    P[0]->encode(id0, src, enc, 16, K, imat);
    int64_t rows[2] = {(int64_t)(256u << 10) / (int64_t)rb,
                       (int64_t)(256u << 20) / (int64_t)rb}; /* 256 KB (L2) and 256 MB (memory) */
    for (int64_t r = 16; r < rows[1]; r++)
        memcpy(enc + (size_t)r * rb, enc + (size_t)(r & 15) * rb, rb);
    static char act[MAXP][K * 8];
    for (int p = 0; p < np; p++) {
        int a = P[p]->act_type(P[p]->type_id(t));
        bp_quant_row_fn q = P[p]->act_quantizer(a);
        if (q)
            q(src + 20 * K, act[p], K);
        else
            memcpy(act[p], src + 20 * K, K * 4);
    }
    for (int mode = 0; mode < 2; mode++) {
        double v[MAXP][MAXR];
        int n;
        float chk[MAXP] = {0};
        double start = now_s();
        int64_t R = rows[mode], it = mode ? 1 : 1 + 20000 / R;
        for (n = 0; n < 101 && (n < 7 || now_s() - start < budget * np); n++)
            for (int p = 0; p < np; p++) {
                bp_vec_dot_fn f = P[p]->vec_dot(P[p]->type_id(t));
                float s, acc = 0;
                double t0 = thr_s();
                for (int64_t i = 0; i < it; i++)
                    for (int64_t r = 0; r < R; r++) {
                        f(K, &s, 0, enc + (size_t)r * rb, 0, act[p], 0, 1);
                        acc += s;
                    }
                v[p][n] = thr_s() - t0;
                chk[p] = acc / (float)(R * it);
            }
        for (int p = 0; p < np; p++) {
            stat_t s = stats(v[p], n);
            double gb = (double)R * (double)it * (double)rb / 1e9,
                   gop = 2.0 * (double)R * (double)it * K / 1e9;
            printf("dot    %-8s %-10s %-8s best %9.2f GB/s weights median %9.2f  p90 %9.2f  best "
                   "%8.1f Gop/s  with %s (mean %g)\n",
                   t, P[p]->name, mode ? "256MB" : "256KB", gb / s.min, gb / s.med, gb / s.p90,
                   gop / s.min, P[p]->type_name(P[p]->act_type(P[p]->type_id(t))), chk[p]);
        }
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *cmd = argc > 1 ? argv[1] : "", *types = NULL;
    int cpu = 0, im = 2;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "-t"))
            types = argv[++i];
        else if (!strcmp(argv[i], "-c"))
            cpu = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-r"))
            max_rows = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-b"))
            budget = atof(argv[++i]);
        else if (!strcmp(argv[i], "-i"))
            im = 1;
        else if (!strcmp(argv[i], "-p"))
            im = 0;
        else if (np < MAXP)
            P[np++] = load_provider(argv[i]);
    }
    if (!np) {
        fprintf(stderr,
                "usage: codecs encode|decode|act|dot [-t types] [-c cpu] [-b s] [-r rows] [-i "
                "imatrix only|-p plain only] PROVIDER.so=ARG...\n");
        return 2;
    }
    pin_cpu(cpu);
    src = big_alloc(1024ull * K * 4, 0);
    enc = big_alloc(272u << 20, 0);
    dec = big_alloc(64u << 20, 0);
    imat = malloc(K * 4);
    fill_gauss(src, 1024ull * K, 0.02f);
    fill_gauss(imat, K, 1.0f);
    for (int i = 0; i < K; i++)
        imat[i] = imat[i] * imat[i] + 1e-3f;
    for (int i = 0; i < 4; i++)
        memcpy(dec + (size_t)i * 1024 * K, src, 1024ull * K * 4);
    if (!types)
        types = !strcmp(cmd, "act") ? "q8_0,q8_1,q8_K,f16,bf16" : all_types;
    char *list = strdup(types), *sv = NULL;
    for (char *t = strtok_r(list, ",", &sv); t; t = strtok_r(NULL, ",", &sv)) {
        if (!strcmp(cmd, "encode")) {
            if (im != 1)
                enc_one(t, 0);
            if (im != 0)
                enc_one(t, 1);
        } else if (!strcmp(cmd, "decode"))
            dec_one(t);
        else if (!strcmp(cmd, "act"))
            act_one(t);
        else if (!strcmp(cmd, "dot"))
            dot_one(t);
    }
    return 0;
}

/* matmul.c - quantized matmul y[M][N] = x[M][K] * w[N][K]^T of one or more providers, its gradient
 * and packing, beside the limits of the machine.
 * run: ./matmul [-t types] [-n N,..] [-k K] [-m M,M,..] [-j threads,..] [-l 01gp] [-b seconds]
 *               [-h MB] [-i avx2] PROVIDER.so=ARG ...
 * -l: 0 weights as in the file, 1 the library's repacked ones, g the gradient dx = dy * w, p
 * packing itself. Weights are kept in several distinct copies (together >= -h MB, default 192) that
 * are used in turn, so that at M=1 the weights come from memory as in a real decode step. 1 thread:
 * process CPU time; more: wall time. Best and median of the repetitions; `busy` = CPU time /
 * (threads * wall) averaged: well below 1 means that someone else had the CPU (a 2-thread line
 * should then be measured again).
 *
 * Limits are measured between the repetitions: one stream of reads, and a loop of the instructions
 * that the type's products take (of AVX2 with -i avx2), in registers. `share` is the time that the
 * slower of both limits needs for the weights' bytes and the operations, over the best time. */
#include "limits.h"
#include "load.h"
enum { MAXP = 4, MAXR = 4001, LIMIT_EVERY = 4, BURST = 8 };
static const bench_provider *P[MAXP];
static int np;

static const char *types = "q4_0,q8_0,q4_K,q5_K,q6_K,iq4_nl,mxfp4,f16,bf16", *layouts = "01";
static long Ns[8] = {4096, 11008}, Ms[16] = {1, 8, 32, 128, 512}, Js[4] = {1, 2}, K = 4096;
static long hot = 192;
static int nN = 2, nM = 5, nJ = 2, cpu = 0;
static double budget = 1.0;
static float *x, *dy;

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

static long largest(const long *v, int n)
{
    long max = 0;
    for (int i = 0; i < n; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

/* One line of the table for each provider. */
typedef struct {
    const char *type;
    int id; /* of the first provider */
    const char *w;
    size_t row_bytes;
    long N, M;
    int J;
    char layout;
    int copies;
    limit_kind peak;
    void *handle[MAXP];
} bench_case;

static limit_kind peak_of(const char *type)
{
    if (!strcmp(type, "f32") || !strcmp(type, "f16") || !strcmp(type, "bf16"))
        return LIMIT_FMA;
    const int is_word = !strcmp(type, "q8_0") || !strcmp(type, "iq4_nl") || !strcmp(type, "iq4_xs");
    return is_word ? LIMIT_WORDS : LIMIT_BYTES;
}

static int offers(const bench_provider *p, char layout)
{
    if (layout == 'g')
        return p->mm_new && p->mm_grad;
    return layout == 'p' ? p->mm_new && p->mm_pack : p->mm_new != NULL;
}

static int open_case(bench_case *c)
{
    int any = 0;
    for (int p = 0; p < np; p++) {
        int id = P[p]->type_id(c->type);
        c->handle[p] = NULL;
        if (id >= 0 && offers(P[p], c->layout))
            c->handle[p] = P[p]->mm_new(id, c->w, c->N, K, c->M, c->layout == '1', c->J, c->copies);
        if (!c->handle[p])
            continue;
        any = 1;
        P[p]->mm_set_x(c->handle[p], x);
        if (c->layout == 'g')
            P[p]->mm_set_dy(c->handle[p], dy);
    }
    return any;
}

static void run_once(const bench_case *c, int p, int which)
{
    if (c->layout == 'g')
        P[p]->mm_grad(c->handle[p], which);
    else if (c->layout == 'p')
        P[p]->mm_pack(c->handle[p], which);
    else
        P[p]->mm_run(c->handle[p], which);
}

static void decode_row(const bench_case *c, long r, float *out)
{
    bp_dequant_row_fn decode = P[0]->decoder(c->id);
    if (decode)
        decode(c->w + (size_t)r * c->row_bytes, out, K);
    else
        memcpy(out, c->w + (size_t)r * c->row_bytes, (size_t)K * 4);
}

/* Eight outputs against decoded weights: the root of the mean square, relative. */
static double product_error(const bench_case *c, const float *y)
{
    float *w = malloc((size_t)K * 4);
    double e = 0, norm = 0;
    for (long i = 0; i < 8; i++) {
        long r = i * (c->N / 8) + i, m = i * c->M / 8;
        double s = 0;
        decode_row(c, r, w);
        for (long k = 0; k < K; k++)
            s += (double)w[k] * x[m * K + k];
        e += (s - y[m * c->N + r]) * (s - y[m * c->N + r]);
        norm += s * s;
    }
    free(w);
    return sqrt(e / (norm + 1e-30));
}

/* A row of dx. */
static double gradient_error(const bench_case *c, const float *dx)
{
    long m = c->M - 1;
    float *w = malloc((size_t)K * 4);
    double *want = calloc((size_t)K, sizeof *want), e = 0, norm = 0;
    for (long r = 0; r < c->N; r++) {
        decode_row(c, r, w);
        for (long k = 0; k < K; k++)
            want[k] += (double)dy[m * c->N + r] * w[k];
    }
    for (long k = 0; k < K; k++) {
        e += (want[k] - dx[m * K + k]) * (want[k] - dx[m * K + k]);
        norm += want[k] * want[k];
    }
    free(w);
    free(want);
    return sqrt(e / (norm + 1e-30));
}

static double error_of(const bench_case *c, int p, int which)
{
    if (c->layout == 'g')
        return gradient_error(c, P[p]->mm_dx(c->handle[p]));
    return c->layout == 'p' ? 0 : product_error(c, P[p]->mm_y(c->handle[p], which));
}

static void print_line(const bench_case *c, int p, double *v, int n, double busy, double read,
                       double peak)
{
    static const char *kinds[] = {"packed", "plain", "grad", "pack"};
    stat_t s = stats(v, n);
    double bytes = (double)c->row_bytes * (double)c->N;
    double ops = c->layout == 'p' ? 0 : 2.0 * (double)c->M * (double)c->N * (double)K;
    double at_best = read > 0 ? bytes / read : 0;
    if (peak > 0 && ops / peak > at_best)
        at_best = ops / peak;
    printf("mm %-7s %-10s %-6s N=%-6ld K=%ld M=%-4ld %dT  best %10.4f ms  median %10.4f  p90 "
           "%10.4f | best %7.2f GB/s w  %8.1f Gop/s | limits %6.2f GB/s %7.1f Gop/s share %.3f | "
           "err %.1e busy %.2f n %d\n",
           c->type, P[p]->name,
           c->layout == '1' ? kinds[0] : kinds[1 + (c->layout == 'g') + 2 * (c->layout == 'p')],
           c->N, K, c->M, c->J, s.min * 1e3, s.med * 1e3, s.p90 * 1e3, bytes / s.min / 1e9,
           ops / s.min / 1e9, read / 1e9, peak / 1e9, at_best / s.min, error_of(c, p, n - 1),
           busy / n, n);
    fflush(stdout);
}

/* Wait until the threads of the provider before have gone to sleep: ggml's go on looking for work
 * for some tens of milliseconds, and would have half of a processor that another provider needs. */
static void settle(void)
{
    const struct timespec nap = {0, 25000000}; /* some ticks: the clock of others moves with them */
    for (int i = 0; i < 40; i++) {
        double c0 = cpu_s();
        nanosleep(&nap, NULL);
        if (cpu_s() - c0 < 1e-3)
            return;
    }
}

/* A provider's threads at work, each on a processor of its own: the system takes some milliseconds.
 */
static void warm_up(const bench_case *c, int p)
{
    settle();
    const double start = now_s();
    for (int i = 0; i == 0 || now_s() - start < 0.02; i++)
        run_once(c, p, i);
}

static void time_once(const bench_case *c, int p, int which, double *v, double *busy)
{
    double c0 = cpu_s(), t0 = now_s();
    run_once(c, p, which);
    double dt = now_s() - t0, dc = cpu_s() - c0;
    *busy += dc / (dt * (double)c->J);
    *v = c->J == 1 && dc < dt ? dc : dt;
}

static void run_case(bench_case *c)
{
    static double v[MAXP][MAXR + BURST];
    double busy[MAXP] = {0}, read = 0, peak = 0;
    const int burst = c->J == 1 ? 1 : BURST; /* runs of one provider before the next one's turn */
    int n;
    if (!open_case(c))
        return;
    for (int p = 0; p < np; p++)
        for (int i = 0; c->handle[p] && i < c->copies; i++)
            run_once(c, p, i);
    double start = now_s();
    for (n = 0; n < MAXR && (n < 5 || now_s() - start < budget * np); n += burst) {
        if (n % LIMIT_EVERY == 0) { /* the best repetitions are not those after it */
            if (c->J > 1)
                settle();
            read = fmax(read, limit_rate(LIMIT_READ, c->J));
            peak = fmax(peak, limit_rate(c->peak, c->J));
        }
        for (int p = 0; p < np; p++) {
            if (!c->handle[p])
                continue;
            if (c->J > 1)
                warm_up(c, p);
            for (int i = 0; i < burst; i++)
                time_once(c, p, n + i, &v[p][n + i], &busy[p]);
        }
    }
    for (int p = 0; p < np; p++)
        if (c->handle[p])
            print_line(c, p, v[p], n, busy[p], read, peak);
    for (int p = 0; p < np; p++)
        if (c->handle[p])
            P[p]->mm_free(c->handle[p]);
}

/* All shapes, threads and layouts of a type; w: its weights, as many rows as the largest N. */
static void run_type(const char *type, int id, const char *w, size_t row_bytes)
{
    for (int a = 0; a < nN; a++)
        for (int j = 0; j < nJ; j++)
            for (int b = 0; b < nM; b++)
                for (const char *l = layouts; *l; l++) {
                    if (*l == 'p' && b > 0)
                        continue;
                    bench_case c = {type, id, w, row_bytes, Ns[a], Ms[b], (int)Js[j], *l};
                    c.peak = *l == 'g' ? LIMIT_FMA : peak_of(type);
                    c.copies = (int)(((size_t)hot << 20) / (row_bytes * (size_t)c.N)) + 1;
                    if (c.M >= 128 && c.copies > 2)
                        c.copies = 2;
                    run_case(&c);
                }
}

static void read_options(int argc, char **argv, const char **isa)
{
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
            layouts = argv[++i];
        else if (!strcmp(argv[i], "-b"))
            budget = atof(argv[++i]);
        else if (!strcmp(argv[i], "-c"))
            cpu = atoi(argv[++i]);
        else if (!strcmp(argv[i], "-h"))
            hot = atol(argv[++i]);
        else if (!strcmp(argv[i], "-i"))
            *isa = argv[++i];
        else if (np < MAXP)
            P[np++] = load_provider(argv[i]);
    }
}

int main(int argc, char **argv)
{
    const char *isa = NULL;
    read_options(argc, argv, &isa);
    if (!np) {
        fprintf(stderr, "usage: matmul [options] PROVIDER.so=ARG...\n");
        return 2;
    }
    if (largest(Js, nJ) == 1)
        pin_cpu(cpu);
    limit_begin(isa);
    const long maxM = largest(Ms, nM), maxN = largest(Ns, nN);
    float *wf = big_alloc((size_t)(64 * K) * 4, 0), *ones = malloc((size_t)K * 4);
    x = big_alloc((size_t)(maxM * K) * 4, 0);
    dy = big_alloc((size_t)(maxM * maxN) * 4, 0);
    fill_gauss(x, (size_t)(maxM * K), 1.0f);
    fill_gauss(dy, (size_t)(maxM * maxN), 1.0f);
    fill_gauss(wf, (size_t)(64 * K), 0.02f);
    for (long i = 0; i < K; i++)
        ones[i] = 1.0f;
    char *w = big_alloc((size_t)(maxN * K) * 4, 0);
    char *list = strdup(types), *sv = NULL;
    for (char *t = strtok_r(list, ",", &sv); t; t = strtok_r(NULL, ",", &sv)) {
        int id = P[0]->type_id(t);
        if (id < 0)
            continue;
        size_t row_bytes = P[0]->row_bytes(id, K);
        /* 64 different rows, tiled */
        P[0]->encode(id, wf, w, 64, K, P[0]->needs_imatrix(id) ? ones : NULL);
        for (long r = 64; r < maxN; r++)
            memcpy(w + (size_t)r * row_bytes, w + (size_t)(r & 63) * row_bytes, row_bytes);
        run_type(t, id, w, row_bytes);
    }
    return 0;
}

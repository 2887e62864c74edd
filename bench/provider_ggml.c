/* provider_ggml.c - wraps a prebuilt ggml (libggml-base.so + libggml-cpu-<variant>.so).
 * argument: <directory>[,variant]   e.g. .../linux-x64/bins/linux-x64,zen4   (default variant zen4)
 * Only the few declarations used are written here by hand; no ggml header is needed.
 * build: gcc -O2 -shared -fPIC provider_ggml.c -o provider_ggml.so -ldl */
#include "common.h"
#include "provider.h"
#include <dlfcn.h>
#include <stdbool.h>

/* ggml's ABI, as far as we use it */
struct traits {
    const char *type_name;
    int64_t blck;
    int64_t interleave;
    size_t size;
    bool is_q;
    bp_dequant_row_fn to_float;
    bp_quant_row_fn from_float_ref;
};
struct traits_cpu {
    bp_quant_row_fn from_float;
    bp_vec_dot_fn vec_dot;
    int vec_dot_type;
    int64_t nrows;
};
struct init_params {
    size_t mem_size;
    void *mem;
    bool no_alloc;
};
struct gguf_params {
    bool no_alloc;
    void **ctx;
};
struct tp_params {
    bool mask[512];
    int n_threads;
    int prio;
    uint32_t poll;
    bool strict_cpu;
    bool paused;
};

static struct {
    const struct traits *(*get_type_traits)(int);
    const struct traits_cpu *(*get_type_traits_cpu)(int);
    size_t (*row_size)(int, int64_t);
    bool (*requires_imatrix)(int);
    size_t (*quantize_chunk)(int, const float *, void *, int64_t, int64_t, int64_t, const float *);
    void (*quantize_init)(int);
    void (*cpu_init)(void);
    void *(*init)(struct init_params);
    void (*free)(void *);
    void *(*new_tensor_2d)(void *, int, int64_t, int64_t);
    void *(*mul_mat)(void *, void *, void *);
    void *(*new_graph_custom)(void *, size_t, bool);
    void (*build_forward_expand)(void *, void *);
    void *(*get_data)(const void *);
    void *(*backend_cpu_init)(void);
    void (*backend_cpu_set_n_threads)(void *, int);
    void (*backend_cpu_set_threadpool)(void *, void *);
    void *(*threadpool_new)(struct tp_params *);
    void (*threadpool_free)(void *);
    int (*backend_graph_compute)(void *, void *);
    void (*backend_free)(void *);
    void *(*backend_cpu_buffer_type)(void);
    void *(*backend_cpu_reg)(void);
    void *(*backend_reg_get_proc_address)(void *, const char *);
    void *(*backend_reg_dev_get)(void *, size_t);
    void *(*alloc_ctx_tensors_from_buft)(void *, void *);
    void (*backend_buffer_free)(void *);
    void (*tensor_set)(void *, const void *, size_t, size_t);
    bool (*backend_supports_op)(void *, const void *);
    const char *(*buft_name)(void *);
    void *(*gguf_init_from_file)(const char *, struct gguf_params);
    void (*gguf_free)(void *);
    int64_t (*gguf_get_n_tensors)(const void *);
    int64_t (*gguf_get_n_kv)(const void *);
    int64_t (*gguf_find_tensor)(const void *, const char *);
} G;

static const char *names[] = {
    "f32",     "f16",   "q4_0",   "q4_1",  0,       0,        "q5_0", "q5_1",    "q8_0",
    "q8_1",    "q2_K",  "q3_K",   "q4_K",  "q5_K",  "q6_K",   "q8_K", "iq2_xxs", "iq2_xs",
    "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", 0,      0,         0,
    0,         0,       "iq1_m",  "bf16",  0,       0,        0,      "tq1_0",   "tq2_0",
    0,         0,       0,        "mxfp4", "nvfp4", "q1_0",   "q2_0"};
enum { NT = sizeof names / sizeof *names };
static int p_type_id(const char *t)
{
    for (int i = 0; i < NT; i++)
        if (names[i] && !strcmp(names[i], t))
            return i;
    return -1;
}
static const char *p_type_name(int i)
{
    return i >= 0 && i < NT && names[i] ? names[i] : "?";
}
static int64_t p_block(int i)
{
    return G.get_type_traits(i)->blck;
}
static size_t p_row(int i, int64_t n)
{
    return G.row_size(i, n);
}
static int p_needs(int i)
{
    return G.requires_imatrix(i);
}
static size_t p_encode(int id, const float *s, void *d, int64_t nr, int64_t n, const float *im)
{
    return G.quantize_chunk(id, s, d, 0, nr, n, im);
}
static bp_dequant_row_fn p_dec(int i)
{
    return G.get_type_traits(i)->to_float;
}
static int p_act(int i)
{
    return G.get_type_traits_cpu(i)->vec_dot_type;
}
static bp_quant_row_fn p_aq(int i)
{
    return G.get_type_traits_cpu(i)->from_float;
}
static bp_vec_dot_fn p_vd(int i)
{
    return G.get_type_traits_cpu(i)->vec_dot;
}

typedef struct {
    void *be, *tp, *wctx, *actx, *wbuf, *abuf;
    void *graph[64], *w[64], *y[64];
    void *x;
    int64_t M, N, K;
    int n;
} mm;
static void *find_repack(void)
{
    void *reg = G.backend_cpu_reg();
    void **(*f)(void *) = (void **(*)(void *))(uintptr_t)G.backend_reg_get_proc_address(
        reg, "ggml_backend_dev_get_extra_bufts");
    if (!f)
        return NULL;
    void **b = f(G.backend_reg_dev_get(reg, 0));
    for (; b && *b; b++)
        if (!strcmp(G.buft_name(*b), "CPU_REPACK"))
            return *b;
    return NULL;
}
static void p_mm_free(void *h);
static void *p_mm_new(int id, const void *w, int64_t N, int64_t K, int64_t M, int packed,
                      int threads, int copies)
{
    mm *m = calloc(1, sizeof *m);
    if (copies > 64)
        copies = 64;
    m->M = M;
    m->N = N;
    m->K = K;
    m->n = copies;
    void *buft = packed ? find_repack() : G.backend_cpu_buffer_type();
    if (!buft) {
        free(m);
        return NULL;
    }
    m->be = G.backend_cpu_init();
    struct tp_params tp = {.n_threads = threads, .prio = 0, .poll = 50};
    m->tp = G.threadpool_new(&tp);
    G.backend_cpu_set_n_threads(m->be, threads);
    G.backend_cpu_set_threadpool(m->be, m->tp);
    m->wctx = G.init((struct init_params){1u << 20, NULL, true});
    m->actx = G.init((struct init_params){16u << 20, NULL, true});
    for (int c = 0; c < copies; c++)
        m->w[c] = G.new_tensor_2d(m->wctx, id, K, N);
    m->x = G.new_tensor_2d(m->actx, 0, K, M);
    m->wbuf = G.alloc_ctx_tensors_from_buft(m->wctx, buft);
    if (!m->wbuf) {
        p_mm_free(m);
        return NULL;
    }
    for (int c = 0; c < copies; c++) {
        m->y[c] = G.mul_mat(m->actx, m->w[c], m->x);
        if (!G.backend_supports_op(m->be, m->y[c])) {
            p_mm_free(m);
            return NULL;
        }
        m->graph[c] = G.new_graph_custom(m->actx, 8, false);
        G.build_forward_expand(m->graph[c], m->y[c]);
    }
    m->abuf = G.alloc_ctx_tensors_from_buft(m->actx, G.backend_cpu_buffer_type());
    size_t nb = G.row_size(id, K) * (size_t)N;
    for (int c = 0; c < copies; c++)
        G.tensor_set(m->w[c], w, 0, nb);
    return m;
}
static int p_mm_run(void *h, int which)
{
    mm *m = h;
    return G.backend_graph_compute(m->be, m->graph[which % m->n]);
}
static void p_mm_x(void *h, const float *x)
{
    mm *m = h;
    G.tensor_set(m->x, x, 0, (size_t)(m->M * m->K) * 4);
}
static const float *p_mm_y(void *h, int which)
{
    mm *m = h;
    return G.get_data(m->y[which % m->n]);
}
static void p_mm_free(void *h)
{
    mm *m = h;
    if (m->wbuf)
        G.backend_buffer_free(m->wbuf);
    if (m->abuf)
        G.backend_buffer_free(m->abuf);
    if (m->wctx)
        G.free(m->wctx);
    if (m->actx)
        G.free(m->actx);
    if (m->be)
        G.backend_free(m->be);
    if (m->tp)
        G.threadpool_free(m->tp);
    free(m);
}
typedef struct {
    void *g, *ctx;
} gf;
static void *p_open(const char *path, int mode)
{
    gf *f = calloc(1, sizeof *f);
    f->g = G.gguf_init_from_file(path, (struct gguf_params){true, mode ? &f->ctx : NULL});
    if (!f->g) {
        free(f);
        return NULL;
    }
    return f;
}
static int64_t p_count(void *h, int64_t *nkv)
{
    gf *f = h;
    if (nkv)
        *nkv = G.gguf_get_n_kv(f->g);
    return G.gguf_get_n_tensors(f->g);
}
static int64_t p_find(void *h, const char *n)
{
    gf *f = h;
    return G.gguf_find_tensor(f->g, n);
}
static void p_close(void *h)
{
    gf *f = h;
    G.gguf_free(f->g);
    if (f->ctx)
        G.free(f->ctx);
    free(f);
}

static bench_provider P = {"ggml", p_type_id, p_type_name, p_block, p_row,    p_needs,  p_encode,
                           p_dec,  p_act,     p_aq,        p_vd,    p_mm_new, p_mm_run, p_mm_x,
                           p_mm_y, p_mm_free, p_open,      p_count, p_find,   p_close};

static void quiet(int level, const char *text, void *u)
{
    (void)level;
    (void)text;
    (void)u;
}

const bench_provider *bench_provider_get(const char *arg)
{
    char dir[4096], path[8192];
    static char nm[64];
    snprintf(dir, sizeof dir, "%s", arg ? arg : getenv("GGML_DIR") ? getenv("GGML_DIR") : ".");
    char *v = strchr(dir, ',');
    if (v)
        *v++ = 0;
    else
        v = "zen4";
    snprintf(nm, sizeof nm, "ggml-%s", v);
    P.name = nm;
    snprintf(path, sizeof path, "%s/libggml-base.so", dir);
    void *b = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!b) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    snprintf(path, sizeof path, "%s/libggml-cpu-%s.so", dir, v);
    void *c = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!c) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
#define S(lib, field, sym)                                   \
    do {                                                     \
        if (!(*(void **)(void *)&G.field = dlsym(lib, sym))) \
            fprintf(stderr, "missing %s\n", sym);            \
    } while (0)
    S(b, get_type_traits, "ggml_get_type_traits");
    S(c, get_type_traits_cpu, "ggml_get_type_traits_cpu");
    S(b, row_size, "ggml_row_size");
    S(b, requires_imatrix, "ggml_quantize_requires_imatrix");
    S(b, quantize_chunk, "ggml_quantize_chunk");
    S(b, quantize_init, "ggml_quantize_init");
    S(c, cpu_init, "ggml_cpu_init");
    S(b, init, "ggml_init");
    S(b, free, "ggml_free");
    S(b, new_tensor_2d, "ggml_new_tensor_2d");
    S(b, mul_mat, "ggml_mul_mat");
    S(b, new_graph_custom, "ggml_new_graph_custom");
    S(b, build_forward_expand, "ggml_build_forward_expand");
    S(b, get_data, "ggml_get_data");
    S(c, backend_cpu_init, "ggml_backend_cpu_init");
    S(c, backend_cpu_set_n_threads, "ggml_backend_cpu_set_n_threads");
    S(c, backend_cpu_set_threadpool, "ggml_backend_cpu_set_threadpool");
    S(c, threadpool_new, "ggml_threadpool_new");
    S(c, threadpool_free, "ggml_threadpool_free");
    S(b, backend_graph_compute, "ggml_backend_graph_compute");
    S(b, backend_free, "ggml_backend_free");
    S(b, backend_cpu_buffer_type, "ggml_backend_cpu_buffer_type");
    S(c, backend_cpu_reg, "ggml_backend_cpu_reg");
    S(b, backend_reg_get_proc_address, "ggml_backend_reg_get_proc_address");
    S(b, backend_reg_dev_get, "ggml_backend_reg_dev_get");
    S(b, alloc_ctx_tensors_from_buft, "ggml_backend_alloc_ctx_tensors_from_buft");
    S(b, backend_buffer_free, "ggml_backend_buffer_free");
    S(b, tensor_set, "ggml_backend_tensor_set");
    S(b, backend_supports_op, "ggml_backend_supports_op");
    S(b, buft_name, "ggml_backend_buft_name");
    S(b, gguf_init_from_file, "gguf_init_from_file");
    S(b, gguf_free, "gguf_free");
    S(b, gguf_get_n_tensors, "gguf_get_n_tensors");
    S(b, gguf_get_n_kv, "gguf_get_n_kv");
    S(b, gguf_find_tensor, "gguf_find_tensor");
#undef S
    void (*log_set)(void *, void *);
    if ((*(void **)(void *)&log_set = dlsym(b, "ggml_log_set")))
        log_set((void *)(uintptr_t)quiet, NULL);
    G.cpu_init();
    return &P;
}

/* fuzz_safetensors.c — any bytes as a safetensors file: what is accepted is written again and reads
 * the same, as a file and as a frame of a stream. */
#include "fuzz.h"

#include "quench/safetensors.h"

static void require_same(const qn_safetensors *a, const qn_safetensors *b)
{
    require(qn_safetensors_n_tensors(a) == qn_safetensors_n_tensors(b), "as many tensors");
    require(qn_safetensors_n_entries(a) == qn_safetensors_n_entries(b), "as many entries");
    for (int64_t i = 0; i < qn_safetensors_n_tensors(a); i++) {
        qn_safetensors_tensor x;
        qn_safetensors_tensor y;
        require(qn_safetensors_tensor_at(a, i, &x), "a tensor");
        require(qn_safetensors_tensor_at(b, qn_safetensors_find(b, x.name, x.n_name), &y), "found");
        require(
            x.dtype == y.dtype && x.rank == y.rank && x.n_bytes == y.n_bytes &&
                x.n_elems == y.n_elems &&
                (x.rank == 0 || memcmp(x.shape, y.shape, (size_t)x.rank * sizeof *x.shape) == 0) &&
                (x.n_bytes == 0 || memcmp(x.data, y.data, (size_t)x.n_bytes) == 0),
            "the same tensor");
    }
}

/* The writer refuses what the reader lets pass: empty names and keys. */
static bool add_all(qn_safetensors_writer *w, const qn_safetensors *st)
{
    for (int64_t i = 0; i < qn_safetensors_n_entries(st); i++) {
        const qn_safetensors_entry *e = qn_safetensors_entry_at(st, i);
        const qn_status status =
            qn_safetensors_writer_add_entry(w, e->key, e->n_key, e->value, e->n_value, NULL);
        require(status == QN_OK || e->n_key == 0, "an entry is written");
        if (status != QN_OK) {
            return false;
        }
    }
    for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
        qn_safetensors_tensor t;
        (void)qn_safetensors_tensor_at(st, i, &t);
        const qn_status status = qn_safetensors_writer_add(w, t.name, t.n_name, t.dtype, t.shape,
                                                           t.rank, t.data, t.n_bytes, NULL);
        require(status == QN_OK || t.n_name == 0, "a tensor is written");
        if (status != QN_OK) {
            return false;
        }
    }
    return true;
}

static void check_rewrite(const qn_safetensors *st)
{
    qn_safetensors_writer *w = NULL;
    qn_safetensors *back = NULL;
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    require(qn_safetensors_writer_new(NULL, &w, NULL) == QN_OK, "memory");
    if (add_all(w, st)) {
        require(qn_safetensors_writer_finish(w, &bytes, &n_bytes, NULL) == QN_OK, "written");
        require(qn_safetensors_parse(bytes, n_bytes, NULL, &back, NULL) == QN_OK, "read back");
        require_same(st, back);
        qn_safetensors_close(back);
    }
    qn_safetensors_writer_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_safetensors *st = NULL;
    qn_safetensors *frame = NULL;
    stream s = {bytes, n_bytes, 0};
    const qn_status status = qn_safetensors_parse(bytes, (int64_t)n_bytes, NULL, &st, NULL);
    const qn_status as_frame = qn_safetensors_read_prefix(read_some, &s, NULL, &frame, NULL);
    require(status != QN_OK || (as_frame == QN_OK && s.n_left == 0), "a file is a frame");
    require(as_frame != QN_OK || status == QN_OK || s.n_left > 0, "a frame is a file");
    if (status == QN_OK) {
        require_same(st, frame);
        check_rewrite(st);
    }
    qn_safetensors_close(st);
    qn_safetensors_close(frame);
    return 0;
}

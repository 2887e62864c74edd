/* fuzz_gguf_write.c — a program of writer calls taken from the input: whatever it is, what the
 * writer finishes is read back by the strict reader with the keys and tensors that were left.
 * Input: one byte an operation, one or two for its arguments. */
#include "fuzz.h"

#include "quench/quench.h"

static const char *const keys[8] = {"a",   "b", "general.alignment", "split.no",
                                    "x.y", "k", "long.key.name",     "general.architecture"};

static void step(qn_gguf_writer *w, const uint8_t *op)
{
    static const float data[256] = {0};
    const char *key = keys[op[1] & 7];
    const char *other = keys[op[1] >> 3 & 7];
    const int64_t ne[] = {op[2] & 31, op[2] >> 5, 1};
    const qn_gguf_string strings[] = {{(const char *)op, op[2] & 1}, {"x", 1}};
    qn_status st = QN_OK;
    switch (op[0] % 10) {
    case 0:
        st = qn_gguf_writer_set_u32(w, key, op[2] == 0 ? 0 : 1u << (op[2] & 31), NULL);
        break;
    case 1:
        st = qn_gguf_writer_set_string(w, key, (const char *)op, 3, NULL);
        break;
    case 2:
        st = qn_gguf_writer_set_strings(w, key, strings, 2, NULL);
        break;
    case 3:
        st = qn_gguf_writer_set_array(w, key, (qn_gguf_type)(op[2] % 14), data, op[1] >> 5, NULL);
        break;
    case 4:
        st = qn_gguf_writer_remove(w, key, NULL);
        break;
    case 5:
        st = qn_gguf_writer_rename(w, key, other, NULL);
        break;
    case 6:
        st = qn_gguf_writer_add(w, key, (int64_t)strlen(key), (qn_dtype)(op[1] >> 6), ne,
                                op[1] >> 3 & 3, data, (op[2] & 31) * 4, NULL);
        break;
    case 7:
        st = qn_gguf_writer_remove_tensor(w, key, (int64_t)strlen(key), NULL);
        break;
    case 8:
        st = qn_gguf_writer_rename_tensor(w, key, (int64_t)strlen(key), other,
                                          (int64_t)strlen(other), NULL);
        break;
    default:
        st = qn_gguf_writer_set_raw(w, key, (int64_t)strlen(key), (qn_gguf_type)(op[2] % 14), op, 3,
                                    NULL);
        break;
    }
    (void)st;
}

static void check(qn_gguf_writer *w)
{
    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    qn_gguf *gguf = NULL;
    strict.strict = true;
    require(qn_gguf_writer_finish(w, &bytes, &n_bytes, NULL) == QN_OK, "it finishes");
    require(qn_gguf_parse(bytes, n_bytes, &strict, &gguf, NULL) == QN_OK, "it is strict");
    require(qn_gguf_n_tensors(gguf) == qn_gguf_writer_n_tensors(w), "all tensors are there");
    require(qn_gguf_n_entries(gguf) == qn_gguf_writer_n_entries(w), "all keys are there");
    for (int i = 0; i < 8; i++) {
        require(qn_gguf_has(gguf, keys[i]) == qn_gguf_writer_has(w, keys[i]), "the same keys");
    }
    qn_gguf_close(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_gguf_writer *w = NULL;
    if (n_bytes > 600 || qn_gguf_writer_new(NULL, &w, NULL) != QN_OK) {
        return 0;
    }
    for (size_t i = 0; i + 3 <= n_bytes; i += 3) {
        step(w, bytes + i);
        if (bytes[i] >= 250) {
            check(w);
        }
    }
    check(w);
    qn_gguf_writer_free(w);
    return 0;
}

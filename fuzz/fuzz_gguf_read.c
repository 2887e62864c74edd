/* fuzz_gguf_read.c — arbitrary bytes as a GGUF file: what is accepted can be read to the last byte,
 * is repeated exactly by the lossless writer, and passes the strict reader once it is rewritten
 * canonically; the strict profile accepts nothing that the default refuses. */
#include "fuzz.h"

#include "quench/quench.h"

static void read_array(const qn_gguf_array *array, int depth)
{
    qn_gguf_array_iter iter = {0, 0};
    qn_gguf_value value, again;
    for (int64_t i = 0; qn_gguf_array_next(array, &iter, &value); i++) {
        if (value.kind == QN_GGUF_KIND_STRING) {
            (void)sum_of(value.as_string.bytes, value.as_string.n_bytes);
            require(i > 64 || (qn_gguf_array_at(array, i, &again, NULL) == QN_OK &&
                               again.as_string.bytes == value.as_string.bytes),
                    "index and iteration agree");
        } else if (value.kind == QN_GGUF_KIND_ARRAY && depth < QN_GGUF_MAX_DEPTH) {
            read_array(&value.as_array, depth + 1);
        }
    }
}

static void read_all(const qn_gguf *gguf)
{
    for (int64_t i = 0; i < qn_gguf_n_entries(gguf); i++) {
        const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, i);
        qn_gguf_value value;
        require(qn_gguf_find_entry(gguf, entry->key, entry->n_key) == i, "a key is found");
        if (qn_gguf_value_at(gguf, i, &value, NULL) == QN_OK && value.kind == QN_GGUF_KIND_ARRAY) {
            read_array(&value.as_array, 1);
        }
    }
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        require(qn_gguf_find_tensor(gguf, info->name, info->n_name) == i, "a tensor is found");
        (void)sum_of(info->data, info->n_bytes);
    }
    const qn_gguf_shard *file = qn_gguf_shard_at(gguf, 0);
    require(file->n_header_bytes + file->n_header_padding + file->n_tensor_bytes +
                    file->n_gap_bytes + file->n_tail_bytes ==
                file->n_bytes,
            "the account adds up");
    qn_gguf_report *report = NULL;
    require(qn_gguf_lint(gguf, true, &report, NULL) == QN_OK, "the report is made");
    qn_gguf_report_free(report);
}

static void rewrite(const qn_gguf *gguf, const uint8_t *bytes, int64_t n_bytes)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    qn_gguf_writer *w = NULL;
    qn_gguf *again = NULL;
    const void *out = NULL;
    int64_t n_out = 0;
    strict.strict = true;
    options.layout = QN_GGUF_LOSSLESS;
    require(qn_gguf_writer_from(gguf, &options, &w, NULL) == QN_OK, "what was read can be written");
    require(qn_gguf_writer_finish(w, &out, &n_out, NULL) == QN_OK, "lossless finishes");
    require(n_out == n_bytes && memcmp(out, bytes, (size_t)n_bytes) == 0, "the bytes are the same");
    qn_gguf_writer_free(w);
    options.layout = QN_GGUF_CANONICAL;
    if (qn_gguf_writer_from(gguf, &options, &w, NULL) == QN_OK) {
        require(qn_gguf_writer_finish(w, &out, &n_out, NULL) == QN_OK, "canonical finishes");
        require(qn_gguf_parse(out, n_out, &strict, &again, NULL) == QN_OK, "canonical is strict");
        require(qn_gguf_n_tensors(again) == qn_gguf_n_tensors(gguf), "no tensor is lost");
        qn_gguf_close(again);
        qn_gguf_writer_free(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    const qn_status st = qn_gguf_parse(bytes, (int64_t)n_bytes, &options, &gguf, &err);
    require(st == QN_OK || err.message[0] != '\0', "a refusal says why");
    options.strict = true;
    qn_gguf *strict = NULL;
    require(qn_gguf_parse(bytes, (int64_t)n_bytes, &options, &strict, NULL) != QN_OK || st == QN_OK,
            "strict accepts no more than the default");
    qn_gguf_close(strict);
    if (st == QN_OK) {
        read_all(gguf);
        /* an alignment of 2^31 makes a canonical header of that size: lawful, but no fuzzing */
        if (qn_gguf_alignment(gguf) <= 1 << 16) {
            rewrite(gguf, bytes, (int64_t)n_bytes);
        }
        qn_gguf_close(gguf);
    }
    options.strict = false;
    options.keep_damaged = true;
    if (qn_gguf_parse(bytes, (int64_t)n_bytes, &options, &gguf, NULL) == QN_OK) {
        require((qn_gguf_damage(gguf) != NULL) == (st != QN_OK), "damage is what was refused");
        qn_gguf_close(gguf);
    }
    return 0;
}

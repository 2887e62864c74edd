/* gguf_shard_name.c — the names of the files of a split model. */
#include "gguf/gguf_internal.h"

/* Five digits, or -1. */
static int64_t five_digits(const char *p)
{
    int64_t value = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return -1;
        }
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

bool qn_gguf_parse_shard_path(const char *path, int64_t *out_n_prefix, int64_t *out_index,
                              int64_t *out_count)
{
    const size_t n = strlen(path);
    if (n < QNI_N_SUFFIX_CHARS) {
        return false;
    }
    const char *suffix = path + n - QNI_N_SUFFIX_CHARS;
    const int64_t number = suffix[0] == '-' ? five_digits(suffix + 1) : -1;
    const int64_t count = memcmp(suffix + 6, "-of-", 4) == 0 ? five_digits(suffix + 10) : -1;
    if (number < 1 || count < number || count > QNI_MAX_SHARDS ||
        memcmp(suffix + 15, ".gguf", 5) != 0) {
        return false;
    }
    if (out_n_prefix) {
        *out_n_prefix = (int64_t)n - QNI_N_SUFFIX_CHARS;
    }
    if (out_index) {
        *out_index = number - 1;
    }
    if (out_count) {
        *out_count = count;
    }
    return true;
}

qn_status qn_gguf_shard_path(const char *prefix, int64_t n_prefix, int64_t index, int64_t count,
                             char *out, size_t n_out, qn_error *err)
{
    QN_CHECK(count >= 1 && count <= QNI_MAX_SHARDS && index >= 0 && index < count && n_prefix >= 0,
             err, QN_ERR_INVALID_ARGUMENT, -1, "there is no shard %" PRId64 " of %" PRId64,
             index + 1, count);
    QN_CHECK(n_out > QNI_N_SUFFIX_CHARS && (uint64_t)n_prefix < n_out - QNI_N_SUFFIX_CHARS, err,
             QN_ERR_INVALID_ARGUMENT, -1, "a shard's path would not fit in %zu bytes", n_out);
    memmove(out, prefix, (size_t)n_prefix);
    (void)snprintf(out + n_prefix, n_out - (size_t)n_prefix, "-%05" PRId64 "-of-%05" PRId64 ".gguf",
                   index + 1, count);
    return QN_OK;
}

/* probe.c — files told from their first bytes: the formats that quench reads, and what people give
 * it by mistake. */
#include "quench/probe.h"

#include "dtype/dtype.h"

typedef struct magic {
    const char *bytes;
    uint8_t n_bytes;
    uint16_t at;
    qn_file_kind kind;
} magic;

/* The first row that fits counts. */
static const magic magics[] = {
    {"GGUF", 4, 0, QN_FILE_GGUF},
    {"lmgg", 4, 0, QN_FILE_GGML_OLD},
    {"fmgg", 4, 0, QN_FILE_GGML_OLD},
    {"tjgg", 4, 0, QN_FILE_GGML_OLD},
    {"algg", 4, 0, QN_FILE_GGML_OLD},
    {"version https://git-lfs", 23, 0, QN_FILE_LFS_POINTER},
    {"PK\x03\x04", 4, 0, QN_FILE_ZIP},
    {"PK\x05\x06", 4, 0, QN_FILE_ZIP},
    {"\x80\x02", 2, 0, QN_FILE_PICKLE},
    {"\x80\x03", 2, 0, QN_FILE_PICKLE},
    {"\x80\x04", 2, 0, QN_FILE_PICKLE},
    {"\x80\x05", 2, 0, QN_FILE_PICKLE},
    {"\x1f\x8b", 2, 0, QN_FILE_COMPRESSED},
    {"BZh", 3, 0, QN_FILE_COMPRESSED},
    {"\xfd"
     "7zXZ",
     5, 0, QN_FILE_COMPRESSED},
    {"\x28\xb5\x2f\xfd", 4, 0, QN_FILE_COMPRESSED},
    {"\x04\x22\x4d\x18", 4, 0, QN_FILE_COMPRESSED},
    {"7z\xbc\xaf\x27\x1c", 6, 0, QN_FILE_COMPRESSED},
    {"\x93NUMPY", 6, 0, QN_FILE_NPY},
    {"\x89HDF\r\n", 6, 0, QN_FILE_HDF5},
    {"\x7f"
     "ELF",
     4, 0, QN_FILE_PROGRAM},
    {"#!", 2, 0, QN_FILE_PROGRAM},
    {"ustar", 5, 257, QN_FILE_TAR},
};

static const char *const kind_texts[] = {
    [QN_FILE_UNKNOWN] = "no format that is known here",
    [QN_FILE_EMPTY] = "an empty file: download it again",
    [QN_FILE_ZEROS] = ("nothing but zero bytes: a download that was never filled in; download it "
                       "again"),
    [QN_FILE_GGUF] = "a GGUF file",
    [QN_FILE_SAFETENSORS] = "a safetensors file",
    [QN_FILE_JSON] = "JSON, not a model: an error message that was saved, or a configuration",
    [QN_FILE_GGML_OLD] = "a GGML or GGJT file from before GGUF: convert the original model again",
    [QN_FILE_LFS_POINTER] = "a Git LFS pointer, not the file itself: fetch it with `git lfs pull`",
    [QN_FILE_HTML] = "a web page (HTML), not a model: the download asked for a sign-in or failed",
    [QN_FILE_ZIP] = "a ZIP archive, as PyTorch writes its files: save it as safetensors first",
    [QN_FILE_PICKLE] = ("a Python pickle, which can run code when it is loaded: save it as "
                        "safetensors first"),
    [QN_FILE_COMPRESSED] = "a compressed file: unpack it first",
    [QN_FILE_TAR] = "a tar archive: unpack it first",
    [QN_FILE_NPY] = "a NumPy array, not a model",
    [QN_FILE_HDF5] = "an HDF5 file: save it as safetensors first",
    [QN_FILE_PROGRAM] = "a program, not a model",
};

static bool is_all_zero(const uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Text after white space and a byte order mark. */
static qn_file_kind probe_text(const uint8_t *bytes, size_t n_bytes)
{
    size_t i = n_bytes >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < n_bytes && (bytes[i] == ' ' || (bytes[i] >= '\t' && bytes[i] <= '\r'))) {
        i++;
    }
    if (n_bytes - i >= 2 && bytes[i] == '<' && (bytes[i + 1] == '!' || bytes[i + 1] == '?')) {
        return QN_FILE_HTML;
    }
    char word[8] = "";
    for (size_t k = 0; k < 5 && i + k < n_bytes; k++) {
        word[k] = (char)bytes[i + k];
    }
    if (qni_equal_nocase(word, "<html") || qni_equal_nocase(word, "<head")) {
        return QN_FILE_HTML;
    }
    return i < n_bytes && bytes[i] == '{' ? QN_FILE_JSON : QN_FILE_UNKNOWN;
}

qn_file_kind qn_probe(const void *bytes, size_t n_bytes)
{
    const uint8_t *b = bytes;
    if (n_bytes == 0) {
        return QN_FILE_EMPTY;
    }
    /* A header length that may be: its upper bytes are zero. First of all, because its lower bytes
     * may be anything: 80 02, the magic of a pickle, is a header of 640 bytes. */
    if (n_bytes >= 9 && b[8] == '{' && qni_load_u32le(b + 4) == 0) {
        return QN_FILE_SAFETENSORS;
    }
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const magic *m = &magics[i];
        if (n_bytes >= (size_t)m->at + m->n_bytes && memcmp(b + m->at, m->bytes, m->n_bytes) == 0) {
            return m->kind;
        }
    }
    if (is_all_zero(b, n_bytes)) {
        return QN_FILE_ZEROS;
    }
    const qn_file_kind kind = probe_text(b, n_bytes);
    const bool has_wild_length = kind == QN_FILE_UNKNOWN && n_bytes >= 9 && b[8] == '{';
    return has_wild_length ? QN_FILE_SAFETENSORS : kind; /* its reader says what is wrong */
}

const char *qn_file_kind_text(qn_file_kind kind)
{
    const size_t n = sizeof kind_texts / sizeof kind_texts[0];
    return (size_t)kind < n ? kind_texts[kind] : kind_texts[QN_FILE_UNKNOWN];
}

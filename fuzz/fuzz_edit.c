/* fuzz_edit.c — a model and edits from the input: whatever they are, what the plan lays out is read
 * back by the strict reader, with the keys and tensors that were left, or the edits are refused.
 * Made in place, they leave the data where they are. Input: the number of edits; for each a kind, a
 * type and an element type, a name, a new name and a value, each ended by a line feed; the rest is
 * the model, or a small one if it is none. */
#include <unistd.h>

#include "fuzz.h"

#include "quench/quench.h"

enum { MAX_EDITS = 8, MAX_TEXT = 256 };

typedef struct input {
    const uint8_t *at;
    size_t n_left;
} input;

static int next_byte(input *in)
{
    if (in->n_left == 0) {
        return 0;
    }
    in->n_left--;
    return *in->at++;
}

/* Up to the next line feed, NUL-terminated. */
static const char *next_text(input *in, char *out)
{
    size_t n = 0;
    while (in->n_left > 0) {
        const int c = next_byte(in);
        if (c == '\n') {
            break;
        }
        if (n + 1 < MAX_TEXT) {
            out[n++] = (char)c;
        }
    }
    out[n] = '\0';
    return out;
}

static int64_t read_edits(input *in, qn_edit *edits, char texts[][3][MAX_TEXT])
{
    const int64_t n = next_byte(in) % (MAX_EDITS + 1);
    for (int64_t i = 0; i < n; i++) {
        edits[i].kind = (qn_edit_kind)(next_byte(in) % 5);
        edits[i].type = (qn_gguf_type)(next_byte(in) % 15 - 1);
        edits[i].elem_type = (qn_gguf_type)(next_byte(in) % 15 - 1);
        edits[i].name = next_text(in, texts[i][0]);
        edits[i].new_name = next_text(in, texts[i][1]);
        edits[i].text = next_text(in, texts[i][2]);
        edits[i].n_text = (int64_t)strlen(edits[i].text);
    }
    return n;
}

/* A file without a name, so that nothing stays behind. */
static const char *file_with(const void *bytes, size_t n_bytes, char *path, size_t n_path)
{
    static int fd = -1;
    if (fd < 0) {
        char name[] = "/tmp/fuzz_edit_XXXXXX";
        fd = mkstemp(name);
        require(fd >= 0, "a temporary file");
        (void)unlink(name);
    }
    require(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n_bytes, 0) == (ssize_t)n_bytes,
            "it is written");
    (void)snprintf(path, n_path, "/proc/self/fd/%d", fd);
    return path;
}

/* A model with a key of each sort and three tensors. */
static void make_model(const void **out_bytes, int64_t *out_n_bytes)
{
    static qn_gguf_writer *w;
    static const float data[32] = {1};
    const int64_t ne[] = {32};
    const uint16_t numbers[] = {1, 2, 3};
    if (w == NULL) {
        require(qn_gguf_writer_new(NULL, &w, NULL) == QN_OK &&
                    qn_gguf_writer_set_string(w, "general.architecture", "llama", 5, NULL) ==
                        QN_OK &&
                    qn_gguf_writer_set_u32(w, "k", 7, NULL) == QN_OK &&
                    qn_gguf_writer_set_array(w, "a", QN_GGUF_U16, numbers, 3, NULL) == QN_OK &&
                    qn_gguf_writer_add(w, "x", 1, QN_DTYPE_F32, ne, 1, data, 128, NULL) == QN_OK &&
                    qn_gguf_writer_add(w, "y", 1, QN_DTYPE_F32, ne, 1, data, 128, NULL) == QN_OK &&
                    qn_gguf_writer_add(w, "z", 1, QN_DTYPE_F32, ne, 1, data, 128, NULL) == QN_OK,
                "a small model");
    }
    require(qn_gguf_writer_finish(w, out_bytes, out_n_bytes, NULL) == QN_OK, "it is finished");
}

/* The header of the output, with room for data that nobody reads. */
static void check_plan(const qn_plan *plan)
{
    int64_t n_header = 0;
    qn_plan_output output;
    qn_gguf *gguf = NULL;
    const void *header = qn_plan_output_header(plan, 0, &n_header);
    require(qn_plan_output_at(plan, 0, &output) && n_header == output.n_header_bytes,
            "there is an output");
    if (output.n_bytes > 1 << 20) {
        return;
    }
    char *file = calloc(1, (size_t)output.n_bytes + 1);
    require(file != NULL, "memory");
    memcpy(file, header, (size_t)n_header);
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    require(qn_gguf_parse(file, output.n_bytes, &options, &gguf, NULL) == QN_OK,
            "what is laid out is read");
    require(qn_gguf_n_tensors(gguf) == qn_plan_n_items(plan), "all tensors are there");
    qn_gguf_close(gguf);
    free(file);
}

/* --- in place --------------------------------------------------------------------------------- */

/* The data of an open file and how many tensors there are. */
static void look(const qn_gguf *gguf, int64_t *out_n_tensors, const uint8_t **out_data,
                 int64_t *out_n_data)
{
    *out_n_tensors = qn_gguf_n_tensors(gguf);
    *out_data = (const uint8_t *)qn_gguf_bytes(gguf, 0) + qn_gguf_data_offset(gguf);
    *out_n_data = qn_gguf_n_bytes(gguf) - qn_gguf_data_offset(gguf);
}

/* `bytes`: the model, which opens. */
static void check_in_place(const void *bytes, size_t n_bytes, const qn_edit_options *options)
{
    static char folder[FUZZ_FOLDER_BYTES];
    char path[FUZZ_FOLDER_BYTES + 8];
    qn_gguf_options reading = QN_GGUF_OPTIONS_INIT;
    qn_edit_result result;
    qn_gguf *before = NULL;
    qn_gguf *after = NULL;
    int64_t n_tensors[2];
    const uint8_t *data[2];
    int64_t n_data[2];
    reading.single_shard = true;
    if (qn_gguf_parse(bytes, (int64_t)n_bytes, &reading, &before, NULL) != QN_OK) {
        return; /* it is a safetensors file, or a part that needs the others */
    }
    make_folder(folder);
    (void)snprintf(path, sizeof path, "%s/m", folder);
    write_file(path, bytes, n_bytes);
    const qn_status st = qn_edit_in_place(path, options, false, &result, NULL);
    require(qn_gguf_open(path, &reading, &after, NULL) == QN_OK, "it still opens");
    if (st == QN_OK) {
        look(before, &n_tensors[0], &data[0], &n_data[0]);
        look(after, &n_tensors[1], &data[1], &n_data[1]);
        require(n_tensors[0] == n_tensors[1] && n_data[0] == n_data[1], "nothing is lost");
        require(n_data[0] <= 0 || memcmp(data[0], data[1], (size_t)n_data[0]) == 0,
                "the data stay");
        require(qn_gguf_data_offset(after) == result.n_header_bytes,
                "the header is as long as told");
    } else {
        require(qn_gguf_n_bytes(after) == (int64_t)n_bytes &&
                    memcmp(qn_gguf_bytes(after, 0), bytes, n_bytes) == 0,
                "refused, nothing has changed");
    }
    require(qn_edit_check(path, NULL) == QN_OK, "no journal stays");
    qn_gguf_close(after);
    qn_gguf_close(before);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void take_warning(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    require(strlen(message) < 4096, "a warning ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static char texts[MAX_EDITS][3][MAX_TEXT];
    qn_edit edits[MAX_EDITS];
    qn_edit_options options = QN_EDIT_OPTIONS_INIT;
    input in = {bytes, n_bytes};
    char path[64];
    qn_model *model = NULL;
    qn_plan *plan = NULL;
    memset(edits, 0, sizeof edits);
    options.log = take_warning;
    options.edits = edits;
    options.n_edits = read_edits(&in, edits, texts);
    const void *file = in.at;
    int64_t n_file = (int64_t)in.n_left;
    if (qn_model_open(file_with(file, (size_t)n_file, path, sizeof path), NULL, &model, NULL) !=
        QN_OK) {
        make_model(&file, &n_file);
        require(qn_model_open(file_with(file, (size_t)n_file, path, sizeof path), NULL, &model,
                              NULL) == QN_OK,
                "the small model opens");
    }
    check_in_place(file, (size_t)n_file, &options);
    if (qn_plan_edit(model, &options, &plan, NULL) == QN_OK) {
        check_plan(plan);
    }
    qn_plan_free(plan);
    qn_model_close(model);
    return 0;
}

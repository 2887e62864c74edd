/* cmd_codec.c — `quench codec`: raw rows of f32 to raw blocks and back, for scripts and tests. */
#include <errno.h>

#include "cli/out_file.h"
#include "quench/codec.h"

#define CHUNK_BYTES (1 << 20) /* of f32 worked on at once, at least one row */

typedef struct codec_values {
    qn_dtype dtype;
    int64_t n_rows; /* 0: as many as there are */
    int64_t n_cols;
    const char *weights_path;
} codec_values;

/* One run: buffers for a chunk of rows. */
typedef struct codec_job {
    const cli_call *call;
    const codec_values *values;
    const char *in_path;
    FILE *in;
    bool is_encode;
    float *weights;   /* NULL: none */
    int64_t n_row_in; /* bytes of a row as it comes */
    int64_t n_row_out;
    int64_t n_chunk_rows;
    unsigned char *buf_in;
    unsigned char *buf_out;
    cli_out_file out;
    bool has_overflowed;
} codec_job;

static uint32_t load_u32le(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Little-endian floats of a file to those of the machine, in place, and back. */
static void floats_from_file(unsigned char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = load_u32le(bytes + 4 * i);
        memcpy(bytes + 4 * i, &bits, 4);
    }
}

static void floats_to_file(unsigned char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, bytes + 4 * i, 4);
        for (int b = 0; b < 4; b++) {
            bytes[4 * i + b] = (unsigned char)(bits >> (8 * b));
        }
    }
}

static int fail_named(qn_error *err, const char *path)
{
    if (err->path[0] == '\0') {
        cli_text shown = {NULL, 0, 0};
        cli_text_escape(&shown, path, (int64_t)strlen(path), 200);
        (void)snprintf(err->path, sizeof err->path, "%s", shown.chars);
        cli_text_free(&shown);
    }
    return cli_fail(err);
}

static int fail_file(const char *path, const char *what)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, path, (int64_t)strlen(path), 0);
    cli_error("%s: %s", shown.chars, what);
    cli_text_free(&shown);
    return CLI_FAILED;
}

static int read_weights(codec_job *job)
{
    const char *path = job->values->weights_path;
    const size_t n_cols = (size_t)job->values->n_cols;
    FILE *file = fopen(path, "rb");
    char message[128];

    if (file == NULL) {
        return cli_file_error(path, "cannot be opened");
    }
    job->weights = cli_alloc(n_cols, sizeof *job->weights);
    const size_t n = fread(job->weights, sizeof *job->weights, n_cols, file);
    const bool has_more = fgetc(file) != EOF;
    (void)fclose(file);
    if (n != n_cols || has_more) {
        (void)snprintf(message, sizeof message,
                       "expected %zu f32, one for each column, and found %s", n_cols,
                       has_more ? "more" : "fewer");
        return fail_file(path, message);
    }
    floats_from_file((unsigned char *)job->weights, job->values->n_cols);
    return CLI_OK;
}

static qn_status convert(codec_job *job, int64_t first_row, int64_t n_rows, qn_error *err)
{
    const codec_values *values = job->values;
    const int64_t n_block_elems = qn_dtype_block_elems(values->dtype);

    if (!job->is_encode) {
        const qn_status status = qn_decode_isa(values->dtype, job->call->common.isa, job->buf_in,
                                               n_rows * values->n_cols / n_block_elems,
                                               (float *)(void *)job->buf_out, err);
        floats_to_file(job->buf_out, n_rows * values->n_cols);
        return status;
    }
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = job->call->common.isa;
    options.allow_overflow = true; /* ggml's bytes for every finite input; said below */
    options.out_overflowed = &job->has_overflowed;
    options.first_row = first_row;
    floats_from_file(job->buf_in, n_rows * values->n_cols);
    return qn_encode_rows(values->dtype, (const float *)(const void *)job->buf_in, n_rows,
                          values->n_cols, job->weights, &options, job->buf_out,
                          n_rows * job->n_row_out, err);
}

/* All rows; *out_n_rows: how many there were. */
static int convert_all(codec_job *job, int64_t *out_n_rows)
{
    const int64_t n_wanted = job->values->n_rows;
    qn_error err = QN_ERROR_INIT;

    for (*out_n_rows = 0; n_wanted == 0 || *out_n_rows < n_wanted;) {
        int64_t n_rows = job->n_chunk_rows;
        if (n_wanted > 0 && n_wanted - *out_n_rows < n_rows) {
            n_rows = n_wanted - *out_n_rows;
        }
        const size_t n = fread(job->buf_in, 1, (size_t)(n_rows * job->n_row_in), job->in);
        if (ferror(job->in) != 0) {
            return cli_file_error(job->in_path, "cannot be read");
        }
        if (n % (size_t)job->n_row_in != 0) {
            return fail_file(job->in_path, "the last row is not whole; check --type and --cols");
        }
        n_rows = (int64_t)n / job->n_row_in;
        if (n_rows == 0) {
            break;
        }
        if (convert(job, *out_n_rows, n_rows, &err) != QN_OK) {
            return fail_named(&err, job->in_path);
        }
        (void)fwrite(job->buf_out, 1, (size_t)(n_rows * job->n_row_out), job->out.stream);
        *out_n_rows += n_rows;
        if (cli_is_interrupted()) {
            cli_error("interrupted; nothing was written");
            return CLI_FAILED;
        }
    }
    return CLI_OK;
}

static int run_job(codec_job *job)
{
    int64_t n_rows = 0;
    char message[128];
    int status = convert_all(job, &n_rows);

    if (status != CLI_OK) {
        return status;
    }
    if (job->values->n_rows > 0 && n_rows < job->values->n_rows) {
        (void)snprintf(message, sizeof message, "expected %" PRId64 " rows and found %" PRId64,
                       job->values->n_rows, n_rows);
        return fail_file(job->in_path, message);
    }
    if (fgetc(job->in) != EOF) {
        (void)snprintf(message, sizeof message, "bytes follow the %" PRId64 " rows of --rows",
                       n_rows);
        return fail_file(job->in_path, message);
    }
    if (job->has_overflowed) {
        cli_log(cli_log_ctx(job->call), QN_LOG_WARNING,
                "a value was too large for the type: a stored scale is infinite");
    }
    return cli_out_commit(&job->out);
}

static int size_rows(codec_job *job)
{
    const codec_values *values = job->values;
    qn_error err = QN_ERROR_INIT;
    int64_t n_blocks_row = 0;

    if (qn_dtype_row_bytes(values->dtype, values->n_cols, &n_blocks_row, &err) != QN_OK) {
        return cli_fail(&err);
    }
    const int64_t n_float_row = values->n_cols * (int64_t)sizeof(float);
    job->n_row_in = job->is_encode ? n_float_row : n_blocks_row;
    job->n_row_out = job->is_encode ? n_blocks_row : n_float_row;
    job->n_chunk_rows = CHUNK_BYTES > n_float_row ? CHUNK_BYTES / n_float_row : 1;
    job->buf_in = cli_alloc((size_t)job->n_chunk_rows, (size_t)job->n_row_in);
    job->buf_out = cli_alloc((size_t)job->n_chunk_rows, (size_t)job->n_row_out);
    return CLI_OK;
}

static int open_and_run(codec_job *job, const char *out_path)
{
    int status = size_rows(job);

    if (status == CLI_OK && job->values->weights_path != NULL) {
        status = read_weights(job);
    }
    if (status != CLI_OK) {
        return status;
    }
    if (cli_is_same_file(job->in_path, out_path)) {
        return fail_file(out_path, "the output is the input; give another name");
    }
    if (job->values->weights_path != NULL &&
        cli_is_same_file(job->values->weights_path, out_path)) {
        return fail_file(out_path, "the output is the file of weights; give another name");
    }
    job->in = strcmp(job->in_path, "-") == 0 ? stdin : fopen(job->in_path, "rb");
    if (job->in == NULL) {
        return cli_file_error(job->in_path, "cannot be opened");
    }
    status = cli_out_open(out_path, &job->out);
    if (status == CLI_OK) {
        status = run_job(job);
        cli_out_abort(&job->out);
    }
    if (job->in != stdin) {
        (void)fclose(job->in);
    }
    return status;
}

static int run(const cli_call *call)
{
    codec_job job = {.call = call, .values = call->values};

    if (call->n_args != 3) {
        return cli_usage_error(call, "expected encode|decode IN OUT");
    }
    job.is_encode = strcmp(call->args[0], "encode") == 0;
    if (!job.is_encode && strcmp(call->args[0], "decode") != 0) {
        return cli_usage_error(call, "expected encode or decode before IN");
    }
    if (job.values->dtype == QN_DTYPE_NONE || job.values->n_cols == 0) {
        return cli_usage_error(call, "--type and --cols are needed");
    }
    if (!job.is_encode && job.values->weights_path != NULL) {
        return cli_usage_error(call, "--weights is for encode");
    }
    job.in_path = call->args[1];
    const int status = open_and_run(&job, call->args[2]);
    free(job.weights);
    free(job.buf_in);
    free(job.buf_out);
    return status;
}

#define FIELD(name) .offset = offsetof(codec_values, name)

static const cli_option options[] = {
    {.name = "type", .arg = "T", .kind = CLI_DTYPE, FIELD(dtype), .help = "the type of the blocks"},
    {.name = "rows",
     .arg = "N",
     .kind = CLI_INT,
     .min = 1,
     .max = INT64_MAX,
     FIELD(n_rows),
     .help = "expect exactly N rows; without it, as many as there are"},
    {.name = "cols",
     .arg = "N",
     .kind = CLI_INT,
     .min = 1,
     .max = INT32_MAX,
     FIELD(n_cols),
     .help = "elements of a row, a whole number of blocks"},
    {.name = "weights",
     .arg = "FILE",
     .kind = CLI_TEXT,
     FIELD(weights_path),
     .help = "importance weights for encode: one little-endian f32 for each column"},
};

const cli_command cli_cmd_codec = {
    .name = "codec",
    .summary = "convert raw f32 rows to raw blocks and back",
    .usage = "[OPTIONS] encode|decode IN OUT",
    .description =
        "encode reads rows of little-endian f32 and writes the blocks of a tensor type; decode "
        "does the reverse. Nothing but data is in either file: for scripts and tests. IN and OUT "
        "may be -, the standard input and output.\n\n"
        "The blocks are those of ggml's reference for every finite input, also where a scale "
        "becomes infinite, which is said. NaN and infinity in the input are an error.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_ISA,
    .n_value_bytes = sizeof(codec_values),
    .run = run,
};

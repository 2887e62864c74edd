/* cmd_extract.c — `quench extract`: one tensor as a NumPy array or as its stored bytes. */
#include "cli/out_file.h"
#include "quench/codec.h"
#include "quench/model.h"

#define BUFFER_ELEMS 8192 /* decoded at a time; at least one block of every type */
#define NPY_ALIGN    64

typedef struct extract_values {
    bool is_raw;
} extract_values;

/* What the bytes of the run become. */
typedef struct extract_job {
    FILE *out;
    qn_dtype dtype;
    bool is_verbatim; /* the stored bytes are written as they are */
    qn_status status;
    qn_error err;
} extract_job;

/* NumPy's name of a type that it has; NULL: it is decoded to f32. */
static const char *npy_type(qn_dtype dtype)
{
    switch (dtype) {
    case QN_DTYPE_F16:
        return "<f2";
    case QN_DTYPE_F32:
        return "<f4";
    case QN_DTYPE_F64:
        return "<f8";
    case QN_DTYPE_I8:
        return "|i1";
    case QN_DTYPE_I16:
        return "<i2";
    case QN_DTYPE_I32:
        return "<i4";
    case QN_DTYPE_I64:
        return "<i8";
    default:
        return NULL;
    }
}

/* Version 1.0 of the format: magic, length, a dictionary padded so that the data are aligned. */
static void write_npy_header(FILE *out, const qn_tensor_info *tensor)
{
    const char *type = npy_type(tensor->dtype);
    cli_text text = {NULL, 0, 0};

    cli_text_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                    type != NULL ? type : "<f4");
    for (int32_t i = tensor->n_dims - 1; i >= 0; i--) {
        cli_text_printf(&text, "%" PRId64 ",%s", tensor->ne[i], i > 0 ? " " : "");
    }
    cli_text_printf(&text, "), }");
    while ((10 + text.n + 1) % NPY_ALIGN != 0) {
        cli_text_add(&text, " ", 1);
    }
    cli_text_add(&text, "\n", 1);
    (void)fwrite("\x93NUMPY\x01\x00", 1, 8, out);
    (void)fputc((int)(text.n & 0xff), out);
    (void)fputc((int)(text.n >> 8), out);
    (void)fwrite(text.chars, 1, text.n, out);
    cli_text_free(&text);
}

static void write_floats(FILE *out, const float *values, int64_t n)
{
    unsigned char bytes[4];

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int b = 0; b < 4; b++) {
            bytes[b] = (unsigned char)(bits >> (8 * b));
        }
        (void)fwrite(bytes, 1, sizeof bytes, out);
    }
}

/* Pieces come in order and hold whole blocks. */
static void take_bytes(void *ctx, int64_t item, const void *bytes, size_t n_bytes)
{
    extract_job *job = ctx;
    float values[BUFFER_ELEMS];
    const int64_t n_block_bytes = qn_dtype_block_bytes(job->dtype);
    const int64_t n_block_elems = qn_dtype_block_elems(job->dtype);
    const unsigned char *p = bytes;
    int64_t n_left = (int64_t)n_bytes / n_block_bytes;

    (void)item;
    if (job->is_verbatim) {
        (void)fwrite(bytes, 1, n_bytes, job->out);
        return;
    }
    while (n_left > 0 && job->status == QN_OK) {
        const int64_t n_most = BUFFER_ELEMS / n_block_elems;
        const int64_t n_blocks = n_left < n_most ? n_left : n_most;
        job->status = qn_decode(job->dtype, p, n_blocks, values, &job->err);
        write_floats(job->out, values, n_blocks * n_block_elems);
        p += n_blocks * n_block_bytes;
        n_left -= n_blocks;
    }
}

static int run_plan(const cli_call *call, const qn_plan *plan, extract_job *job)
{
    cli_progress progress;
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    qn_error err = QN_ERROR_INIT;

    cli_progress_begin(&progress, call, "extract");
    options.n_threads = 1; /* nothing to compute */
    options.memory_bytes = call->common.n_memory_bytes;
    options.progress = cli_progress_step;
    options.progress_ctx = &progress;
    options.on_item_bytes = take_bytes;
    options.bytes_ctx = job;
    const qn_status status = qn_plan_run(plan, NULL, &options, NULL, &err);
    cli_progress_end(&progress);
    if (status != QN_OK) {
        return cli_fail(&err);
    }
    return job->status == QN_OK ? CLI_OK : cli_fail(&job->err);
}

static int extract_tensor(const cli_call *call, const qn_model *model, int64_t index,
                          const char *out_path)
{
    const extract_values *values = call->values;
    const qn_tensor_info *tensor = qn_model_tensor(model, index);
    extract_job job = {.dtype = tensor->dtype, .err = QN_ERROR_INIT};
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    cli_out_file out;

    if (qn_plan_read(model, &index, 1, false, NULL, &plan, &err) != QN_OK) {
        return cli_fail(&err);
    }
    int status = cli_out_open(out_path, &out);
    if (status == CLI_OK) {
        job.out = out.stream;
        job.is_verbatim = values->is_raw || npy_type(tensor->dtype) != NULL;
        if (!values->is_raw) {
            write_npy_header(out.stream, tensor);
        }
        status = run_plan(call, plan, &job);
        status = status == CLI_OK ? cli_out_commit(&out) : status;
        cli_out_abort(&out);
    }
    qn_plan_free(plan);
    return status;
}

/* The name nearest to one that is not there. */
static int no_such_tensor(const cli_call *call, const qn_model *model, const char *name)
{
    const char *nearest = NULL;
    int best = 4;
    cli_text shown = {NULL, 0, 0};

    for (int64_t i = 0; i < qn_model_n_tensors(model); i++) {
        const int edits = cli_edit_distance(name, qn_model_tensor(model, i)->name, best);
        if (edits < best) {
            best = edits;
            nearest = qn_model_tensor(model, i)->name;
        }
    }
    cli_text_escape(&shown, call->args[0], (int64_t)strlen(call->args[0]), 0);
    cli_text_printf(&shown, ": no tensor '");
    cli_text_escape(&shown, name, (int64_t)strlen(name), 100);
    if (nearest != NULL) {
        cli_text_printf(&shown, "'; did you mean '");
        cli_text_escape(&shown, nearest, (int64_t)strlen(nearest), 100);
    }
    cli_error("%s%s", shown.chars, nearest != NULL ? "'?" : "'; 'quench inspect' lists them");
    cli_text_free(&shown);
    return CLI_FAILED;
}

/* True (said) if the output is one of the model's files. */
static bool is_input(const qn_model *model, const char *out_path)
{
    const char *input;

    for (int32_t i = 0; (input = qn_model_input_path(model, i)) != NULL; i++) {
        if (cli_is_same_file(input, out_path)) {
            cli_error("%s: the output is the input; give another name", out_path);
            return true;
        }
    }
    return false;
}

/* An array needs a type and a shape. */
static int refuse_opaque(const cli_call *call)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, call->args[0], (int64_t)strlen(call->args[0]), 0);
    cli_text_printf(&shown, ": tensor '");
    cli_text_escape(&shown, call->args[1], (int64_t)strlen(call->args[1]), 100);
    cli_error("%s' has a type or shape that has no counterpart here; --raw writes its bytes",
              shown.chars);
    cli_text_free(&shown);
    return CLI_FAILED;
}

static int run(const cli_call *call)
{
    const extract_values *values = call->values;
    qn_model *model = NULL;

    if (call->n_args != 3) {
        return cli_usage_error(call, "expected FILE TENSOR OUT");
    }
    const char *name = call->args[1];
    int status = cli_open_bytes(call, call->args[0], &model);
    if (status != CLI_OK) {
        return status;
    }
    const int64_t index = qn_model_find(model, name, (int64_t)strlen(name));
    if (index < 0) {
        status = no_such_tensor(call, model, name);
    } else if (is_input(model, call->args[2])) {
        status = CLI_FAILED;
    } else if (qn_model_tensor(model, index)->is_opaque && !values->is_raw) {
        status = refuse_opaque(call);
    } else {
        status = extract_tensor(call, model, index, call->args[2]);
    }
    qn_model_close(model);
    return status;
}

static const cli_option options[] = {
    {.name = "raw",
     .help = "write the bytes as they are stored, without a header",
     .kind = CLI_FLAG,
     .offset = offsetof(extract_values, is_raw)},
};

const cli_command cli_cmd_extract = {
    .name = "extract",
    .summary = "write one tensor as a NumPy array or raw bytes",
    .usage = "[OPTIONS] FILE TENSOR OUT",
    .description =
        "Writes the tensor as an .npy file that NumPy loads: types that NumPy has stay what they "
        "are, all others are decoded to f32. Dimensions are in NumPy's order, the slowest-varying "
        "one first. OUT may be -, the standard output.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_MEMORY,
    .n_value_bytes = sizeof(extract_values),
    .run = run,
};

/* test_quantize.c — the quantize policy as a plan: where it differs from upstream on purpose
 * (docs/design/deviations.md), what it refuses, and what no file comparison can show. */
#include "model_fixture.h"

#define BYTES(text) (text), (int64_t)sizeof(text) - 1

typedef struct place {
    char folder[PATH_BYTES];
    char in[PATH_BYTES];
    char out[PATH_BYTES];
} place;

static void enter(place *p)
{
    new_folder(p->folder);
    in_folder(p->folder, "in.gguf", p->in);
    in_folder(p->folder, "out.gguf", p->out);
}

static qn_gguf_writer *new_writer(void)
{
    qn_gguf_writer *writer;
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.layout = QN_GGUF_LOSSLESS; /* also what canonical files do not hold */
    assert_int_equal(qn_gguf_writer_new(&options, &writer, NULL), QN_OK);
    assert_int_equal(
        qn_gguf_writer_set_string(writer, "general.architecture", BYTES("llama"), NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u32(writer, "llama.block_count", 4, NULL), QN_OK);
    return writer;
}

static const float zeros[4096];

static void add(qn_gguf_writer *writer, const char *name, qn_dtype dtype, int64_t ne0, int64_t ne1,
                int64_t ne2, int64_t ne3)
{
    const int64_t ne[] = {ne0, ne1, ne2, ne3};
    int64_t n_bytes;
    assert_int_equal(qn_dtype_tensor_bytes(dtype, ne, 4, &n_bytes, NULL), QN_OK);
    assert_true(n_bytes <= (int64_t)sizeof zeros);
    assert_int_equal(
        qn_gguf_writer_add(writer, name, (int64_t)strlen(name), dtype, ne, 4, zeros, n_bytes, NULL),
        QN_OK);
}

static void finish(qn_gguf_writer *writer, const char *path)
{
    qn_error err = QN_ERROR_INIT;
    if (qn_gguf_writer_finish_path(writer, path, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    qn_gguf_writer_free(writer);
}

/* Quantize and open the result. */
static qn_gguf *quantize(const place *p, const char *preset, const qn_quantize_options *options)
{
    qn_model *model = open_model(p->in);
    qn_plan *plan = plan_preset(model, preset, options);
    qn_error err = QN_ERROR_INIT;
    if (qn_plan_run(plan, p->out, NULL, NULL, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    qn_plan_free(plan);
    qn_model_close(model);
    qn_gguf *gguf;
    qn_gguf_options open = QN_GGUF_OPTIONS_INIT;
    open.strict = true;
    if (qn_gguf_open(p->out, &open, &gguf, &err) != QN_OK) {
        fail_msg("the result: %s", err.message);
    }
    return gguf;
}

static qn_status plan_status(const place *p, const char *preset_name, qn_quantize_options options,
                             qn_error *err)
{
    const qn_preset *preset;
    assert_int_equal(qn_preset_from_name(preset_name, &preset, NULL), QN_OK);
    options.preset = preset->id;
    qn_model *model = open_model(p->in);
    qn_plan *plan;
    const qn_status st = qn_plan_quantize(model, &options, &plan, err);
    assert_int_equal(plan == NULL, st != QN_OK);
    qn_plan_free(plan);
    qn_model_close(model);
    return st;
}

/* --- deviations ---------------------------------------------------------------------------------
 */

static void alignment_is_kept(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    assert_int_equal(qn_gguf_writer_set_u32(writer, "general.alignment", 256, NULL), QN_OK);
    add(writer, "a.weight", QN_DTYPE_F32, 32, 3, 1, 1);
    add(writer, "b.weight", QN_DTYPE_F32, 32, 3, 1, 1);
    finish(writer, p.in);
    qn_gguf *gguf = quantize(&p, "Q8_0", NULL);
    assert_int_equal(qn_gguf_alignment(gguf), 256);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(qn_gguf_tensor(gguf, i)->file_offset % 256, 0);
    }
    qn_gguf_close(gguf);
    remove_folder(p.folder);
}

static void strings_are_kept_whole(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    assert_int_equal(qn_gguf_writer_set_string(writer, "x.text", BYTES("before\0after"), NULL),
                     QN_OK);
    add(writer, "a.weight", QN_DTYPE_F32, 32, 3, 1, 1);
    finish(writer, p.in);
    qn_gguf *gguf = quantize(&p, "Q8_0", NULL);
    qn_gguf_string text;
    assert_int_equal(qn_gguf_get_string(gguf, "x.text", &text, NULL), QN_OK);
    assert_int_equal(text.n_bytes, 12);
    assert_memory_equal(text.bytes, "before\0after", 12);
    qn_gguf_close(gguf);
    remove_folder(p.folder);
}

static void odd_bools_are_kept(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    assert_int_equal(qn_gguf_writer_set_raw(writer, BYTES("x.flag"), QN_GGUF_BOOL, "\x07", 1, NULL),
                     QN_OK);
    add(writer, "a.weight", QN_DTYPE_F32, 32, 3, 1, 1);
    finish(writer, p.in);
    qn_gguf *gguf = quantize(&p, "Q8_0", NULL);
    const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, BYTES("x.flag")));
    assert_non_null(entry);
    assert_memory_equal(entry->bytes, "\x07", 1);
    qn_gguf_close(gguf);
    remove_folder(p.folder);
}

static void overrides(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    add(writer, "a.weight", QN_DTYPE_F32, 32, 3, 1, 1);
    finish(writer, p.in);
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    qn_kv_override list[] = {
        {.key = "x.int", .kind = QN_OVERRIDE_INT, .int_value = UINT32_MAX},
        {.key = "x.float", .kind = QN_OVERRIDE_FLOAT, .float_value = 1.1},
        {.key = "x.text", .kind = QN_OVERRIDE_STR, .str_value = text},
        {.key = "x.bool", .kind = QN_OVERRIDE_BOOL, .bool_value = true},
    };
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.overrides = list;
    options.n_overrides = 4;
    qn_gguf *gguf = quantize(&p, "Q8_0", &options);
    uint32_t number;
    float real;
    bool flag;
    qn_gguf_string string;
    assert_int_equal(qn_gguf_get_u32(gguf, "x.int", &number, NULL), QN_OK);
    assert_true(number == UINT32_MAX);
    assert_int_equal(qn_gguf_get_f32(gguf, "x.float", &real, NULL), QN_OK);
    assert_true(real == 1.1f);
    assert_int_equal(qn_gguf_get_bool(gguf, "x.bool", &flag, NULL), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_gguf_get_string(gguf, "x.text", &string, NULL), QN_OK);
    assert_int_equal(string.n_bytes, sizeof text - 1);
    qn_gguf_close(gguf);
    static const int64_t refused[] = {-1, INT64_C(1) << 32};
    for (int i = 0; i < 2; i++) {
        list[0].int_value = refused[i];
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(plan_status(&p, "Q8_0", options, &err), QN_ERR_INVALID_METADATA);
        assert_non_null(strstr(err.message, "x.int"));
    }
    remove_folder(p.folder);
}

/* Blocks are renumbered by their numbers, in enc. and dec. names too. */
static void pruning(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    for (int i = 0; i < 12; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "enc.blk.%d.x.weight", i);
        add(writer, name, QN_DTYPE_F32, 32, i + 1, 1, 1);
    }
    finish(writer, p.in);
    static const int32_t pruned[] = {3, 1, 3};
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.prune_layers = pruned;
    options.n_prune_layers = 3;
    qn_gguf *gguf = quantize(&p, "Q8_0", &options);
    static const int kept[] = {0, 2, 4, 5, 6, 7, 8, 9, 10, 11};
    assert_int_equal(qn_gguf_n_tensors(gguf), 10);
    for (int i = 0; i < 10; i++) {
        char name[64];
        const qn_tensor_info *info;
        (void)snprintf(name, sizeof name, "enc.blk.%d.x.weight", i);
        assert_int_equal(qn_gguf_get_tensor(gguf, name, &info, NULL), QN_OK);
        assert_int_equal(info->ne[1], kept[i] + 1);
    }
    uint32_t n_blocks;
    assert_int_equal(qn_gguf_get_u32(gguf, "llama.block_count", &n_blocks, NULL), QN_OK);
    assert_int_equal(n_blocks, 10);
    qn_gguf_close(gguf);
    remove_folder(p.folder);
}

static void empty_tensors(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    add(writer, "a.weight", QN_DTYPE_F32, 0, 3, 1, 1);
    add(writer, "b.weight", QN_DTYPE_F32, 32, 0, 1, 1);
    add(writer, "c.weight", QN_DTYPE_F32, 32, 2, 1, 1);
    finish(writer, p.in);
    qn_gguf *gguf = quantize(&p, "Q8_0", NULL);
    assert_int_equal(qn_gguf_n_tensors(gguf), 3);
    assert_int_equal(qn_gguf_tensor(gguf, 0)->n_bytes, 0);
    assert_int_equal(qn_gguf_tensor(gguf, 1)->n_bytes, 0);
    assert_int_equal(qn_gguf_tensor(gguf, 2)->n_bytes, 68);
    qn_gguf_close(gguf);
    remove_folder(p.folder);
}

/* A middle shard loses all its tensors to pruning: it is written, and the model loads. */
static void empty_shard(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    for (int i = 0; i < 3; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "blk.%d.x.weight", i);
        add(writer, name, QN_DTYPE_F32, 32, 4, 1, 1);
    }
    finish(writer, p.in);
    qn_model *model = open_model(p.in);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.split_max_tensors = 1;
    qn_plan *plan = plan_preset(model, "COPY", &options);
    assert_int_equal(qn_plan_run(plan, p.out, NULL, NULL, NULL), QN_OK);
    char first[PATH_BYTES], other[PATH_BYTES];
    assert_int_equal(qn_plan_output_path(plan, 0, p.out, first, sizeof first, NULL), QN_OK);
    qn_plan_free(plan);
    qn_model_close(model);

    static const int32_t pruned[] = {1};
    qn_quantize_options keep = QN_QUANTIZE_OPTIONS_INIT;
    keep.keep_split = true;
    keep.prune_layers = pruned;
    keep.n_prune_layers = 1;
    model = open_model(first);
    plan = plan_preset(model, "Q8_0", &keep);
    assert_int_equal(qn_plan_n_outputs(plan), 3);
    in_folder(p.folder, "kept", other);
    assert_int_equal(qn_plan_run(plan, other, NULL, NULL, NULL), QN_OK);
    qn_plan_free(plan);
    qn_model_close(model);
    model = open_model(in_folder(p.folder, "kept-00001-of-00003.gguf", other));
    assert_int_equal(qn_model_n_tensors(model), 2);
    assert_int_equal(qn_model_n_shards(model), 3);
    qn_model_close(model);
    remove_folder(p.folder);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

typedef struct refusal {
    const char *what;
    qn_dtype source;
    int64_t ne[4];
    const char *preset;
    qn_dtype asked; /* --token-embedding-type */
    bool is_pure;
    qn_status expected;
} refusal;

static const refusal refusals_table[] = {
    {"quantized",
     QN_DTYPE_Q8_0,
     {32, 2, 1, 1},
     "Q4_0",
     QN_DTYPE_NONE,
     0,
     QN_ERR_REQUANTIZE_REFUSED},
    {"same type", QN_DTYPE_Q8_0, {32, 2, 1, 1}, "Q8_0", QN_DTYPE_NONE, 0, QN_OK},
    {"copied", QN_DTYPE_Q8_0, {32, 2, 1, 1}, "COPY", QN_DTYPE_NONE, 0, QN_OK},
    {"integers", QN_DTYPE_I32, {32, 2, 1, 1}, "Q4_0", QN_DTYPE_NONE, 0, QN_ERR_DECODER_UNAVAILABLE},
    {"integers copied", QN_DTYPE_I32, {32, 2, 1, 1}, "COPY", QN_DTYPE_NONE, 0, QN_OK},
    {"doubles", QN_DTYPE_F64, {32, 2, 1, 1}, "Q4_0", QN_DTYPE_NONE, 0, QN_ERR_DECODER_UNAVAILABLE},
    {"q8_K", QN_DTYPE_Q8_K, {256, 1, 2, 1}, "Q4_0", QN_DTYPE_NONE, 0, QN_ERR_DECODER_UNAVAILABLE},
    {"4 dimensions", QN_DTYPE_F32, {32, 2, 2, 2}, "Q4_0", QN_DTYPE_NONE, 0, QN_ERR_INVALID_SHAPE},
    {"q8_1 asked",
     QN_DTYPE_F32,
     {32, 2, 1, 1},
     "Q4_0",
     QN_DTYPE_Q8_1,
     0,
     QN_ERR_ENCODER_UNAVAILABLE},
    {"i8 asked", QN_DTYPE_F32, {32, 2, 1, 1}, "Q4_0", QN_DTYPE_I8, 0, QN_ERR_ENCODER_UNAVAILABLE},
    {"odd row asked", QN_DTYPE_F32, {32, 2, 1, 1}, "Q4_0", QN_DTYPE_Q4_K, 0, QN_ERR_INVALID_SHAPE},
    {"no weights",
     QN_DTYPE_F32,
     {256, 2, 1, 1},
     "IQ2_XXS",
     QN_DTYPE_NONE,
     1,
     QN_ERR_MISSING_WEIGHTS},
};

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals_table / sizeof refusals_table[0]; i++) {
        const refusal *r = &refusals_table[i];
        place p;
        enter(&p);
        qn_gguf_writer *writer = new_writer();
        /* exempt from the need of weights, and what --token-embedding-type is about */
        const bool is_embedding = r->asked != QN_DTYPE_NONE || r->is_pure;
        const char *name = is_embedding ? "token_embd.weight" : "blk.0.attn_q.weight";
        add(writer, name, r->source, r->ne[0], r->ne[1], r->ne[2], r->ne[3]);
        finish(writer, p.in);
        qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
        options.token_embedding_type = r->asked;
        options.is_pure = r->is_pure;
        qn_error err = QN_ERROR_INIT;
        const qn_status st = plan_status(&p, r->preset, options, &err);
        if (st != r->expected) {
            fail_msg("%s: %s (%s)", r->what, qn_status_name(st), err.message);
        }
        assert_true(st == QN_OK || strstr(err.message, name) != NULL);
        remove_folder(p.folder);
    }
}

static void no_architecture(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer;
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    add(writer, "a.weight", QN_DTYPE_F32, 32, 2, 1, 1);
    finish(writer, p.in);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    assert_int_equal(plan_status(&p, "Q8_0", options, NULL), QN_ERR_INVALID_METADATA);
    const qn_kv_override name = {
        .key = "general.architecture", .kind = QN_OVERRIDE_STR, .str_value = "llama"};
    options.overrides = &name;
    options.n_overrides = 1;
    assert_int_equal(plan_status(&p, "Q8_0", options, NULL), QN_OK);
    remove_folder(p.folder);
}

/* --- patterns -----------------------------------------------------------------------------------
 */

static int n_compiled;

static qn_status compile_text(void *ctx, const char *pattern, void **out_compiled, qn_error *err)
{
    (void)ctx;
    if (pattern[0] == '*') {
        return qni_fail(err, QN_ERR_INVALID_PATTERN, -1, "no pattern begins with *");
    }
    n_compiled++;
    *out_compiled = (void *)(uintptr_t)pattern;
    return QN_OK;
}

static qn_status find_text(void *ctx, void *compiled, const char *name, int64_t n_name,
                           bool *out_found, qn_error *err)
{
    (void)ctx;
    (void)n_name;
    (void)err;
    *out_found = strstr(name, compiled) != NULL;
    return QN_OK;
}

static void release_text(void *ctx, void *compiled)
{
    (void)ctx;
    assert_non_null(compiled);
    n_compiled--;
}

static void patterns(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_gguf_writer *writer = new_writer();
    add(writer, "blk.0.attn_q.weight", QN_DTYPE_F32, 32, 2, 1, 1);
    add(writer, "blk.0.attn_k.weight", QN_DTYPE_F32, 32, 2, 1, 1);
    finish(writer, p.in);
    const qn_matcher matcher = {NULL, compile_text, find_text, release_text};
    qn_tensor_type_rule rules[] = {{"attn_q", QN_DTYPE_Q5_1}, {"attn", QN_DTYPE_F16}};
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.tensor_types = rules;
    options.n_tensor_types = 2;
    assert_int_equal(plan_status(&p, "Q4_0", options, NULL), QN_ERR_INVALID_ARGUMENT);
    options.matcher = &matcher;
    qn_gguf *gguf = quantize(&p, "Q4_0", &options);
    assert_int_equal(qn_gguf_tensor(gguf, 0)->dtype, QN_DTYPE_F16);  /* attn_k */
    assert_int_equal(qn_gguf_tensor(gguf, 1)->dtype, QN_DTYPE_Q5_1); /* attn_q */
    qn_gguf_close(gguf);
    rules[1].pattern = "ffn";
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(plan_status(&p, "Q4_0", options, &err), QN_ERR_UNMATCHED_PATTERN);
    assert_non_null(strstr(err.message, "ffn"));
    options.allow_unmatched = true;
    assert_int_equal(plan_status(&p, "Q4_0", options, NULL), QN_OK);
    rules[1].pattern = "*";
    assert_int_equal(plan_status(&p, "Q4_0", options, NULL), QN_ERR_INVALID_PATTERN);
    assert_int_equal(n_compiled, 0);
    remove_folder(p.folder);
}

/* --- recipes ------------------------------------------------------------------------------------
 */

typedef struct recipe_case {
    const char *text;
    qn_status expected;
    int n_rules;
} recipe_case;

static const recipe_case recipe_cases[] = {
    {"", QN_OK, 0},
    {"# only a comment\n\n  \t\r\n", QN_OK, 0},
    {"attn_v = q6_K\nffn_(up|gate)=Q4_k\r\n", QN_OK, 2},
    {"a=b=f16", QN_OK, 1},
    {"  # indented = comment\nx = f32", QN_OK, 1},
    {"attn_v q6_K\n", QN_ERR_INVALID_RECIPE, 0},
    {"= q6_K\n", QN_ERR_INVALID_RECIPE, 0},
    {"attn_v =\n", QN_ERR_INVALID_RECIPE, 0},
    {"attn_v = q6\n", QN_ERR_INVALID_RECIPE, 0},
    {"attn_v = q4_2\n", QN_ERR_INVALID_RECIPE, 0},
    {"attn_v = a_name_that_is_longer_than_any\n", QN_ERR_INVALID_RECIPE, 0},
};

static void recipes_as_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recipe_cases / sizeof recipe_cases[0]; i++) {
        const recipe_case *c = &recipe_cases[i];
        qn_recipe *recipe;
        qn_error err = QN_ERROR_INIT;
        const qn_status st = qn_recipe_parse(c->text, strlen(c->text), NULL, &recipe, &err);
        if (st != c->expected) {
            fail_msg("\"%s\": %s %s", c->text, qn_status_name(st), err.message);
        }
        if (st == QN_OK) {
            int32_t n_rules;
            (void)qn_recipe_rules(recipe, &n_rules);
            assert_int_equal(n_rules, c->n_rules);
        } else {
            assert_non_null(strstr(err.message, "line 1"));
        }
        qn_recipe_free(recipe);
    }
    qn_recipe *recipe;
    int32_t n_rules;
    assert_int_equal(qn_recipe_parse("a=b = f16", 9, NULL, &recipe, NULL), QN_OK);
    assert_string_equal(qn_recipe_rules(recipe, &n_rules)[0].pattern, "a=b");
    qn_recipe_free(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alignment_is_kept),
        cmocka_unit_test(strings_are_kept_whole),
        cmocka_unit_test(odd_bools_are_kept),
        cmocka_unit_test(overrides),
        cmocka_unit_test(pruning),
        cmocka_unit_test(empty_tensors),
        cmocka_unit_test(empty_shard),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_architecture),
        cmocka_unit_test(patterns),
        cmocka_unit_test(recipes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

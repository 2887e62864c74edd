/* test_policy.c — the quantize policy against llama_model_quantize's own choices, recorded in
 * tests/data/policy: for two models every preset with and without a matrix, and the output order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/policy_internal.h"

#include <cmocka.h>

#define MAX_TENSORS 1024
#define MAX_COLUMNS 64

typedef struct tiny_model {
    char names[MAX_TENSORS][96];
    char architecture[32];
    qni_policy_model facts;
    qni_policy_tensor tensors[MAX_TENSORS];
    int64_t n_tensors;
} tiny_model;

static FILE *open_table(const char *model, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/policy/%s/%s", QN_TEST_DATA, model, file);
    FILE *table = fopen(path, "r");
    if (table == NULL) {
        fail_msg("%s is missing", path);
    }
    return table;
}

/* Cut a line at tabs; returns the number of fields. */
static int fields_of(char *line, char **fields)
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    fields[n++] = line;
    for (char *tab = strchr(line, '\t'); tab != NULL && n < MAX_COLUMNS;
         tab = strchr(tab + 1, '\t')) {
        *tab = '\0';
        fields[n++] = tab + 1;
    }
    return n;
}

static void read_meta(const char *name, tiny_model *m)
{
    FILE *table = open_table(name, "meta.tsv");
    char line[4096];
    char *field[MAX_COLUMNS];
    while (fgets(line, sizeof line, table) != NULL) {
        if (fields_of(line, field) < 3) {
            continue;
        }
        int64_t value = 0;
        (void)qni_parse_i64(field[2], &value);
        const char *key = strchr(field[0], '.');
        if (strcmp(field[0], "general.architecture") == 0) {
            snprintf(m->architecture, sizeof m->architecture, "%.31s", field[2]);
        } else if (key != NULL && strcmp(key, ".block_count") == 0) {
            m->facts.n_blocks = value;
        } else if (key != NULL && strcmp(key, ".expert_count") == 0) {
            m->facts.n_experts = value;
        } else if (key != NULL && strcmp(key, ".attention.head_count") == 0) {
            m->facts.n_heads = value;
        } else if (key != NULL && strcmp(key, ".attention.head_count_kv") == 0) {
            m->facts.n_heads_kv = value;
        }
    }
    m->facts.architecture = m->architecture;
    fclose(table);
}

static int by_output_order(const void *a, const void *b)
{
    return qni_policy_compare(((const qni_policy_tensor *)a)->name,
                              ((const qni_policy_tensor *)b)->name);
}

static void read_tensors(const char *name, tiny_model *m)
{
    FILE *table = open_table(name, "input.tsv");
    char line[4096];
    char *field[MAX_COLUMNS];
    assert_non_null(fgets(line, sizeof line, table));
    while (fgets(line, sizeof line, table) != NULL) {
        assert_true(fields_of(line, field) >= 3);
        qni_policy_tensor *t = &m->tensors[m->n_tensors];
        snprintf(m->names[m->n_tensors], sizeof m->names[0], "%.95s", field[0]);
        *t = (qni_policy_tensor){
            m->names[m->n_tensors], qn_dtype_from_name(field[1]), 1, {1, 1, 1, 1}};
        long ne[4] = {1, 1, 1, 1};
        const int n = sscanf(field[2], "%ld %ld %ld %ld", &ne[0], &ne[1], &ne[2], &ne[3]);
        assert_true(n >= 1);
        for (int d = 0; d < n; d++) {
            t->ne[d] = ne[d];
        }
        t->n_dims = n;
        m->n_tensors++;
    }
    fclose(table);
    qsort(m->tensors, (size_t)m->n_tensors, sizeof m->tensors[0], by_output_order);
}

static tiny_model *read_model(const char *name)
{
    tiny_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    read_meta(name, m);
    read_tensors(name, m);
    assert_true(m->n_tensors > 100);
    return m;
}

static void choose(const tiny_model *m, const char *preset_name, bool has_matrix,
                   qni_policy_choice *choices)
{
    const qn_preset *preset;
    assert_int_equal(qn_preset_from_name(preset_name, &preset, NULL), QN_OK);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.preset = preset->id;
    options.imatrix = has_matrix ? (const qn_imatrix *)m : NULL; /* only compared with NULL */
    qn_error err = QN_ERROR_INIT;
    if (qni_policy_choose(&options, &m->facts, m->tensors, m->n_tensors, choices, &err) != QN_OK) {
        fail_msg("%s: %s", preset_name, err.message);
    }
}

static int column_of(char **header, int n, const char *preset, bool has_matrix)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%s%s", preset, has_matrix ? "+im" : "");
    for (int i = 0; i < n; i++) {
        if (strcmp(header[i], wanted) == 0) {
            return i;
        }
    }
    return -1;
}

/* Compare one column of all-presets.tsv. */
static void check_column(const char *model, const tiny_model *m, int column, const char *preset,
                         const qni_policy_choice *choices)
{
    FILE *table = open_table(model, "all-presets.tsv");
    char line[4096];
    char *field[MAX_COLUMNS];
    assert_non_null(fgets(line, sizeof line, table));
    int64_t row = 0;
    for (; fgets(line, sizeof line, table) != NULL; row++) {
        const int n = fields_of(line, field);
        assert_true(column < n && row < m->n_tensors);
        assert_string_equal(m->tensors[row].name, field[0]);
        const char *got = qn_dtype_name(choices[row].dtype);
        if (strcmp(got, field[column]) != 0) {
            fail_msg("%s %s %s: %s, upstream chooses %s (%s)", model, preset, field[0], got,
                     field[column], choices[row].rule);
        }
        assert_non_null(choices[row].rule);
    }
    assert_int_equal(row, m->n_tensors);
    fclose(table);
}

static void check_all_presets(const char *name)
{
    tiny_model *m = read_model(name);
    static qni_policy_choice choices[MAX_TENSORS];
    FILE *table = open_table(name, "all-presets.tsv");
    char line[4096];
    char *header[MAX_COLUMNS];
    assert_non_null(fgets(line, sizeof line, table));
    const int n_columns = fields_of(line, header);
    fclose(table);

    int n_checked = 0;
    for (int32_t i = 0; qn_preset_at(i)->id != QN_PRESET_COPY; i++) {
        const char *preset = qn_preset_at(i)->name;
        const int plain = column_of(header, n_columns, preset, false);
        assert_true(plain > 0);
        const int matrix = column_of(header, n_columns, preset, true);
        choose(m, preset, false, choices);
        check_column(name, m, plain, preset, choices);
        choose(m, preset, true, choices);
        check_column(name, m, matrix > 0 ? matrix : plain, preset, choices);
        n_checked++;
    }
    assert_int_equal(n_checked, 35);
    free(m);
}

static void llama_gqa8_all_presets(void **state)
{
    (void)state;
    check_all_presets("synth-llama-gqa8");
}

static void moe8_all_presets(void **state)
{
    (void)state;
    check_all_presets("synth-moe8");
}

/* The per-preset tables come from real output files and pin the order too. */
static void check_output_table(const char *model, const char *preset)
{
    char file[64];
    snprintf(file, sizeof file, "%s.tsv", preset);
    tiny_model *m = read_model(model);
    static qni_policy_choice choices[MAX_TENSORS];
    choose(m, preset, false, choices);
    FILE *table = open_table(model, file);
    char line[4096];
    char *field[MAX_COLUMNS];
    assert_non_null(fgets(line, sizeof line, table));
    int64_t row = 0;
    for (; fgets(line, sizeof line, table) != NULL; row++) {
        assert_int_equal(fields_of(line, field), 2);
        assert_string_equal(field[0], m->tensors[row].name);
        assert_string_equal(field[1], qn_dtype_name(choices[row].dtype));
    }
    assert_int_equal(row, m->n_tensors);
    fclose(table);
    free(m);
}

static void real_output_tables(void **state)
{
    (void)state;
    static const char *const presets[] = {"Q4_K_M", "Q5_K_M", "Q3_K_L", "Q2_K", "IQ4_XS", "Q6_K"};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        check_output_table("synth-llama-gqa8", presets[i]);
        check_output_table("synth-moe8", presets[i]);
    }
}

/* --- single rules ------------------------------------------------------------------------------
 */

typedef struct one_case {
    const char *name;
    int64_t ne[4];
    const char *preset;
    const char *expected;
    bool is_fallback;
} one_case;

/* Expectations: quantize-policy.md sections 4, 6 and 7, checked against the library by its authors.
 */
static const one_case one_cases[] = {
    {"blk.0.attn_q.weight", {576, 64, 1, 1}, "Q4_K_M", "q5_0", true},
    {"blk.0.attn_q.weight", {576, 64, 1, 1}, "Q5_K_M", "q5_1", true},
    {"blk.0.attn_q.weight", {576, 64, 1, 1}, "Q6_K", "q8_0", true},
    {"blk.0.attn_q.weight", {576, 64, 1, 1}, "Q2_K", "q4_0", true},
    {"blk.0.attn_q.weight", {576, 64, 1, 1}, "IQ4_XS", "iq4_nl", true},
    {"blk.0.attn_q.weight", {48, 64, 1, 1}, "Q8_0", "f16", true},
    {"blk.0.attn_q.weight", {48, 64, 1, 1}, "Q4_K_M", "f16", true},
    {"blk.0.attn_q.weight", {48, 64, 1, 1}, "F16", "f16", false},
    {"blk.0.attn_q.weight", {256, 1, 1, 1}, "Q8_0", "f32", false},
    {"blk.0.attn_q.bias", {256, 64, 1, 1}, "Q8_0", "f32", false},
    {"blk.0.ffn_gate_inp.weight", {256, 64, 1, 1}, "Q8_0", "f32", false},
    {"blk.0.attn_q_norm.weight", {256, 64, 1, 1}, "Q8_0", "f32", false},
    {"position_embd.weight", {256, 64, 1, 1}, "Q8_0", "f32", false},
    {"blk.0.time_mix_w1.weight", {256, 64, 1, 1}, "Q8_0", "f32", false},
    {"blk.0.attn_q.weight", {256, 64, 1, 1}, "COPY", "f32", false},
    /* tied: there is no output.weight, so the embedding follows the rules of the head */
    {"token_embd.weight", {256, 64, 1, 1}, "Q4_K_M", "q6_K", false},
    {"token_embd.weight", {256, 64, 1, 1}, "Q8_0", "q8_0", false},
    {"token_embd.weight", {576, 64, 1, 1}, "Q4_K_M", "q8_0", false},
    {"token_embd.weight", {256, 64, 1, 1}, "IQ3_XXS", "q5_K", false},
    /* a fused matrix follows the values; the only one of its kind gets more bits */
    {"blk.0.attn_qkv.weight", {256, 64, 1, 1}, "Q4_K_M", "q6_K", false},
};

static void single_rules(void **state)
{
    (void)state;
    const qni_policy_model model = {"llama", 4, 0, 8, 8};
    for (size_t i = 0; i < sizeof one_cases / sizeof one_cases[0]; i++) {
        const one_case *c = &one_cases[i];
        qni_policy_tensor t = {c->name, QN_DTYPE_F32, 1, {c->ne[0], c->ne[1], c->ne[2], c->ne[3]}};
        for (int d = 0; d < 4; d++) {
            t.n_dims = t.ne[d] != 1 ? d + 1 : t.n_dims;
        }
        const qn_preset *preset;
        assert_int_equal(qn_preset_from_name(c->preset, &preset, NULL), QN_OK);
        qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
        options.preset = preset->id;
        qni_policy_choice choice;
        qn_error err = QN_ERROR_INIT;
        if (qni_policy_choose(&options, &model, &t, 1, &choice, &err) != QN_OK) {
            fail_msg("%s %s: %s", c->name, c->preset, err.message);
        }
        if (strcmp(qn_dtype_name(choice.dtype), c->expected) != 0) {
            fail_msg("%s %s: %s, expected %s (%s)", c->name, c->preset, qn_dtype_name(choice.dtype),
                     c->expected, choice.rule);
        }
        assert_int_equal(choice.is_fallback, c->is_fallback);
    }
}

static qn_status choose_one_tensor(const char *name, int64_t ne0, const char *preset_name,
                                   const qni_policy_model *model, bool no_fallback, qn_error *err)
{
    const qn_preset *preset;
    assert_int_equal(qn_preset_from_name(preset_name, &preset, NULL), QN_OK);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.preset = preset->id;
    options.no_fallback = no_fallback;
    const qni_policy_tensor t = {name, QN_DTYPE_F32, 2, {ne0, 64, 1, 1}};
    qni_policy_choice choice;
    return qni_policy_choose(&options, model, &t, 1, &choice, err);
}

static void refusals(void **state)
{
    (void)state;
    const qni_policy_model dense = {"llama", 4, 0, 8, 8};
    const qni_policy_model mixture = {"llama", 4, 8, 8, 8};
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(choose_one_tensor("a.ffn_down.weight", 256, "Q8_0", &dense, false, &err),
                     QN_OK);
    assert_int_equal(choose_one_tensor("a.ffn_down.weight", 256, "Q8_0", &mixture, false, &err),
                     QN_ERR_INVALID_METADATA);
    assert_int_equal(choose_one_tensor("blk.4.ffn_down.weight", 256, "Q8_0", &mixture, false, &err),
                     QN_ERR_INVALID_METADATA);
    assert_int_equal(choose_one_tensor("a.ffn_down.weight", 256, "IQ2_M", &mixture, false, &err),
                     QN_OK);
    assert_int_equal(
        choose_one_tensor("a.ffn_down.weight", 256, "MXFP4_MOE", &mixture, false, &err), QN_OK);
    assert_int_equal(choose_one_tensor("blk.0.attn_q.weight", 64, "Q1_0", &dense, false, &err),
                     QN_ERR_NO_FALLBACK);
    assert_int_equal(choose_one_tensor("blk.0.attn_q.weight", 576, "Q4_K_M", &dense, true, &err),
                     QN_ERR_NO_FALLBACK);
    assert_non_null(strstr(err.message, "576"));
}

static void block_numbers(void **state)
{
    (void)state;
    assert_int_equal(qni_policy_block_of("blk.12.attn_q.weight"), 12);
    assert_int_equal(qni_policy_block_of("blk.7"), 7);
    assert_int_equal(qni_policy_block_of("blk..x"), -1);
    assert_int_equal(qni_policy_block_of("enc.blk.3.x"), -1);
    assert_int_equal(qni_policy_block_of("output.weight"), -1);
    assert_true(qni_policy_compare("blk.2.z", "blk.10.a") < 0);
    assert_true(qni_policy_compare("zzz", "blk.0.a") < 0);
    assert_true(qni_policy_compare("enc.blk.10.a", "enc.blk.2.a") < 0);
}

static void preset_names(void **state)
{
    (void)state;
    const qn_preset *p;
    assert_int_equal(qn_preset_from_name("q4_k", &p, NULL), QN_OK);
    assert_string_equal(p->name, "Q4_K_M");
    assert_int_equal(qn_preset_from_name("15", &p, NULL), QN_OK);
    assert_string_equal(p->name, "Q4_K_M");
    assert_int_equal(qn_preset_from_name("copy", &p, NULL), QN_OK);
    assert_int_equal(p->id, QN_PRESET_COPY);
    static const char *const refused[] = {"",   "4",     "5",  "6",     "33",
                                          "39", "NVFP4", "-1", "7junk", "1e0"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(qn_preset_from_name(refused[i], &p, NULL), QN_ERR_UNKNOWN_PRESET);
        assert_null(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gqa8_all_presets),
        cmocka_unit_test(moe8_all_presets),
        cmocka_unit_test(real_output_tables),
        cmocka_unit_test(single_rules),
        cmocka_unit_test(refusals),
        cmocka_unit_test(block_numbers),
        cmocka_unit_test(preset_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

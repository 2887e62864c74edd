/* test_export.c — the export policy, a case for each of its rows. Expectations are the rows of the
 * seed's transcode table and of its plane predicate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/export_internal.h"

typedef struct policy_case {
    const char *name;
    qn_dtype source;
    int32_t n_dims;
    int64_t ne0;
    qn_dtype dtype;
    qn_dtype experts;
    qni_export_action action;
    qn_dtype result;
} policy_case;

#define NONE QN_DTYPE_NONE
static const policy_case transcode_cases[] = {
    /* 1: nothing asked */
    {"blk.0.ffn_up.weight", QN_DTYPE_F16, 2, 512, NONE, NONE, QNI_EXPORT_KEEP, QN_DTYPE_F16},
    {"blk.0.ffn_up.weight", QN_DTYPE_Q4_0, 2, 512, NONE, NONE, QNI_EXPORT_KEEP, QN_DTYPE_Q4_0},
    /* 2: no matrix */
    {"blk.0.bias.weight", QN_DTYPE_F32, 1, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP, QN_DTYPE_F32},
    /* 3: no weight */
    {"blk.0.attn_q.bias", QN_DTYPE_F32, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP, QN_DTYPE_F32},
    {"blk.0.weight_scale", QN_DTYPE_F32, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP,
     QN_DTYPE_F32},
    /* 4: norm anywhere in the name */
    {"blk.0.attn_norm.weight", QN_DTYPE_F32, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP,
     QN_DTYPE_F32},
    /* 5: the target already, quantized or not */
    {"token_embd.weight", QN_DTYPE_Q8_0, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP,
     QN_DTYPE_Q8_0},
    /* 6: float sources */
    {"token_embd.weight", QN_DTYPE_F32, 2, 512, QN_DTYPE_Q4_K, NONE, QNI_EXPORT_CONVERT,
     QN_DTYPE_Q4_K},
    {"output.weight", QN_DTYPE_F16, 2, 512, QN_DTYPE_Q4_K, NONE, QNI_EXPORT_CONVERT, QN_DTYPE_Q4_K},
    {"conv.weight", QN_DTYPE_BF16, 4, 512, QN_DTYPE_F32, NONE, QNI_EXPORT_CONVERT, QN_DTYPE_F32},
    /* 7: quantized sources: refused, but for experts with their own target */
    {"blk.0.ffn_up.weight", QN_DTYPE_Q4_K, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_REFUSE,
     QN_DTYPE_Q8_0},
    {"blk.0.ffn_up_exps.weight", QN_DTYPE_Q8_0, 3, 512, NONE, QN_DTYPE_Q4_K, QNI_EXPORT_CONVERT,
     QN_DTYPE_Q4_K},
    {"blk.0.ffn_up_exps.weight", QN_DTYPE_F16, 3, 512, QN_DTYPE_Q8_0, QN_DTYPE_Q4_K,
     QNI_EXPORT_CONVERT, QN_DTYPE_Q4_K},
    {"blk.0.ffn_up.weight", QN_DTYPE_F16, 2, 512, NONE, QN_DTYPE_Q4_K, QNI_EXPORT_KEEP,
     QN_DTYPE_F16},
    /* 8: other sources */
    {"blk.0.table.weight", QN_DTYPE_I32, 2, 512, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_REFUSE,
     QN_DTYPE_Q8_0},
    /* 9: rows that do not divide keep the source's type, no smaller quantization */
    {"blk.0.ffn_up.weight", QN_DTYPE_F16, 2, 576, QN_DTYPE_Q4_K, NONE, QNI_EXPORT_KEEP,
     QN_DTYPE_F16},
    {"blk.0.ffn_up.weight", QN_DTYPE_F16, 2, 40, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_KEEP,
     QN_DTYPE_F16},
    /* 10: transcoded */
    {"blk.0.ffn_up.weight", QN_DTYPE_F16, 2, 576, QN_DTYPE_Q8_0, NONE, QNI_EXPORT_CONVERT,
     QN_DTYPE_Q8_0},
};

static qn_tensor_info tensor_of(const char *name, qn_dtype dtype, int32_t n_dims, int64_t ne0)
{
    qn_tensor_info info = {.name = name,
                           .n_name = (int64_t)strlen(name),
                           .dtype = dtype,
                           .n_dims = n_dims,
                           .ne = {ne0, 4, 2, 2, 1, 1, 1, 1}};
    for (int32_t i = n_dims; i < QN_MAX_DIMS; i++) {
        info.ne[i] = 1;
    }
    return info;
}

static void each_row_of_the_transcode_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof transcode_cases / sizeof transcode_cases[0]; i++) {
        const policy_case *c = &transcode_cases[i];
        qn_export_options options = QN_EXPORT_OPTIONS_INIT;
        options.dtype = c->dtype;
        options.experts_dtype = c->experts;
        const qn_tensor_info tensor = tensor_of(c->name, c->source, c->n_dims, c->ne0);
        const qni_export_choice choice = qni_export_choose(&options, &tensor);
        if (choice.action != c->action || choice.dtype != c->result) {
            fail_msg("case %zu (%s): action %d, type %s", i, c->name, (int)choice.action,
                     qn_dtype_name(choice.dtype));
        }
    }
}

typedef struct plane_case {
    const char *name;
    qn_dtype source;
    int32_t n_dims;
    int64_t ne0;
    const char *include; /* NULL: none */
    const char *exclude;
    bool is_planes;
} plane_case;

static const plane_case plane_cases[] = {
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, true},
    {"blk.0.ffn_down.weight", QN_DTYPE_Q6_K, 2, 1536, NULL, NULL, true},
    {"blk.0.ffn_down.weight", QN_DTYPE_Q2_K, 2, 1536, NULL, NULL, false},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 2, 576, NULL, NULL, false},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 1, 1536, NULL, NULL, false},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 3, 1536, NULL, NULL, false},
    {"blk.0.ffn_down_exps.weight", QN_DTYPE_F16, 3, 1536, NULL, NULL, true},
    {"blk.0.ffn_norm.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, false},
    {"blk.0.ffn_down.bias", QN_DTYPE_F16, 2, 1536, NULL, NULL, false},
    {"token_embd.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, false},
    {"per_layer_token_embd.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, false},
    {"output.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, false},
    {"attn_output.weight", QN_DTYPE_F16, 2, 1536, NULL, NULL, true},
    /* an include list replaces the exclusions by name; an exclude list always subtracts */
    {"token_embd.weight", QN_DTYPE_F16, 2, 1536, "token", NULL, true},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 2, 1536, "token", NULL, false},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 2, 1536, NULL, "ffn_down", false},
    {"blk.0.ffn_down.weight", QN_DTYPE_F16, 2, 1536, "ffn", "blk.0.", false},
};

static void each_condition_of_the_planes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plane_cases / sizeof plane_cases[0]; i++) {
        const plane_case *c = &plane_cases[i];
        qn_export_options options = QN_EXPORT_OPTIONS_INIT;
        options.n_planes = 2;
        options.include = &c->include;
        options.n_include = c->include != NULL;
        options.exclude = &c->exclude;
        options.n_exclude = c->exclude != NULL;
        const qn_tensor_info tensor = tensor_of(c->name, c->source, c->n_dims, c->ne0);
        const qni_export_choice choice = qni_export_choose(&options, &tensor);
        if ((choice.action == QNI_EXPORT_PLANES) != c->is_planes) {
            fail_msg("case %zu (%s): %s", i, c->name, choice.rule);
        }
    }
}

/* The seed's own numbers. */
static void file_types_of_uniform_models(void **state)
{
    (void)state;
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_F32), 0);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_F16), 1);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_Q8_0), 7);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_Q4_K), 14);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_Q5_K), 16);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_Q6_K), 18);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_BF16), 32);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_TQ2_0), 37);
    assert_int_equal(qni_uniform_file_type(QN_DTYPE_I8), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_transcode_table),
        cmocka_unit_test(each_condition_of_the_planes),
        cmocka_unit_test(file_types_of_uniform_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

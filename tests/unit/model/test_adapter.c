/* test_adapter.c — the pieces under the adapter readers: orders of rows, names, configurations,
 * strided matrices. Expectations are the formulas and tables of the converters that the names come
 * from. */
#include "model_fixture.h"

#include "model/adapter_internal.h"
#include "quench/safetensors.h"

/* --- orders of rows --------------------------------------------------------------------------- */

/* reshape(heads, 2, d / 2).swapaxes(1, 2) */
static void rope_rows(void **state)
{
    (void)state;
    const qni_rows rows = {QNI_ROWS_ROPE, 3, 0, 24, 0};
    int64_t at = 0;
    for (int64_t head = 0; head < 3; head++) {
        for (int64_t j = 0; j < 4; j++) {
            for (int64_t half = 0; half < 2; half++) {
                assert_int_equal(qni_row_of(&rows, at++), head * 8 + half * 4 + j);
            }
        }
    }
}

/* Stored (head, q/k/v, d); wanted (q/k/v, head, d). */
static void neox_rows(void **state)
{
    (void)state;
    const qni_rows rows = {QNI_ROWS_NEOX, 4, 4, 4 * 3 * 5, 0};
    int64_t at = 0;
    for (int64_t which = 0; which < 3; which++) {
        for (int64_t head = 0; head < 4; head++) {
            for (int64_t x = 0; x < 5; x++) {
                assert_int_equal(qni_row_of(&rows, at++), (head * 3 + which) * 5 + x);
            }
        }
    }
}

/* Stored (group, queries then k then v, d); wanted all q, all k, all v. */
static void falcon_rows(void **state)
{
    (void)state;
    enum {
        HEADS = 6,
        GROUPS = 2,
        D = 4,
        QUERIES = HEADS / GROUPS,
        ROWS = (HEADS + 2 * GROUPS) * D
    };
    const qni_rows rows = {QNI_ROWS_FALCON, HEADS, GROUPS, ROWS, 0};
    int64_t want[ROWS];
    int64_t n = 0;
    for (int64_t part = 0; part < 3; part++) {
        for (int64_t group = 0; group < GROUPS; group++) {
            const int64_t first = part == 0 ? 0 : QUERIES + part - 1;
            const int64_t last = part == 0 ? QUERIES : first + 1;
            for (int64_t member = first; member < last; member++) {
                for (int64_t x = 0; x < D; x++) {
                    want[n++] = (group * (QUERIES + 2) + member) * D + x;
                }
            }
        }
    }
    for (int64_t i = 0; i < ROWS; i++) {
        assert_int_equal(qni_row_of(&rows, i), want[i]);
    }
    const qni_rows later = {QNI_ROWS_FALCON, HEADS, GROUPS, ROWS, 24};
    assert_int_equal(qni_row_of(&later, 1), want[25]);
}

static void rows_that_do_not_fit(void **state)
{
    (void)state;
    static const qni_rows bad[] = {{QNI_ROWS_ROPE, 0, 0, 24, 0},   {QNI_ROWS_ROPE, 5, 0, 24, 0},
                                   {QNI_ROWS_ROPE, 8, 0, 24, 0},   {QNI_ROWS_NEOX, 4, 4, 20, 0},
                                   {QNI_ROWS_NEOX, 0, 0, 20, 0},   {QNI_ROWS_FALCON, 6, 4, 40, 0},
                                   {QNI_ROWS_FALCON, 6, 0, 40, 0}, {QNI_ROWS_FALCON, 6, 2, 41, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(qni_rows_fit(&bad[i]));
    }
    const qni_rows good = {QNI_ROWS_ROPE, 4, 0, 24, 0};
    assert_true(qni_rows_fit(&good));
}

/* --- names ------------------------------------------------------------------------------------ */

typedef struct name_case {
    const char *architecture;
    const char *module;
    const char *target; /* NULL: not known */
    qni_row_order order;
    int32_t expert;
} name_case;

static const name_case names[] = {
    {"llama", "model.layers.11.self_attn.q_proj", "blk.11.attn_q", QNI_ROWS_ROPE, -1},
    {"llama", "model.layers.0.self_attn.k_proj", "blk.0.attn_k", QNI_ROWS_ROPE, -1},
    {"llama", "model.layers.0.self_attn.v_proj", "blk.0.attn_v", QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.0.block_sparse_moe.experts.7.w3", "blk.0.ffn_up_exps",
     QNI_ROWS_AS_STORED, 7},
    {"llama", "lm_head", "output", QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.01.self_attn.q_proj", NULL, QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.+1.self_attn.q_proj", NULL, QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.1.self_attn.q_proj.x", NULL, QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.1.self_attn.q_pro", NULL, QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.1234567.self_attn.q_proj", NULL, QNI_ROWS_AS_STORED, -1},
    {"llama", "model.layers.0.self_attn.qkv_proj", NULL, QNI_ROWS_AS_STORED, -1},
    {"qwen2", "model.layers.3.self_attn.q_proj", "blk.3.attn_q", QNI_ROWS_AS_STORED, -1},
    {"qwen3moe", "model.layers.3.mlp.experts.12.down_proj", "blk.3.ffn_down_exps",
     QNI_ROWS_AS_STORED, 12},
    {"gemma2", "model.layers.3.pre_feedforward_layernorm", "blk.3.ffn_norm", QNI_ROWS_AS_STORED,
     -1},
    {"gemma2", "model.layers.3.post_attention_layernorm", "blk.3.post_attention_norm",
     QNI_ROWS_AS_STORED, -1},
    {"qwen2", "model.layers.3.post_attention_layernorm", "blk.3.ffn_norm", QNI_ROWS_AS_STORED, -1},
    {"phi3", "model.layers.3.self_attn.qkv_proj", "blk.3.attn_qkv", QNI_ROWS_AS_STORED, -1},
    {"gpt2", "transformer.h.2.attn.c_attn", "blk.2.attn_qkv", QNI_ROWS_AS_STORED, -1},
    {"gpt2", "h.2.mlp.c_proj", "blk.2.ffn_down", QNI_ROWS_AS_STORED, -1},
    {"gptneox", "gpt_neox.layers.2.attention.query_key_value", "blk.2.attn_qkv", QNI_ROWS_NEOX, -1},
    {"falcon", "transformer.h.2.self_attention.query_key_value", "blk.2.attn_qkv", QNI_ROWS_FALCON,
     -1},
    {"bert", "bert.encoder.layer.2.output.dense", "blk.2.ffn_down", QNI_ROWS_AS_STORED, -1},
    {"bert", "encoder.layer.2.attention.self.key", "blk.2.attn_k", QNI_ROWS_AS_STORED, -1},
    {"deepseek2", "model.layers.2.self_attn.kv_a_proj_with_mqa", "blk.2.attn_kv_a_mqa",
     QNI_ROWS_AS_STORED, -1},
    {"mamba", "model.layers.2.self_attn.q_proj", NULL, QNI_ROWS_AS_STORED, -1},
};

static qn_model *model_of(const char *path, const char *architecture)
{
    qn_gguf_writer *writer;
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    char key[64];
    assert_int_equal(qn_gguf_writer_set_string(writer, "general.architecture", architecture,
                                               (int64_t)strlen(architecture), NULL),
                     QN_OK);
    (void)snprintf(key, sizeof key, "%s.attention.head_count", architecture);
    assert_int_equal(qn_gguf_writer_set_u32(writer, key, 8, NULL), QN_OK);
    (void)snprintf(key, sizeof key, "%s.attention.head_count_kv", architecture);
    assert_int_equal(qn_gguf_writer_set_u32(writer, key, 2, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_finish_path(writer, path, NULL), QN_OK);
    qn_gguf_writer_free(writer);
    return open_model(path);
}

static void check_name(const char *path, const name_case *c)
{
    qni_arena arena = {NULL, NULL};
    qni_base_facts facts;
    qni_place place;
    qn_model *model = model_of(path, c->architecture);
    assert_int_equal(qni_base_facts_of(model, &arena, &facts, NULL), QN_OK);
    const bool is_known = qni_place_of(&facts, c->module, &place);
    if (is_known != (c->target != NULL) ||
        (is_known && (strcmp(place.target, c->target) != 0 || place.order != c->order ||
                      place.expert != c->expert))) {
        fail_msg("%s of %s is %s", c->module, c->architecture, is_known ? place.target : "unknown");
    }
    if (is_known && c->order == QNI_ROWS_ROPE) {
        assert_int_equal(place.n_heads, strstr(c->module, "k_proj") != NULL ? 2 : 8);
    }
    qn_model_close(model);
    qni_arena_free(&arena);
}

static void modules_and_their_tensors(void **state)
{
    (void)state;
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    in_folder(folder, "base.gguf", path);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_name(path, &names[i]);
    }
    remove_folder(folder);
}

/* --- configurations --------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void configurations(void **state)
{
    (void)state;
    char folder[PATH_BYTES], path[PATH_BYTES];
    qni_arena arena = {NULL, NULL};
    qni_adapter_config c;
    new_folder(folder);
    in_folder(folder, "adapter_config.json", path);
    assert_int_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
    assert_false(c.is_there);

    write_text(path,
               "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 16.5, \"use_rslora\": true,"
               "\"rank_pattern\": {\"a.b\": 4, \"c\": 2}, \"alpha_pattern\": {\"^x\": 32},"
               "\"layer_replication\": null, \"alora_invocation_tokens\": [ ],"
               "\"kasa_config\": {}, \"use_qalora\": false, \"init_lora_weights\": \"gaussian\","
               "\"something_new\": {\"deep\": [1, 2]}}");
    assert_int_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
    assert_true(c.is_there && !c.is_mlx && c.is_rslora && !c.is_dora && c.has_rank && c.has_alpha);
    assert_int_equal(c.rank, 8);
    assert_true(c.alpha == 16.5);
    assert_int_equal(c.n_rank_patterns, 2);
    assert_string_equal(c.rank_patterns[1].text, "c");
    assert_true(c.rank_patterns[0].value == 4 && c.alpha_patterns[0].value == 32);
    assert_null(c.refusal);
    assert_string_equal(c.unknown_key, "something_new");

    write_text(path, "{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\", 3, \"k\"],"
                     "\"modules_to_save\": \"all\", \"exclude_modules\": null,"
                     "\"base_model_name_or_path\": \"org/base\"}");
    assert_int_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
    assert_int_equal(c.n_target_modules, 2);
    assert_string_equal(c.target_modules[1], "k");
    assert_int_equal(c.n_saved_modules, 0);
    assert_string_equal(c.base_name, "org/base");
    assert_null(c.unknown_key);

    static const char *const refused[] = {
        "\"alora_invocation_tokens\": [5]",         "\"use_qalora\": true",
        "\"kasa_config\": {\"beta\": 1}",           "\"layer_replication\": [[0, 2]]",
        "\"init_lora_weights\": \"pissa_niter_4\"", "\"use_bdlora\": 1"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", %s}", refused[i]);
        write_text(path, text);
        assert_int_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
        assert_non_null(c.refusal);
    }

    write_text(
        path,
        "{\"fine_tune_type\": \"lora\", \"lora_parameters\": {\"rank\": 8, \"scale\": 20.0}}");
    assert_int_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
    assert_true(c.is_mlx && c.has_scale && c.scale == 20.0);

    static const char *const broken[] = {"",
                                         "[]",
                                         "{\"r\": \"8\"}",
                                         "{\"r\": 8, \"r\": 8}",
                                         "{\"rank_pattern\": [1]}",
                                         "{\"lora_alpha\": NaN}",
                                         "{\"r\": 8.5}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_text(path, broken[i]);
        assert_int_not_equal(qni_adapter_config_read(path, &arena, &c, NULL), QN_OK);
    }
    qni_arena_free(&arena);
    remove_folder(folder);
}

/* --- matrices --------------------------------------------------------------------------------- */

static void check_matrix_in(const qni_matrix *m, const float *all, qni_matrix_room *room)
{
    const int64_t stride = m->n_cols + 3;
    float *out = malloc((size_t)(m->n_rows * stride) * sizeof *out);
    assert_non_null(out);
    for (int64_t first = 0; first < m->n_rows; first += 1 + m->n_rows / 3) {
        const int64_t n = qni_min_i64(1 + m->n_rows / 3, m->n_rows - first);
        assert_int_equal(qni_matrix_read(m, first, n, room, out, stride, NULL), QN_OK);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < m->n_cols; j++) {
                const int64_t at =
                    m->offset + qni_row_of(&m->rows, first + i) * m->row_stride + j * m->col_stride;
                if (memcmp(&out[i * stride + j], &all[at], sizeof *all) != 0) {
                    fail_msg("[%lld, %lld] is %g, not %g", (long long)(first + i), (long long)j,
                             (double)out[i * stride + j], (double)all[at]);
                }
            }
        }
    }
    free(out);
}

static void check_matrix(const qni_matrix *m, const float *all)
{
    qni_matrix_room *room = calloc(1, sizeof *room);
    assert_non_null(room);
    check_matrix_in(m, all, room);
    free(room);
}

/* Three matrices woven into one another, each by itself and in any order, with room for two of them
 * and for all. */
static void check_woven(const qni_matrix *plain, const float *all)
{
    static const int64_t order[] = {0, 1, 2, 0, 2, 1};
    const int64_t n_all = plain->n_rows * plain->n_cols;
    for (int64_t n_room = 1; n_room <= 3; n_room++) {
        qni_matrix_room *room = calloc(1, sizeof *room);
        assert_non_null(room);
        room->n_woven_max = n_room * n_all / 3;
        room->woven = malloc((size_t)room->n_woven_max * sizeof(float));
        assert_non_null(room->woven);
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            qni_matrix m = *plain;
            m.offset = order[i];
            m.col_stride = m.n_woven = 3;
            m.n_cols = plain->n_cols / 3;
            check_matrix_in(&m, all, room);
            assert_true((room->woven_tensor != NULL) == (n_room > 1));
            const qni_matrix turned = qni_matrix_turned(&m);
            check_matrix_in(&turned, all, room);
        }
        free(room->woven);
        free(room);
    }
}

/* Every way of looking at one stored matrix: as it is, turned, sliced, with gaps in both
 * directions. */
static void strided_matrices(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{24, 40},  {40, 24},   {6, 9000},
                                        {9000, 6}, {3, 17000}, {17000, 3}};
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    in_folder(folder, "a.safetensors", path);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const int64_t n = shapes[s][0] * shapes[s][1];
        float *all = malloc((size_t)n * sizeof *all);
        float *stored = malloc((size_t)n * sizeof *stored);
        assert_true(all != NULL && stored != NULL);
        for (int64_t i = 0; i < n; i++) {
            all[i] = stored[i] = (float)(i % 16777213);
        }
        to_file_order(stored, n);
        qn_safetensors_writer *writer;
        assert_int_equal(qn_safetensors_writer_new(NULL, &writer, NULL), QN_OK);
        assert_int_equal(qn_safetensors_writer_add(writer, "a", 1, QN_SAFETENSORS_F32, shapes[s], 2,
                                                   stored, 4 * n, NULL),
                         QN_OK);
        assert_int_equal(qn_safetensors_writer_save_atomic(writer, path, NULL), QN_OK);
        qn_safetensors_writer_free(writer);
        free(stored);
        qn_model *model = open_model(path);
        const qni_matrix plain = qni_matrix_of(model, qn_model_tensor(model, 0));
        check_matrix(&plain, all);
        const qni_matrix turned = qni_matrix_turned(&plain);
        check_matrix(&turned, all);
        qni_matrix third = plain; /* every third column, as an expert's */
        third.offset = 2;
        third.col_stride = 3;
        third.n_cols = plain.n_cols / 3;
        check_matrix(&third, all);
        const qni_matrix third_turned = qni_matrix_turned(&third);
        check_matrix(&third_turned, all);
        if (plain.n_cols % 3 == 0) {
            check_woven(&plain, all);
        }
        qni_matrix mixed = plain;
        mixed.rows = (qni_rows){QNI_ROWS_ROPE, 1, 0, plain.n_rows / 2 * 2, 0};
        mixed.n_rows = plain.n_rows / 2 * 2;
        check_matrix(&mixed, all);
        qni_matrix mixed_turned = turned;
        mixed_turned.rows = (qni_rows){QNI_ROWS_ROPE, 1, 0, turned.n_rows / 2 * 2, 0};
        mixed_turned.n_rows = turned.n_rows / 2 * 2;
        check_matrix(&mixed_turned, all);
        qn_model_close(model);
        free(all);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_rows),
        cmocka_unit_test(neox_rows),
        cmocka_unit_test(falcon_rows),
        cmocka_unit_test(rows_that_do_not_fit),
        cmocka_unit_test(modules_and_their_tensors),
        cmocka_unit_test(configurations),
        cmocka_unit_test(strided_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

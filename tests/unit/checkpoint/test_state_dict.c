/* test_state_dict.c — state dicts (section 4.1 of the behaviour specification) and
 * trainer_state.json (4.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"

static qn_status append(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    return qni_buffer_append(ctx, bytes, n_bytes, err);
}

typedef struct stream {
    const uint8_t *bytes;
    size_t n_left;
} stream;

static qn_status read_some(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    stream *s = ctx;
    (void)err;
    *out_n_read = n_bytes < s->n_left ? n_bytes : s->n_left;
    memcpy(out, s->bytes, *out_n_read);
    s->bytes += *out_n_read;
    s->n_left -= *out_n_read;
    return QN_OK;
}

static const int64_t two[1] = {2};
static const int64_t two_one[2] = {2, 1};
static const int64_t none[1] = {0};

static qn_state_entry entry(const char *name, qn_safetensors_dtype dtype, const int64_t *shape,
                            int32_t rank, void *data, int64_t n_bytes)
{
    return (qn_state_entry){name, (int64_t)strlen(name), dtype, rank, shape, data, n_bytes};
}

static void saves_and_loads(void **state)
{
    (void)state;
    float w[2] = {1.5f, -2.0f};
    int64_t step = 7;
    uint16_t h[2] = {1, 2};
    float empty[1] = {0};
    const qn_state_entry saved[4] = {entry("w", QN_SAFETENSORS_F32, two, 1, w, 8),
                                     entry("step", QN_SAFETENSORS_I64, NULL, 0, &step, 8),
                                     entry("h", QN_SAFETENSORS_BF16, two_one, 2, h, 4),
                                     entry("e", QN_SAFETENSORS_F16, none, 1, empty, 0)};
    qni_buffer file;
    qni_buffer_init(&file, NULL, 1 << 20);
    assert_int_equal(qn_state_dict_save(saved, 4, append, &file, NULL), QN_OK);
    assert_int_equal(qn_state_dict_save(saved, 1, append, &file, NULL), QN_OK); /* a second frame */
    assert_int_equal(qni_buffer_append(&file, "rest", 4, NULL), QN_OK);
    float w2[2] = {0, 0};
    int64_t step2 = 0;
    uint16_t h2[2] = {0, 0};
    const qn_state_entry to[4] = {entry("h", QN_SAFETENSORS_BF16, two_one, 2, h2, 4),
                                  entry("e", QN_SAFETENSORS_F16, none, 1, NULL, 0),
                                  entry("w", QN_SAFETENSORS_F32, two, 1, w2, 8),
                                  entry("step", QN_SAFETENSORS_I64, NULL, 0, &step2, 8)};
    stream s = {file.bytes, file.n_bytes};
    assert_int_equal(qn_state_dict_load(to, 4, read_some, &s, NULL, NULL), QN_OK);
    assert_memory_equal(w2, w, 8);
    assert_memory_equal(h2, h, 4);
    assert_int_equal(step2, 7);
    w2[0] = 0;
    assert_int_equal(qn_state_dict_load(&to[2], 1, read_some, &s, NULL, NULL), QN_OK);
    assert_memory_equal(w2, w, 8);
    assert_int_equal(s.n_left, 4);
    /* a plain safetensors file */
    assert_int_equal(qn_state_dict_save_path(saved, 4, "state.safetensors", NULL), QN_OK);
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_load("state.safetensors", NULL, &st, NULL), QN_OK);
    assert_int_equal(qn_safetensors_n_tensors(st), 4);
    assert_int_equal(qn_safetensors_n_entries(st), 0);
    qn_safetensors_close(st);
    (void)remove("state.safetensors");
    qni_buffer_free(&file);
}

static void refuses_to_save(void **state)
{
    (void)state;
    float w[2] = {0, 0};
    static const char with_nul[] = "a\0b";
    const struct {
        qn_state_entry entry;
        qn_status status;
    } cases[] = {
        {entry("", QN_SAFETENSORS_F32, two, 1, w, 8), QN_ERR_CHECKPOINT_INVALID_NAME},
        {{with_nul, 3, QN_SAFETENSORS_F32, 1, two, w, 8}, QN_ERR_CHECKPOINT_INVALID_NAME},
        {entry("\xff", QN_SAFETENSORS_F32, two, 1, w, 8), QN_ERR_CHECKPOINT_INVALID_NAME},
        {entry("__metadata__", QN_SAFETENSORS_F32, two, 1, w, 8), QN_ERR_CHECKPOINT_INVALID_NAME},
        {entry("a", QN_SAFETENSORS_U8, two, 1, w, 2), QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE},
        {entry("a", QN_SAFETENSORS_F32, two, 1, w, 7), QN_ERR_CHECKPOINT_SHAPE_MISMATCH},
        {entry("ok", QN_SAFETENSORS_F32, two, 1, w, 8), QN_ERR_CHECKPOINT_DUPLICATE_NAME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const qn_state_entry both[2] = {entry("ok", QN_SAFETENSORS_F32, two, 1, w, 8),
                                        cases[i].entry};
        qni_buffer file;
        qn_error err = QN_ERROR_INIT;
        qni_buffer_init(&file, NULL, 1 << 20);
        assert_int_equal(qn_state_dict_save(both, 2, append, &file, &err), cases[i].status);
        assert_int_equal(err.tensor_index, 1);
        assert_int_equal(file.n_bytes, 0); /* before the first byte */
        qni_buffer_free(&file);
    }
}

/* Every failure leaves the destinations as they were. */
static void loads_all_or_nothing(void **state)
{
    (void)state;
    float a[2] = {1, 2};
    float b[2] = {3, 4};
    const qn_state_entry saved[2] = {entry("a", QN_SAFETENSORS_F32, two, 1, a, 8),
                                     entry("b", QN_SAFETENSORS_F32, two, 1, b, 8)};
    qni_buffer file;
    qni_buffer_init(&file, NULL, 1 << 20);
    assert_int_equal(qn_state_dict_save(saved, 2, append, &file, NULL), QN_OK);
    float x[2] = {9, 9};
    float y[2] = {9, 9};
    const qn_state_entry good_a = entry("a", QN_SAFETENSORS_F32, two, 1, x, 8);
    const qn_state_entry good_b = entry("b", QN_SAFETENSORS_F32, two, 1, y, 8);
    static const qn_state_alias to_a[1] = {{"b", "a"}};
    static const qn_state_alias renamed[2] = {{"b", "c"}, {"b", "a"}};
    const struct {
        qn_state_entry to[2];
        int64_t n;
        bool is_lenient;
        const qn_state_alias *aliases;
        int64_t n_aliases;
        qn_status status;
    } cases[] = {
        {{good_a, good_b}, 1, false, NULL, 0, QN_ERR_CHECKPOINT_UNKNOWN_NAME},
        {{good_a, good_b}, 1, true, NULL, 0, QN_OK},
        {{good_a, entry("c", QN_SAFETENSORS_F32, two, 1, y, 8)},
         2,
         false,
         NULL,
         0,
         QN_ERR_CHECKPOINT_UNKNOWN_NAME},
        {{good_a, entry("c", QN_SAFETENSORS_F32, two, 1, y, 8)}, 2, true, NULL, 0, QN_OK},
        {{good_a, entry("c", QN_SAFETENSORS_F32, two, 1, y, 8)}, 2, false, renamed, 2, QN_OK},
        {{good_a, good_a}, 2, false, NULL, 0, QN_ERR_CHECKPOINT_DUPLICATE_NAME},
        {{good_a, good_b}, 2, true, to_a, 1, QN_ERR_CHECKPOINT_DUPLICATE_NAME},
        {{good_a, entry("b", QN_SAFETENSORS_F16, two, 1, y, 4)},
         2,
         false,
         NULL,
         0,
         QN_ERR_CHECKPOINT_DTYPE_MISMATCH},
        {{good_a, entry("b", QN_SAFETENSORS_F32, two_one, 2, y, 8)},
         2,
         true,
         NULL,
         0,
         QN_ERR_CHECKPOINT_SHAPE_MISMATCH},
        {{good_a, good_b}, 2, false, NULL, 0, QN_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_state_dict_options options = QN_STATE_DICT_OPTIONS_INIT;
        options.is_lenient = cases[i].is_lenient;
        options.aliases = cases[i].aliases;
        options.n_aliases = cases[i].n_aliases;
        stream s = {file.bytes, file.n_bytes};
        x[0] = x[1] = y[0] = y[1] = 9;
        const qn_status status =
            qn_state_dict_load(cases[i].to, cases[i].n, read_some, &s, &options, NULL);
        if (status != cases[i].status) {
            fail_msg("case %zu: %s", i, qn_status_name(status));
        }
        assert_true(x[0] == (status == QN_OK ? 1.0f : 9.0f));
        assert_true(status == QN_OK || y[0] == 9.0f);
    }
    const qn_state_entry three[3] = {good_a, good_b, entry("d", QN_SAFETENSORS_F32, two, 1, y, 8)};
    stream s = {file.bytes, file.n_bytes};
    assert_int_equal(qn_state_dict_load(three, 3, read_some, &s, NULL, NULL),
                     QN_ERR_CHECKPOINT_MISSING_ENTRY);
    s = (stream){file.bytes, file.n_bytes - 1};
    assert_int_equal(qn_state_dict_load(three, 2, read_some, &s, NULL, NULL), QN_ERR_END_OF_STREAM);
    qni_buffer_free(&file);
}

/* --- trainer_state.json ------------------------------------------------------------------------
 */

/* The bytes of the specification. */
static const char spelled[] =
    "{\n  \"format\": \"fucina.training_checkpoint\",\n  \"version\": 1,\n"
    "  \"step\": 12,\n  \"seed\": 34,\n  \"lora_rank\": 8,\n"
    "  \"learning_rate\": 0.001\n}\n";

static void writes_trainer_state(void **state)
{
    (void)state;
    qn_trainer_state t = {.step = 12, .seed = 34};
    t.fields[QN_TRAINER_LORA_RANK].is_set = true;
    t.fields[QN_TRAINER_LORA_RANK].u = 8;
    t.fields[QN_TRAINER_LEARNING_RATE].is_set = true;
    t.fields[QN_TRAINER_LEARNING_RATE].f = 0.001;
    qni_buffer text;
    qni_buffer_init(&text, NULL, 1 << 16);
    assert_int_equal(qn_trainer_state_write(&t, append, &text, NULL), QN_OK);
    assert_int_equal(text.n_bytes, sizeof spelled - 1);
    assert_memory_equal(text.bytes, spelled, text.n_bytes);
    qn_trainer_state back;
    assert_int_equal(qn_trainer_state_parse(text.bytes, text.n_bytes, &back, NULL), QN_OK);
    assert_int_equal(back.step, 12);
    assert_true(back.fields[QN_TRAINER_LEARNING_RATE].is_set &&
                back.fields[QN_TRAINER_LEARNING_RATE].f == 0.001);
    assert_false(back.fields[QN_TRAINER_LORA_ALPHA].is_set);
    text.n_bytes = 0;
    t = (qn_trainer_state){.step = UINT64_MAX, .seed = 0};
    t.fields[QN_TRAINER_LORA_ALPHA].is_set = true;
    t.fields[QN_TRAINER_LORA_ALPHA].f = 16;
    t.fields[QN_TRAINER_LORA_DROPOUT_P].is_set = true;
    t.fields[QN_TRAINER_LORA_DROPOUT_P].f = (double)0.1f;
    t.fields[QN_TRAINER_ES_SIGMA].is_set = true;
    t.fields[QN_TRAINER_ES_SIGMA].f = 1e-7;
    assert_int_equal(qn_trainer_state_write(&t, append, &text, NULL), QN_OK);
    assert_int_equal(qni_buffer_append(&text, "", 1, NULL), QN_OK);
    assert_non_null(strstr((char *)text.bytes, "\"lora_alpha\": 16,\n"));
    assert_non_null(strstr((char *)text.bytes, "\"lora_dropout_p\": 0.10000000149011612,\n"));
    assert_non_null(strstr((char *)text.bytes, "\"es_sigma\": 0.0000001\n"));
    assert_non_null(strstr((char *)text.bytes, "\"step\": 18446744073709551615,\n"));
    t.fields[QN_TRAINER_ES_SIGMA].f = strtod("inf", NULL);
    assert_int_equal(qn_trainer_state_write(&t, append, &text, NULL), QN_ERR_INVALID_ARGUMENT);
    qni_buffer_free(&text);
    assert_string_equal(qn_trainer_field_name(QN_TRAINER_ES_ITERATION), "es_iteration");
    assert_null(qn_trainer_field_name(QN_TRAINER_FIELD_LIMIT));
    assert_true(qn_trainer_field_is_whole(QN_TRAINER_DATA_SEED));
    assert_false(qn_trainer_field_is_whole(QN_TRAINER_ES_ALPHA));
}

#define HEAD "{\"format\":\"fucina.training_checkpoint\",\"version\":1,\"step\":1,\"seed\":2"

static void parses_trainer_state(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qn_status status;
    } cases[] = {
        {HEAD "}", QN_OK},
        {HEAD ",\"other\":[{}],\"lora_alpha\":16}", QN_OK},
        {HEAD ",\"lora_rank\":18446744073709551615}", QN_OK},
        {"", QN_ERR_INVALID_TRAINER_STATE},
        {"[]", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD, QN_ERR_INVALID_TRAINER_STATE},
        {HEAD "} x", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"lora_rank\":-1}", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"lora_rank\":8.0}", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"lora_rank\":null}", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"lora_rank\":18446744073709551616}", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"lora_alpha\":\"16\"}", QN_ERR_INVALID_TRAINER_STATE},
        {HEAD ",\"step\":3}", QN_ERR_INVALID_TRAINER_STATE},
        {"{\"version\":1,\"step\":1,\"seed\":2}", QN_ERR_INVALID_TRAINER_STATE},
        {"{\"format\":\"other\",\"version\":1,\"step\":1,\"seed\":2}",
         QN_ERR_INVALID_TRAINER_STATE},
        {"{\"format\":\"fucina.training_checkpoint\",\"version\":2,\"step\":1,\"seed\":2}",
         QN_ERR_UNSUPPORTED_TRAINER_STATE_VERSION},
        {"{\"format\":\"fucina.training_checkpoint\",\"version\":1,\"step\":1}",
         QN_ERR_INVALID_TRAINER_STATE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_trainer_state t;
        const qn_status status =
            qn_trainer_state_parse(cases[i].text, strlen(cases[i].text), &t, NULL);
        if (status != cases[i].status) {
            fail_msg("%s: %s", cases[i].text, qn_status_name(status));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_and_loads),      cmocka_unit_test(refuses_to_save),
        cmocka_unit_test(loads_all_or_nothing), cmocka_unit_test(writes_trainer_state),
        cmocka_unit_test(parses_trainer_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

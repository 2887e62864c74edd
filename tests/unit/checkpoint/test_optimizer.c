/* test_optimizer.c — optimizer frames, byte for byte as section 4.4 of the behaviour specification
 * spells them; cuts, lies, lack of memory. */
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
    size_t n_most;
} stream;

static qn_status read_some(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    stream *s = ctx;
    (void)err;
    size_t n = n_bytes < s->n_left ? n_bytes : s->n_left;
    n = n < s->n_most ? n : s->n_most;
    memcpy(out, s->bytes, n);
    s->bytes += n;
    s->n_left -= n;
    *out_n_read = n;
    return QN_OK;
}

/* Frames of one parameter "w" of 1 x 2 elements. f32 1.0 is 00 00 80 3f, bf16 1.0 is 80 3f. */
#define COUNT    "\x01\0\0\0"
#define NAMED    "\x01\0w\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
#define STEP     "\x05\0\0\0\0\0\0\0"
#define F32_2    "\0\0\x80\x3f\0\0\0\x40"
#define BF_2     "\x80\x3f\0\x40"
#define NO_SLOTS "\0\0\0\0"

typedef struct frame_case {
    const char *bytes;
    size_t n_bytes;
    qn_optimizer_kind kind;
    int version;
} frame_case;

#define ROW(text, kind, version)             \
    {                                        \
        text, sizeof text - 1, kind, version \
    }

static const frame_case frames[] = {
    ROW("FZAD" COUNT NAMED STEP F32_2 F32_2, QN_OPTIMIZER_ADAM, 3),
    ROW("FZA3" COUNT NAMED STEP F32_2 F32_2, QN_OPTIMIZER_ADAMW, 3),
    ROW("FZA4" COUNT NAMED STEP "\x01" BF_2 "\0" F32_2, QN_OPTIMIZER_ADAMW, 4),
    ROW("FZA5" COUNT NAMED STEP "\x01" BF_2 "\x01" BF_2 "\x01" F32_2, QN_OPTIMIZER_ADAMW, 5),
    ROW("FZD5" COUNT NAMED STEP "\0" F32_2 "\0" F32_2 "\x01" F32_2, QN_OPTIMIZER_ADAM, 5),
    ROW("FZS3"
        "\0\0\x80\x3f"
        "\0\0\0\0"
        "\x01" COUNT NAMED STEP F32_2,
        QN_OPTIMIZER_SGD, 3),
    ROW("FZS4"
        "\0\0\x80\x3f"
        "\0\0\0\0"
        "\0" COUNT NAMED STEP "\x01" BF_2,
        QN_OPTIMIZER_SGD, 4),
    ROW("FZM3"
        "\x01\x01"
        "\x05\0\0\0" COUNT NAMED F32_2 "FZA3" NO_SLOTS,
        QN_OPTIMIZER_MUON, 3),
    ROW("FZM5"
        "\0\0"
        "\x06\0\0\0" COUNT NAMED "\0" F32_2 "\x01" F32_2 "FZA4" COUNT NAMED STEP "\x01" BF_2
        "\0" F32_2,
        QN_OPTIMIZER_MUON, 5),
    ROW("FZO3"
        "\x02\0\0\0"
        "FZA3" COUNT NAMED STEP F32_2 F32_2 "FZM3"
        "\0\0"
        "\x05\0\0\0" NO_SLOTS "FZA3" NO_SLOTS,
        QN_OPTIMIZER_SET, 3),
    ROW("FZO3" NO_SLOTS, QN_OPTIMIZER_SET, 3),
    ROW("FZA3" NO_SLOTS, QN_OPTIMIZER_ADAMW, 3),
};

static void reads_and_writes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const frame_case *c = &frames[i];
        stream s = {(const uint8_t *)c->bytes, c->n_bytes, 3};
        qn_optimizer *o = NULL;
        qn_error err = QN_ERROR_INIT;
        if (qn_optimizer_read(read_some, &s, NULL, &o, &err) != QN_OK) {
            fail_msg("frame %zu: %s at %lld", i, err.message, (long long)err.offset);
        }
        assert_int_equal(s.n_left, 0);
        assert_int_equal(o->kind, c->kind);
        assert_int_equal(o->version, c->version);
        qni_buffer again;
        qni_buffer_init(&again, NULL, 1 << 16);
        assert_int_equal(qn_optimizer_write(o, append, &again, NULL), QN_OK);
        assert_int_equal(again.n_bytes, c->n_bytes);
        assert_memory_equal(again.bytes, c->bytes, c->n_bytes);
        qni_buffer_free(&again);
        qn_optimizer_free(o);
    }
    qn_optimizer_free(NULL);
}

static void hands_out(void **state)
{
    (void)state;
    stream s = {(const uint8_t *)frames[8].bytes, frames[8].n_bytes, SIZE_MAX};
    qn_optimizer *o = NULL;
    assert_int_equal(qn_optimizer_read(read_some, &s, NULL, &o, NULL), QN_OK);
    assert_int_equal(o->n_slots, 1);
    assert_int_equal(o->n_ns_steps, 6);
    assert_memory_equal(o->slots[0].name, "w", 1);
    assert_int_equal(o->slots[0].rows, 1);
    assert_int_equal(o->slots[0].cols, 2);
    assert_memory_equal(o->slots[0].master, F32_2, 8);
    assert_int_equal(o->second->kind, QN_OPTIMIZER_ADAMW);
    assert_int_equal(o->second->slots[0].step, 5);
    assert_int_equal(o->second->slots[0].buffers[0].dtype, QN_DTYPE_BF16);
    assert_memory_equal(o->second->slots[0].buffers[1].data, F32_2, 8);
    qn_optimizer_free(o);
    assert_string_equal(qn_optimizer_name(QN_OPTIMIZER_ADAMW), "AdamW");
    assert_string_equal(qn_optimizer_name((qn_optimizer_kind)99), "?");
}

static void reports_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        for (size_t n = 0; n < frames[i].n_bytes; n++) {
            stream s = {(const uint8_t *)frames[i].bytes, n, SIZE_MAX};
            qn_optimizer *o = NULL;
            qn_error err = QN_ERROR_INIT;
            assert_int_equal(qn_optimizer_read(read_some, &s, NULL, &o, &err),
                             QN_ERR_END_OF_STREAM);
            assert_int_equal(err.offset, n);
            assert_null(o);
        }
    }
}

static size_t n_largest;
static int64_t n_alive;
static int64_t n_allowed;

static void *watched_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)alignment;
    if (n_allowed == 0) {
        return NULL;
    }
    n_allowed -= n_allowed > 0;
    n_alive++;
    n_largest = n_bytes > n_largest ? n_bytes : n_largest;
    return malloc(n_bytes);
}

static void watched_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    n_alive--;
    free(ptr);
}

static void refuses_lies(void **state)
{
    (void)state;
#define BAD(text, status)             \
    {                                 \
        text, sizeof text - 1, status \
    }
    static const struct {
        const char *bytes;
        size_t n_bytes;
        qn_status status;
    } lies[] = {
        BAD("FZXX" COUNT, QN_ERR_CHECKPOINT_MAGIC_MISMATCH),
        BAD("FZP3" COUNT, QN_ERR_CHECKPOINT_MAGIC_MISMATCH),
        BAD("FZA3"
            "\xff\xff\xff\xff" NAMED STEP F32_2 F32_2,
            QN_ERR_END_OF_STREAM),
        BAD("FZA3" COUNT "\0\0"
            "rest of it",
            QN_ERR_CHECKPOINT_INVALID_NAME),
        BAD("FZA3" COUNT "\x01\0\xff"
            "rest of it",
            QN_ERR_CHECKPOINT_INVALID_NAME),
        BAD("FZA3" COUNT "\x01\0w"
            "\xff\xff\xff\xff\xff\xff\xff\xff"
            "\x01\0\0\0\0\0\0\0",
            QN_ERR_CHECKPOINT_SHAPE_MISMATCH),
        BAD("FZA3" COUNT "\x01\0w"
            "\0\0\0\0\x01\0\0\0"
            "\0\0\0\0\x01\0\0\0",
            QN_ERR_CHECKPOINT_SHAPE_MISMATCH),
        /* 2^38 elements: a terabyte that never comes */
        BAD("FZA3" COUNT "\x01\0w"
            "\0\0\0\0\x40\0\0\0"
            "\x01\0\0\0\0\0\0\0" STEP "data",
            QN_ERR_END_OF_STREAM),
        BAD("FZA4" COUNT NAMED STEP "\x02" F32_2, QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE),
        BAD("FZA5" COUNT NAMED STEP "\0" F32_2 "\0" F32_2 "\x02",
            QN_ERR_CHECKPOINT_CONFIG_MISMATCH),
        BAD("FZM3"
            "\x02\x01"
            "\x05\0\0\0",
            QN_ERR_CHECKPOINT_CONFIG_MISMATCH),
        BAD("FZM3"
            "\x01\x01"
            "\x05\0\0\0" NO_SLOTS "FZS3",
            QN_ERR_CHECKPOINT_MAGIC_MISMATCH),
        BAD("FZA3"
            "\x02\0\0\0" NAMED STEP F32_2 F32_2 NAMED STEP F32_2 F32_2,
            QN_ERR_CHECKPOINT_DUPLICATE_NAME),
        BAD("FZO3"
            "\xff\xff\xff\xff",
            QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES),
        BAD("FZO3" COUNT "FZO3" NO_SLOTS, QN_ERR_CHECKPOINT_MAGIC_MISMATCH),
    };
    const qn_allocator allocator = {NULL, watched_alloc, watched_free};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        stream s = {(const uint8_t *)lies[i].bytes, lies[i].n_bytes, SIZE_MAX};
        qn_optimizer *o = NULL;
        qn_error err = QN_ERROR_INIT;
        n_largest = 0;
        n_alive = 0;
        n_allowed = -1;
        const qn_status status = qn_optimizer_read(read_some, &s, &allocator, &o, &err);
        if (status != lies[i].status) {
            fail_msg("lie %zu: %s (%s)", i, qn_status_name(status), err.message);
        }
        assert_true(n_largest <= 128 * 1024);
        assert_int_equal(n_alive, 0);
    }
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    const qn_allocator allocator = {NULL, watched_alloc, watched_free};
    qn_status status = QN_ERR_OUT_OF_MEMORY;
    for (int64_t n = 0; status != QN_OK; n++) {
        stream s = {(const uint8_t *)frames[9].bytes, frames[9].n_bytes, SIZE_MAX};
        qn_optimizer *o = NULL;
        n_alive = 0;
        n_allowed = n;
        status = qn_optimizer_read(read_some, &s, &allocator, &o, NULL);
        assert_true(status == QN_OK || status == QN_ERR_OUT_OF_MEMORY);
        qn_optimizer_free(o);
        assert_int_equal(n_alive, 0);
    }
}

static void refuses_to_write(void **state)
{
    (void)state;
    static const float data[2] = {1, 2};
    qn_optimizer_slot slots[2] = {
        {.name = "w",
         .n_name = 1,
         .rows = 1,
         .cols = 2,
         .buffers = {{QN_DTYPE_F32, data}, {QN_DTYPE_F32, data}}},
    };
    slots[1] = slots[0];
    qn_optimizer o = {.kind = QN_OPTIMIZER_ADAMW, .slots = slots, .n_slots = 2};
    qni_buffer out;
    qni_buffer_init(&out, NULL, 1 << 16);
    assert_int_equal(qn_optimizer_write(&o, append, &out, NULL), QN_ERR_CHECKPOINT_DUPLICATE_NAME);
    slots[1].name = "";
    slots[1].n_name = 0;
    assert_int_equal(qn_optimizer_write(&o, append, &out, NULL), QN_ERR_CHECKPOINT_INVALID_NAME);
    slots[1].name = "v";
    slots[1].n_name = 1;
    slots[1].rows = INT64_MAX;
    assert_int_equal(qn_optimizer_write(&o, append, &out, NULL), QN_ERR_CHECKPOINT_SHAPE_MISMATCH);
    slots[1].rows = 1;
    slots[1].buffers[1].dtype = QN_DTYPE_Q8_0;
    assert_int_equal(qn_optimizer_write(&o, append, &out, NULL),
                     QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE);
    slots[1].buffers[1].dtype = QN_DTYPE_F32;
    o.kind = QN_OPTIMIZER_MUON;
    assert_int_equal(qn_optimizer_write(&o, append, &out, NULL), QN_ERR_INVALID_ARGUMENT);
    const qn_optimizer inner = {.kind = QN_OPTIMIZER_SET};
    const qn_optimizer outer = {.kind = QN_OPTIMIZER_SET, .second = &inner, .n_members = 1};
    assert_int_equal(qn_optimizer_write(&outer, append, &out, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(out.n_bytes, 0);
    qni_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes),  cmocka_unit_test(hands_out),
        cmocka_unit_test(reports_every_cut), cmocka_unit_test(refuses_lies),
        cmocka_unit_test(refuses_to_write),  cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

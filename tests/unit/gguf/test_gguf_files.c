/* test_gguf_files.c — files on disk: ways of opening, pages, shards both ways, odd layouts repeated
 * to the byte, byte order, warnings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf/gguf.h"

#include "gguf_bytes.h"

static spelled file;

static spelled *begin(bool is_big_endian, uint32_t version, uint64_t n_tensors, uint64_t n_entries)
{
    file.n = 0;
    file.is_big_endian = is_big_endian;
    put_head(&file, version, n_tensors, n_entries);
    return &file;
}

static void save(const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, (size_t)file.n, out), file.n);
    assert_int_equal(fclose(out), 0);
}

/* A file with one tensor, gaps and an odd tail. */
static void spell_odd(bool is_big_endian, uint32_t version)
{
    spelled *s = begin(is_big_endian, version, 3, 2);
    put_key(s, "general.architecture", 8), put_text(s, "llama");
    put_key(s, "x", 9), put_int(s, 8, 4), put_int(s, 2, 8), put_text(s, "ab"), put_text(s, "");
    put_info(s, "second", 1, (int64_t[]){8}, 0, 96);
    put_info(s, "first", 5, (int64_t[]){2, 1, 1, 2, 1}, 0, 32);
    put_info(s, "none", 2, (int64_t[]){32, 0}, 8, 0);
    put_align(s, 32, 0xEE);
    put_fill(s, 0xAA, 32); /* a hole in front */
    for (uint32_t i = 0; i < 4; i++) {
        put_int(s, 0x3F800000u + i, 4);
    }
    put_fill(s, 0, 16), put_fill(s, 0xBB, 32);
    for (uint32_t i = 0; i < 8; i++) {
        put_int(s, 0x40000000u + i, 4);
    }
    put_raw(s, "tail", 4);
}

static void check_repeats(const qn_gguf_options *options)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_gguf_parse(file.bytes, file.n, options, &g, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    qn_gguf_writer_options lossless = QN_GGUF_WRITER_OPTIONS_INIT;
    lossless.layout = QN_GGUF_LOSSLESS;
    qn_gguf_writer *w = NULL;
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_from(g, &lossless, &w, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(n, file.n);
    assert_memory_equal(bytes, file.bytes, (size_t)n);
    /* positional: header, tensors and extras make the same bytes */
    static uint8_t image[1 << 17];
    memset(image, 0, sizeof image);
    qn_gguf_file_plan plan;
    assert_int_equal(qn_gguf_writer_layout(w, &plan, NULL), QN_OK);
    assert_int_equal(plan.n_file_bytes, n);
    memcpy(image, plan.header, (size_t)plan.n_header_bytes);
    qn_tensor_info info;
    for (int64_t i = 0; qn_gguf_writer_tensor(w, i, &info); i++) {
        memcpy(image + info.file_offset, info.data, (size_t)info.n_bytes);
    }
    int64_t offset = 0;
    const void *extra = NULL;
    int64_t n_extra = 0;
    for (int64_t i = 0; qn_gguf_writer_extra(w, i, &offset, &extra, &n_extra); i++) {
        memcpy(image + offset, extra, (size_t)n_extra);
    }
    assert_memory_equal(image, file.bytes, (size_t)n);
    qn_gguf_writer_free(w);
    qn_gguf_close(g);
}

static void odd_files_are_repeated_to_the_byte(void **state)
{
    (void)state;
    for (int is_big = 0; is_big < 2; is_big++) {
        for (uint32_t version = 2; version <= 3; version++) {
            spell_odd(is_big, version);
            check_repeats(NULL);
        }
    }
    spelled *s = begin(false, 3, 0, 0); /* no padding after the header */
    check_repeats(NULL);
    put_fill(s, 0, 8); /* padding, and nothing else */
    check_repeats(NULL);
    put_fill(s, 7, 60); /* bytes where no data section is */
    check_repeats(NULL);
    s = begin(false, 3, 0, 1); /* alignment past the end of the file */
    put_key(s, "general.alignment", 4), put_int(s, 1u << 31, 4);
    check_repeats(NULL);
    s = begin(false, 3, 1, 0); /* no elements, whatever the other dimensions say */
    put_info(s, "t", 3, (int64_t[]){1LL << 62, 1LL << 62, 0}, 0, 0), put_align(s, 32, 0);
    check_repeats(NULL);
    s = begin(false, 3, 1, 1); /* a nested array */
    put_key(s, "n", 9), put_int(s, 9, 4), put_int(s, 1, 8), put_int(s, 0, 4), put_int(s, 1, 8),
        put_int(s, 9, 1);
    put_info(s, "n234567890123456789012345678901234567890123456789012345678901234567890", 1,
             (int64_t[]){1}, 0, 0);
    put_align(s, 32, 0), put_int(s, 5, 4);
    check_repeats(NULL);
}

static void lossless_takes_changes(void **state)
{
    (void)state;
    spell_odd(false, 2);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse(file.bytes, file.n, NULL, &g, NULL), QN_OK);
    qn_gguf_writer_options lossless = QN_GGUF_WRITER_OPTIONS_INIT;
    lossless.layout = QN_GGUF_LOSSLESS;
    qn_gguf_writer *w = NULL;
    assert_int_equal(qn_gguf_writer_from(g, &lossless, &w, NULL), QN_OK);
    static const float added[] = {1, 2};
    const int64_t ne = 2;
    assert_int_equal(qn_gguf_writer_set_string(w, "longer", "a longer value", 14, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_remove_tensor(w, "first", 5, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "new", 3, QN_DTYPE_F32, &ne, 1, added, 8, NULL), QN_OK);
    const void *bytes = NULL;
    int64_t n = 0;
    qn_gguf *again = NULL;
    const qn_tensor_info *info = NULL;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(qn_gguf_parse(bytes, n, NULL, &again, NULL), QN_OK);
    assert_int_equal(qn_gguf_version(again), 2);
    assert_int_equal(qn_gguf_n_tensors(again), 3);
    assert_int_equal(qn_gguf_get_tensor(again, "second", &info, NULL), QN_OK);
    assert_int_equal(info->file_offset - qn_gguf_data_offset(again), 96);
    assert_memory_equal(info->data, qn_gguf_tensor(g, 0)->data, 32);
    assert_int_equal(qn_gguf_get_tensor(again, "new", &info, NULL), QN_OK);
    assert_memory_equal(info->data, added, 8);
    assert_int_equal(info->file_offset % 32, 0);
    qn_gguf_close(again);
    qn_gguf_writer_free(w);
    qn_gguf_close(g);
}

/* --- byte order --------------------------------------------------------------------------------
 */

static void canonical_turns_big_endian_round(void **state)
{
    (void)state;
    spelled *s = begin(true, 3, 4, 5);
    put_key(s, "general.architecture", 8), put_text(s, "llama");
    put_key(s, "i", 5), put_int(s, 0xFFFFFFFE, 4);
    put_key(s, "strs", 9), put_int(s, 8, 4), put_int(s, 2, 8), put_text(s, "ab"),
        put_text(s, "cde");
    put_key(s, "f64s", 9), put_int(s, 12, 4), put_int(s, 1, 8), put_int(s, 0x3FE0000000000000, 8);
    put_key(s, "empty", 9), put_int(s, 9, 4), put_int(s, 0, 8);
    put_info(s, "f", 1, (int64_t[]){2}, 0, 0);
    put_info(s, "q", 1, (int64_t[]){32}, 8, 32);
    put_info(s, "h", 1, (int64_t[]){1}, 1, 96);
    put_info(s, "e", 1, (int64_t[]){0}, 0, 128);
    put_align(s, 32, 0);
    put_int(s, 0x3FC00000, 4), put_int(s, 0xBF000000, 4), put_align(s, 32, 0);
    put_int(s, 0x3C00, 2);
    for (int i = 0; i < 32; i++) {
        put_int(s, (uint64_t)i, 1);
    }
    put_align(s, 32, 0);
    put_int(s, 0x4200, 2), put_align(s, 32, 0);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse(s->bytes, s->n, NULL, &g, NULL), QN_OK);
    qn_gguf_writer *w = NULL;
    /* an empty array of arrays is an array of arrays all the same */
    assert_int_equal(qn_gguf_writer_from(g, NULL, &w, NULL), QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
    const char *const skip[] = {"nothing", "empty"};
    assert_int_equal(qn_gguf_writer_copy_all(w, g, skip, 2, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_copy(w, g, "empty", NULL), QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_copy(w, g, "nope", NULL), QN_ERR_KEY_NOT_FOUND);
    qn_gguf_writer_free(w);
    qn_gguf_close(g);

    /* the same without it */
    static spelled without;
    without = *s;
    s = begin(true, 3, 4, 4);
    const int64_t n_empty = 8 + 5 + 4 + 12;
    int64_t pos = 24;
    while (memcmp(without.bytes + pos, "empty", 5) != 0) {
        pos++;
    }
    put_raw(s, without.bytes + 24, (size_t)(pos - 8 - 24));
    const int64_t rest = pos - 8 + n_empty;
    int64_t infos = rest + 4 * (8 + 1 + 4 + 8 + 4 + 8);
    put_raw(s, without.bytes + rest, (size_t)(infos - rest));
    infos = (infos + 31) / 32 * 32;
    put_align(s, 32, 0);
    put_raw(s, without.bytes + infos, (size_t)(without.n - infos));
    assert_int_equal(qn_gguf_parse(s->bytes, s->n, NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_from(g, NULL, &w, NULL), QN_OK);
    const void *bytes = NULL;
    int64_t n = 0;
    qn_gguf *again = NULL;
    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    strict.strict = true;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(qn_gguf_parse(bytes, n, &strict, &again, NULL), QN_OK);
    int32_t number = 0;
    qn_gguf_array array;
    qn_gguf_string text;
    qn_gguf_value value;
    assert_int_equal(qn_gguf_get_i32(again, "i", &number, NULL), QN_OK);
    assert_int_equal(number, -2);
    assert_int_equal(qn_gguf_get_array(again, "strs", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_string(&array, 1, &text, NULL), QN_OK);
    assert_memory_equal(text.bytes, "cde", 3);
    assert_int_equal(qn_gguf_get_array(again, "f64s", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_at(&array, 0, &value, NULL), QN_OK);
    assert_true(value.as_float == 0.5);
    const uint8_t *f = qn_gguf_tensor(again, 0)->data;
    assert_true(qni_load_f32le(f) == 1.5f && qni_load_f32le(f + 4) == -0.5f);
    const uint8_t *q = qn_gguf_tensor(again, 1)->data;
    assert_int_equal(qni_load_u16le(q), 0x3C00);
    assert_int_equal(q[33], 31);
    assert_int_equal(qni_load_u16le(qn_gguf_tensor(again, 2)->data), 0x4200);
    qn_gguf_close(again);
    qn_gguf_writer_free(w);
    qn_gguf_close(g);
}

static void data_without_a_rule_are_not_swapped(void **state)
{
    (void)state;
    uint8_t block[256];
    for (int i = 0; i < 256; i++) {
        block[i] = (uint8_t)i;
    }
    assert_int_equal(qn_gguf_swap_data(QN_DTYPE_IQ2_XS, block, block, 74, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_gguf_swap_data(QN_DTYPE_Q8_0, block, block, 33, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
    assert_int_equal(qn_gguf_swap_data(QN_DTYPE_Q6_K, block, block, 210, NULL), QN_OK);
    assert_int_equal(block[208], 209);
    assert_int_equal(block[209], 208);
    assert_int_equal(block[207], 207);
    assert_int_equal(qn_gguf_swap_data(QN_DTYPE_Q4_K, block, block, 144, NULL), QN_OK);
    assert_int_equal(block[0], 1);
    assert_int_equal(block[2], 3);
    assert_int_equal(block[4], 4);
    assert_int_equal(qn_gguf_swap_data(QN_DTYPE_MXFP4, block, block, 17, NULL), QN_OK);
    assert_int_equal(block[0], 1);
    spelled *s = begin(true, 3, 1, 0);
    put_info(s, "t", 1, (int64_t[]){256}, 10, 0);
    put_align(s, 32, 0), put_fill(s, 0, 96);
    qn_gguf *g = NULL;
    qn_gguf_writer *w = NULL;
    assert_int_equal(qn_gguf_parse(s->bytes, s->n, NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_from(g, NULL, &w, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    qn_gguf_close(g);
}

/* --- ways of opening ---------------------------------------------------------------------------
 */

static void every_mode_reads_the_same(void **state)
{
    (void)state;
    spell_odd(false, 3);
    save("odd.gguf");
    for (int mode = QN_GGUF_AUTO; mode <= QN_GGUF_HEAP; mode++) {
        qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
        options.mode = (qn_gguf_mode)mode;
        qn_gguf *g = NULL;
        assert_int_equal(qn_gguf_open("odd.gguf", &options, &g, NULL), QN_OK);
        assert_string_equal(qn_gguf_shard_at(g, 0)->path, "odd.gguf");
        const qn_tensor_info *info = qn_gguf_tensor(g, 0);
        assert_memory_equal(info->data, file.bytes + info->file_offset, 32);
        /* advice never changes anything, whatever it is given */
        qn_gguf_prefetch(g, info->data, info->n_bytes);
        qn_gguf_release(g, info->data, info->n_bytes);
        qn_gguf_release(g, file.bytes, file.n);
        qn_gguf_release(g, info->data, INT64_MAX);
        qn_gguf_prefetch(g, NULL, 10);
        assert_memory_equal(info->data, file.bytes + info->file_offset, 32);
        qn_gguf_mapping mapping;
        assert_int_equal(qn_gguf_take_mapping(g, &mapping), mode != QN_GGUF_HEAP);
        if (mode == QN_GGUF_HEAP) {
            assert_null(mapping.bytes);
            qn_gguf_close(g);
            continue;
        }
        const uint8_t *data = info->data;
        qn_gguf_mapping second;
        assert_false(qn_gguf_take_mapping(g, &second));
        assert_null(qn_gguf_bytes(g, 0));
        qn_gguf_writer *w = NULL;
        assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
        assert_int_equal(qn_gguf_writer_copy_all(w, g, NULL, 0, NULL), QN_ERR_UNSUPPORTED);
        assert_int_equal(qn_gguf_writer_copy(w, g, "x", NULL), QN_ERR_UNSUPPORTED);
        qn_gguf_report *report = NULL;
        assert_int_equal(qn_gguf_lint(g, true, &report, NULL), QN_OK);
        qn_gguf_report_free(report);
        qn_gguf_close(g);
        assert_memory_equal(data, file.bytes + (data - (const uint8_t *)mapping.bytes), 32);
        assert_int_equal(
            qn_gguf_writer_copy_all_raw(w, mapping.bytes, mapping.n_bytes, NULL, 0, NULL), QN_OK);
        assert_int_equal(qn_gguf_writer_n_entries(w), 2);
        assert_int_equal(qn_gguf_writer_copy_all_raw(w, "nothing", 7, NULL, 0, NULL),
                         QN_ERR_INVALID_MAGIC);
        qn_gguf_writer_free(w);
        qn_gguf_mapping_close(&mapping);
        assert_null(mapping.bytes);
    }
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_gguf_open("not-there.gguf", NULL, &g, &err), QN_ERR_IO);
    assert_string_equal(err.path, "not-there.gguf");
    assert_int_equal(qn_gguf_open(".", NULL, &g, &err), QN_ERR_IS_DIR);
    file.n = 0;
    save("empty.gguf");
    for (int mode = QN_GGUF_AUTO; mode <= QN_GGUF_HEAP; mode++) {
        qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
        options.mode = (qn_gguf_mode)mode;
        assert_int_equal(qn_gguf_open("empty.gguf", &options, &g, &err), QN_ERR_END_OF_STREAM);
    }
}

static void owned_bytes_are_freed_once(void **state)
{
    (void)state;
    spell_odd(false, 3);
    uint8_t *bytes = malloc((size_t)file.n);
    assert_non_null(bytes);
    memcpy(bytes, file.bytes, (size_t)file.n);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse_owned(bytes, 30, NULL, &g, NULL), QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_parse_owned(bytes, file.n, NULL, &g, NULL), QN_OK);
    qn_gguf_close(g); /* a leak or a second free is the sanitizer's to find */
}

/* --- shards ------------------------------------------------------------------------------------
 */

static const float numbers[64] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Ten tensors of 8 floats, split as the options say, under the name "split". */
static void write_split(const qn_gguf_split_options *options, int64_t expected_n)
{
    qn_gguf_writer *w = NULL;
    const int64_t ne = 8;
    assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_string(w, "general.name", "x", 1, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u8(w, "split.no", 9, NULL), QN_OK); /* left over */
    for (int i = 0; i < 11; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(qn_gguf_writer_add(w, name, (int64_t)strlen(name), QN_DTYPE_F32, &ne, 1,
                                            numbers + i, 32, NULL),
                         QN_OK);
    }
    assert_int_equal(qn_gguf_writer_remove_tensor(w, "t10", 3, NULL), QN_OK);
    qn_gguf_split *split = NULL;
    assert_int_equal(qn_gguf_split_new(w, options, &split, NULL), QN_OK);
    qn_gguf_writer_free(w);
    assert_int_equal(qn_gguf_split_n(split), expected_n);
    assert_null(qn_gguf_split_writer(split, expected_n));
    assert_non_null(qn_gguf_split_writer(split, expected_n - 1));
    assert_int_equal(qn_gguf_split_finish_paths(split, "split", NULL), QN_OK);
    qn_gguf_split_free(split);
    qn_gguf_split_free(NULL);
}

static void check_merged(const char *path, int64_t n_shards, qn_gguf_mode mode)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.mode = mode;
    if (qn_gguf_open(path, &options, &g, &err) != QN_OK) {
        fail_msg("%s: %s", err.path, err.message);
    }
    assert_int_equal(qn_gguf_n_shards(g), n_shards);
    assert_int_equal(qn_gguf_n_tensors(g), 10);
    for (int i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(qn_gguf_find_tensor(g, name, 2), i);
        const qn_tensor_info *info = qn_gguf_tensor(g, i);
        assert_memory_equal(info->data, numbers + i, 32);
        const qn_gguf_shard *shard = qn_gguf_shard_at(g, info->shard);
        assert_true(i >= shard->first_tensor && i < shard->first_tensor + shard->n_tensors);
    }
    assert_true(qn_gguf_has(g, "general.name"));
    qn_gguf_mapping mapping;
    assert_int_equal(qn_gguf_take_mapping(g, &mapping), n_shards == 1 && mode != QN_GGUF_HEAP);
    qn_gguf_mapping_close(&mapping);
    qn_gguf_close(g);
}

static void shards_split_and_merge(void **state)
{
    (void)state;
    qn_gguf_split_options options = QN_GGUF_SPLIT_OPTIONS_INIT;
    options.max_tensors = 4;
    write_split(&options, 3);
    check_merged("split-00001-of-00003.gguf", 3, QN_GGUF_AUTO);
    check_merged("split-00002-of-00003.gguf", 3, QN_GGUF_HEAP);
    check_merged("./split-00003-of-00003.gguf", 3, QN_GGUF_MAP);
    options.max_tensors = 0;
    options.max_bytes = 100; /* three of 32 fit */
    options.is_count_before_total = true;
    write_split(&options, 4);
    check_merged("split-00004-of-00004.gguf", 4, QN_GGUF_AUTO);
    options.max_bytes = 1; /* smaller than any tensor: one each */
    options.is_first_empty = true;
    write_split(&options, 11);
    check_merged("split-00001-of-00011.gguf", 11, QN_GGUF_AUTO);
    write_split(NULL, 1);
    check_merged("split-00001-of-00001.gguf", 1, QN_GGUF_AUTO);
    options.max_bytes = -1;
    qn_gguf_writer *w = NULL;
    qn_gguf_split *split = NULL;
    assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
    assert_int_equal(qn_gguf_split_new(w, &options, &split, NULL), QN_ERR_INVALID_ARGUMENT);
    options.struct_size = 1;
    assert_int_equal(qn_gguf_split_new(w, &options, &split, NULL), QN_ERR_INVALID_ARGUMENT);
    /* nothing at all is one shard */
    assert_int_equal(qn_gguf_split_new(w, NULL, &split, NULL), QN_OK);
    assert_int_equal(qn_gguf_split_n(split), 1);
    assert_int_equal(qn_gguf_split_finish_paths(split, "no/such/folder/x", NULL), QN_ERR_IO);
    qn_gguf_split_free(split);
    const int64_t ne = 1;
    for (int i = 0; i < 70000; i++) {
        char name[16];
        const int n = snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(qn_gguf_writer_add(w, name, n, QN_DTYPE_F32, &ne, 1, numbers, 4, NULL),
                         QN_OK);
    }
    options = (qn_gguf_split_options)QN_GGUF_SPLIT_OPTIONS_INIT;
    options.max_tensors = 1;
    assert_int_equal(qn_gguf_split_new(w, &options, &split, NULL), QN_ERR_INVALID_SPLIT);
    qn_gguf_writer_free(w);
}

/* One shard of `count` with tensor `name`, its keys as told; wrong ones on purpose. */
static void save_shard(const char *path, int no, int count, int total, const char *name,
                       uint32_t count_type, bool is_big_endian)
{
    spelled *s = begin(is_big_endian, 3, 1, total < 0 ? 2 : 3);
    put_key(s, "split.no", 2), put_int(s, (uint64_t)no, 2);
    put_key(s, "split.count", count_type), put_int(s, (uint64_t)count, count_type == 2 ? 2 : 4);
    if (total >= 0) {
        put_key(s, "split.tensors.count", 5), put_int(s, (uint64_t)total, 4);
    }
    put_info(s, name, 1, (int64_t[]){1}, 0, 0);
    put_align(s, 32, 0), put_fill(s, 0, 32);
    save(path);
}

static void open_fails(const char *path, qn_status status, const char *in_path)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_gguf_open(path, NULL, &g, &err), status);
    assert_non_null(strstr(err.path, in_path));
}

static void shards_that_disagree_are_refused(void **state)
{
    (void)state;
#define FIRST  "bad-00001-of-00002.gguf"
#define SECOND "bad-00002-of-00002.gguf"
    save_shard(FIRST, 0, 2, 2, "a", 2, false);
    (void)remove(SECOND);                            /* of an earlier run */
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, SECOND); /* not there */
    save_shard(SECOND, 1, 2, 2, "b", 2, false);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_open(SECOND, NULL, &g, NULL), QN_OK);
    qn_gguf_close(g);
    save_shard(SECOND, 0, 2, 2, "b", 2, false);
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, SECOND); /* numbered wrong */
    save_shard(SECOND, 1, 3, 2, "b", 2, false);
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, SECOND); /* counts otherwise */
    open_fails(SECOND, QN_ERR_INVALID_SPLIT, SECOND);
    save_shard(SECOND, 1, 2, 2, "a", 2, false);
    open_fails(FIRST, QN_ERR_DUPLICATE_TENSOR_NAME, SECOND);
    save_shard(SECOND, 1, 2, 3, "b", 2, false);
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, SECOND); /* the total */
    save_shard(SECOND, 1, 2, 2, "b", 2, true);
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, SECOND); /* byte order */
    save_shard(SECOND, 1, 2, -1, "b", 2, false);
    save_shard(FIRST, 0, 2, -1, "a", 2, false);
    open_fails(SECOND, QN_ERR_INVALID_SPLIT, FIRST); /* no total */
    save_shard(FIRST, 0, 2, 2, "a", 4, false);
    open_fails(FIRST, QN_ERR_INVALID_SPLIT, FIRST); /* a u32 */
    save_shard("renamed.gguf", 0, 2, 2, "a", 2, false);
    open_fails("renamed.gguf", QN_ERR_INVALID_SPLIT, "renamed");
    static spelled one;
    one = file;
    put_raw(&file, one.bytes, (size_t)one.n);
    save("joined.gguf");
    open_fails("joined.gguf", QN_ERR_INVALID_SPLIT, "joined");
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.single_shard = true;
    assert_int_equal(qn_gguf_open("renamed.gguf", &options, &g, NULL), QN_OK);
    qn_gguf_close(g);
}

static void shard_names_are_taken_apart(void **state)
{
    (void)state;
    int64_t n_prefix = 0;
    int64_t index = 0;
    int64_t count = 0;
    assert_true(qn_gguf_parse_shard_path("d/m-00002-of-00005.gguf", &n_prefix, &index, &count));
    assert_int_equal(n_prefix, 3);
    assert_int_equal(index, 1);
    assert_int_equal(count, 5);
    assert_true(qn_gguf_parse_shard_path("-00001-of-00001.gguf", NULL, NULL, NULL));
    static const char *const no[] = {
        "m.gguf",
        "m-00000-of-00005.gguf",
        "m-00006-of-00005.gguf",
        "m-0001a-of-00005.gguf",
        "m-00001-of-00005.GGUF",
        "m-00001_of-00005.gguf",
        "m_00001-of-00005.gguf",
        "m-00001-of-99999.gguf",
        "m-00001-of-00005.gguf.part",
    };
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        assert_false(qn_gguf_parse_shard_path(no[i], NULL, NULL, NULL));
    }
    char out[32];
    assert_int_equal(qn_gguf_shard_path("abcdef", 3, 0, 7, out, sizeof out, NULL), QN_OK);
    assert_string_equal(out, "abc-00001-of-00007.gguf");
    assert_int_equal(qn_gguf_shard_path("abcdef", 3, 7, 7, out, sizeof out, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_shard_path("abcdefghijklmno", 15, 0, 7, out, sizeof out, NULL),
                     QN_ERR_INVALID_ARGUMENT);
}

/* --- writing to paths --------------------------------------------------------------------------
 */

static void a_path_gets_the_same_bytes(void **state)
{
    (void)state;
    qn_gguf_writer *w = NULL;
    static uint8_t large[600 * 1024];
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (uint8_t)(i * 31);
    }
    const int64_t ne[] = {sizeof large, 1};
    const int64_t ne_small = 8;
    assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "s1", 2, QN_DTYPE_F32, &ne_small, 1, numbers, 32, NULL),
                     QN_OK);
    assert_int_equal(
        qn_gguf_writer_add(w, "large", 5, QN_DTYPE_I8, ne, 2, large, sizeof large, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "s2", 2, QN_DTYPE_F32, &ne_small, 1, numbers, 32, NULL),
                     QN_OK);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_finish_path(w, "out.gguf", NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_finish_path(w, "no/such/folder/out.gguf", NULL), QN_ERR_IO);
    uint8_t *read = NULL;
    int64_t n_read = 0;
    assert_int_equal(qni_file_read_all("out.gguf", NULL, INT64_MAX, &read, &n_read, NULL), QN_OK);
    assert_int_equal(n_read, n);
    assert_memory_equal(read, bytes, (size_t)n);
    qni_free(NULL, read, (size_t)n_read);
    qn_gguf_writer_free(w);
}

/* --- warnings ----------------------------------------------------------------------------------
 */

/* The report of the spelled file has exactly these codes, in any order. */
static void check_warnings(const qn_gguf_warning_code *codes, int64_t n_codes)
{
    qn_gguf *g = NULL;
    qn_gguf_report *report = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_gguf_parse(file.bytes, file.n, NULL, &g, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(qn_gguf_lint(g, true, &report, NULL), QN_OK);
    for (int64_t i = 0; i < qn_gguf_report_n(report); i++) {
        const qn_gguf_warning *warning = qn_gguf_report_at(report, i);
        bool is_expected = false;
        for (int64_t k = 0; k < n_codes; k++) {
            is_expected |= codes[k] == warning->code;
        }
        if (!is_expected) {
            fail_msg("unexpected: %s", warning->message);
        }
    }
    assert_int_equal(qn_gguf_report_n(report), n_codes);
    assert_null(qn_gguf_report_at(report, n_codes));
    qn_gguf_report_free(report);
    qn_gguf_close(g);
}
#define WARNS(...)                             \
    check_warnings(                            \
        (qn_gguf_warning_code[]){__VA_ARGS__}, \
        (int64_t)(sizeof((qn_gguf_warning_code[]){__VA_ARGS__}) / sizeof(qn_gguf_warning_code)))

/* A header with an architecture and room for n more entries. */
static spelled *begin_llama(uint64_t n_tensors, uint64_t n_more)
{
    spelled *s = begin(false, 3, n_tensors, n_more + 1);
    put_key(s, "general.architecture", 8), put_text(s, "llama");
    return s;
}

static void each_oddity_has_its_warning(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 0, 0);
    check_warnings(NULL, 0);
    s = begin(true, 3, 0, 0);
    WARNS(QN_GGUF_WARN_BIG_ENDIAN);
    s = begin(false, 3, 1, 0);
    put_info(s, "a", 1, (int64_t[]){8}, 0, 0), put_align(s, 32, 0), put_fill(s, 0, 32);
    WARNS(QN_GGUF_WARN_NO_ARCHITECTURE);
    s = begin(false, 3, 1, 1); /* an importance matrix has none */
    put_key(s, "general.type", 8), put_text(s, "imatrix");
    put_info(s, "a", 1, (int64_t[]){8}, 0, 0), put_align(s, 32, 0), put_fill(s, 0, 32);
    check_warnings(NULL, 0);
    s = begin_llama(0, 1);
    put_int(s, 65536, 8), put_fill(s, 'k', 65536), put_int(s, 0, 4), put_int(s, 1, 1);
    WARNS(QN_GGUF_WARN_KEY_LENGTH);
    begin_llama(0, 2);
    put_str(s, "\xff\xfe", 2), put_int(s, 0, 4), put_int(s, 1, 1);
    put_str(s, "a\0b", 3), put_int(s, 0, 4), put_int(s, 1, 1);
    WARNS(QN_GGUF_WARN_KEY_TEXT);
    begin_llama(0, 1);
    put_key(s, "n", 9), put_int(s, 9, 4), put_int(s, 0, 8);
    WARNS(QN_GGUF_WARN_NESTED_ARRAY);
    begin_llama(0, 2);
    put_key(s, "b", 7), put_int(s, 2, 1);
    put_key(s, "bs", 9), put_int(s, 7, 4), put_int(s, 2, 8), put_int(s, 1, 1), put_int(s, 255, 1);
    WARNS(QN_GGUF_WARN_BOOL_BYTE);
    begin_llama(0, 1);
    put_key(s, "s", 8), put_str(s, "\xc3(", 2);
    WARNS(QN_GGUF_WARN_VALUE_TEXT);
    begin_llama(0, 1);
    put_key(s, "general.alignment", 4), put_int(s, 4, 4);
    WARNS(QN_GGUF_WARN_ALIGNMENT);
}

/* One float tensor in a sound file, with changes around it. */
static spelled *with_tensor(const char *name, size_t n_name, int n_dims, uint32_t dtype,
                            int64_t ne0, uint64_t offset)
{
    spelled *s = begin_llama(1, 0);
    put_str(s, name, n_name);
    put_int(s, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) {
        put_int(s, i == 0 ? (uint64_t)ne0 : 1, 8);
    }
    put_int(s, dtype, 4), put_int(s, offset, 8);
    put_align(s, 32, 0);
    return s;
}

static void each_odd_tensor_has_its_warning(void **state)
{
    (void)state;
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123";
    spelled *s = with_tensor(long_name, 64, 1, 0, 8, 0);
    put_fill(s, 0, 32), WARNS(QN_GGUF_WARN_NAME_LENGTH);
    s = with_tensor("", 0, 1, 0, 8, 0);
    put_fill(s, 0, 32), WARNS(QN_GGUF_WARN_NAME_EMPTY);
    s = with_tensor("\xff", 1, 1, 0, 8, 0);
    put_fill(s, 0, 32), WARNS(QN_GGUF_WARN_NAME_TEXT);
    s = with_tensor("a", 1, 5, 0, 8, 0);
    put_fill(s, 0, 32), WARNS(QN_GGUF_WARN_DIMS);
    s = with_tensor("a", 1, 1, 42, 64, 0);
    put_fill(s, 0, 32), WARNS(QN_GGUF_WARN_DTYPE, QN_GGUF_WARN_METADATA_VALUE);
    s = with_tensor("a", 1, 1, 9, 32, 0);
    put_fill(s, 0, 64), WARNS(QN_GGUF_WARN_DTYPE, QN_GGUF_WARN_METADATA_VALUE);
    s = with_tensor("a", 1, 1, 0, 8, 32);
    put_fill(s, 0, 64), WARNS(QN_GGUF_WARN_LAYOUT);
    s = with_tensor("a", 1, 1, 0, 4, 0);
    put_fill(s, 0, 16), WARNS(QN_GGUF_WARN_FINAL_PADDING);
    s = with_tensor("a", 1, 1, 0, 4, 0);
    put_fill(s, 0, 16), put_fill(s, 1, 16), WARNS(QN_GGUF_WARN_PADDING_VALUE);
    s = with_tensor("a", 1, 1, 0, 8, 0);
    put_fill(s, 0, 32), put_raw(s, "GGUF", 4), WARNS(QN_GGUF_WARN_TRAILING);
    s = begin_llama(2, 0);
    put_info(s, "a", 1, (int64_t[]){4}, 0, 0), put_info(s, "b", 1, (int64_t[]){8}, 0, 32);
    put_align(s, 32, 9), put_fill(s, 0, 16), put_fill(s, 5, 16), put_fill(s, 0, 32);
    WARNS(QN_GGUF_WARN_PADDING_VALUE);
    s = begin_llama(2, 0);
    put_str(s, "a\0x", 3), put_int(s, 1, 4), put_int(s, 8, 8), put_int(s, 0, 4), put_int(s, 0, 8);
    put_str(s, "a\0y", 3), put_int(s, 1, 4), put_int(s, 8, 8), put_int(s, 0, 4), put_int(s, 32, 8);
    put_align(s, 32, 0), put_fill(s, 0, 64);
    WARNS(QN_GGUF_WARN_NAME_TEXT, QN_GGUF_WARN_NAME_PREFIX);
}

static void well_known_keys_are_looked_at(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 0, 1);
    put_key(s, "general.architecture", 4), put_int(s, 7, 4);
    WARNS(QN_GGUF_WARN_METADATA_KIND);
    s = begin_llama(0, 2);
    put_key(s, "llama.block_count", 4), put_int(s, 0, 4);
    put_key(s, "llama.attention.head_count", 9), put_int(s, 4, 4), put_int(s, 0, 8);
    WARNS(QN_GGUF_WARN_METADATA_VALUE);
    s = begin_llama(0, 3);
    put_key(s, "tokenizer.ggml.tokens", 9), put_int(s, 8, 4), put_int(s, 1, 8), put_text(s, "a");
    put_key(s, "tokenizer.ggml.scores", 9), put_int(s, 0, 4), put_int(s, 1, 8), put_int(s, 1, 1);
    put_key(s, "tokenizer.ggml.token_type", 9), put_int(s, 5, 4), put_int(s, 0, 8);
    WARNS(QN_GGUF_WARN_METADATA_KIND, QN_GGUF_WARN_METADATA_VALUE);
    s = begin_llama(0, 1);
    put_key(s, "tokenizer.ggml.tokens", 8), put_text(s, "no");
    WARNS(QN_GGUF_WARN_METADATA_KIND);
    s = begin_llama(0, 1);
    put_key(s, "split.count", 2), put_int(s, 0, 2);
    WARNS(QN_GGUF_WARN_SPLIT);
    s = begin_llama(0, 1);
    put_key(s, "split.count", 8), put_text(s, "x");
    WARNS(QN_GGUF_WARN_SPLIT);
}

static int n_logged;

static void count_log(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    assert_int_equal(level, QN_LOG_WARNING);
    assert_true(message[0] != '\0');
    n_logged++;
}

static void warnings_reach_the_log(void **state)
{
    (void)state;
    begin_llama(0, 0);
    save("named-00001-of-00002.gguf");
    begin_llama(0, 0);
    save("named.safetensors");
    static const char *const paths[] = {"named-00001-of-00002.gguf", "named.safetensors"};
    for (int i = 0; i < 2; i++) {
        qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
        options.log = count_log;
        n_logged = 0;
        qn_gguf *g = NULL;
        assert_int_equal(qn_gguf_open(paths[i], &options, &g, NULL), QN_OK);
        assert_int_equal(n_logged, 1);
        qn_gguf_close(g);
    }
    qn_gguf_report_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_files_are_repeated_to_the_byte),
        cmocka_unit_test(lossless_takes_changes),
        cmocka_unit_test(canonical_turns_big_endian_round),
        cmocka_unit_test(data_without_a_rule_are_not_swapped),
        cmocka_unit_test(every_mode_reads_the_same),
        cmocka_unit_test(owned_bytes_are_freed_once),
        cmocka_unit_test(shards_split_and_merge),
        cmocka_unit_test(shards_that_disagree_are_refused),
        cmocka_unit_test(shard_names_are_taken_apart),
        cmocka_unit_test(a_path_gets_the_same_bytes),
        cmocka_unit_test(each_oddity_has_its_warning),
        cmocka_unit_test(each_odd_tensor_has_its_warning),
        cmocka_unit_test(well_known_keys_are_looked_at),
        cmocka_unit_test(warnings_reach_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

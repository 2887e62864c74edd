/* test_probe.c — files told from their first bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quench/probe.h"

typedef struct probe_case {
    const char *bytes;
    size_t n_bytes;
    qn_file_kind kind;
} probe_case;

#define ROW(text, kind)             \
    {                               \
        text, sizeof text - 1, kind \
    }

static const probe_case cases[] = {
    ROW("", QN_FILE_EMPTY),
    ROW("\0\0\0\0\0\0\0\0\0\0\0\0", QN_FILE_ZEROS),
    ROW("GGUF\3\0\0\0", QN_FILE_GGUF),
    ROW("GGUF\0\0\0\3", QN_FILE_GGUF),
    ROW("gguf\3\0\0\0", QN_FILE_UNKNOWN),
    ROW("tjgg\3\0\0\0", QN_FILE_GGML_OLD),
    ROW("lmgg\0\0\0\0", QN_FILE_GGML_OLD),
    ROW("\x10\0\0\0\0\0\0\0{\"a\":{}}", QN_FILE_SAFETENSORS),
    ROW("{\0\0\0\0\0\0\0{\"a\":{}}", QN_FILE_SAFETENSORS),
    ROW("\x80\x02\0\0\0\0\0\0{\"a\":{}}", QN_FILE_SAFETENSORS), /* a header of 640 bytes */
    ROW("\x1f\x8b\0\0\0\0\0\0{\"a\":{}}", QN_FILE_SAFETENSORS),
    ROW("\xff\xff\xff\xff\xff\xff\xff\xff{\"a\":{}}", QN_FILE_SAFETENSORS),
    ROW("{\"weight_map\":{}}", QN_FILE_JSON),
    ROW("\n {\"a\": {\"b\":1}}", QN_FILE_JSON),
    ROW("{\"abcde{{{{", QN_FILE_JSON),
    ROW("version https://git-lfs.github.com/spec/v1\n", QN_FILE_LFS_POINTER),
    ROW("<!DOCTYPE html><html>", QN_FILE_HTML),
    ROW("\r\n<HTML lang=en>", QN_FILE_HTML),
    ROW("\xef\xbb\xbf<?xml version=\"1.0\"?>", QN_FILE_HTML),
    ROW("PK\3\4\0\0", QN_FILE_ZIP),
    ROW("\x80\2ccollections\n", QN_FILE_PICKLE),
    ROW("\x1f\x8b\x08\0", QN_FILE_COMPRESSED),
    ROW("\x93NUMPY\1\0", QN_FILE_NPY),
    ROW("\x89HDF\r\n\x1a\n", QN_FILE_HDF5),
    ROW("\x7f"
        "ELF\2\1",
        QN_FILE_PROGRAM),
    ROW("#!/bin/sh\n", QN_FILE_PROGRAM),
    ROW("hello", QN_FILE_UNKNOWN),
    ROW("<", QN_FILE_UNKNOWN),
};

static void tells_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(qn_probe(cases[i].bytes, cases[i].n_bytes), cases[i].kind);
        assert_true(strlen(qn_file_kind_text(cases[i].kind)) > 3);
    }
    char tar[512] = "name";
    memcpy(tar + 257, "ustar", 5);
    assert_int_equal(qn_probe(tar, sizeof tar), QN_FILE_TAR);
    assert_string_equal(qn_file_kind_text((qn_file_kind)99), qn_file_kind_text(QN_FILE_UNKNOWN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

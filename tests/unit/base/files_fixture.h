/* files_fixture.h — a folder of files for the tests of this room. The including file says what the
 * folder is called: #define FOLDER "name.XXXXXX". */
#ifndef TEST_FILES_FIXTURE_H
#define TEST_FILES_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/base.h"

static char folder[] = FOLDER;

/* The path of a file in the folder; the last four stay. */
static inline const char *at(const char *name)
{
    static char paths[4][256];
    static int next = 0;
    char *path = paths[next++ % 4];
    (void)snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

static inline void put_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void holds_bytes(const char *path, const void *bytes, size_t n)
{
    uint8_t *got = NULL;
    int64_t n_got = 0;
    assert_int_equal(qni_file_read_all(path, NULL, 1 << 24, &got, &n_got, NULL), QN_OK);
    assert_int_equal(n_got, n);
    assert_memory_equal(got, bytes, n);
    qni_free(NULL, got, (size_t)n_got);
}

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#endif

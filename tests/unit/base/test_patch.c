/* test_patch.c — a file's first bytes replaced in place: every state that a kill can leave, and
 * journals that are not what they say. */
#define FOLDER "test_patch.XXXXXX"
#include "files_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT = 4096, OLD_HEAD = 3 * UNIT, BODY = 200000, N_OLD = OLD_HEAD + BODY };

static uint8_t old_bytes[N_OLD];
static uint8_t new_head[OLD_HEAD + UNIT]; /* its first OLD_HEAD bytes, or all of it */
static uint8_t new_bytes[N_OLD + UNIT];

/* What the file is to be. */
static size_t make_new(int64_t n_inserted, uint8_t *out)
{
    const size_t n_head = (size_t)(OLD_HEAD + n_inserted);
    memcpy(out, new_head, n_head);
    memcpy(out + n_head, old_bytes + OLD_HEAD, BODY);
    return n_head + BODY;
}

static qni_patch patch_of(int64_t n_inserted)
{
    return (qni_patch){new_head, OLD_HEAD + n_inserted, n_inserted, N_OLD,
                       qni_hash64(old_bytes, OLD_HEAD, 0)};
}

/* A journal as patch.c describes it, for the file of old_bytes. */
static size_t make_journal(int64_t n_inserted, uint8_t *out)
{
    enum { SAMPLE = 64 << 10 };
    const size_t n_head = (size_t)(OLD_HEAD + n_inserted);
    uint64_t rest = qni_hash64(old_bytes + OLD_HEAD, SAMPLE, 1);
    rest = qni_hash64(old_bytes + N_OLD - SAMPLE, SAMPLE, rest);
    memcpy(out, "QNPATCH1", 8);
    qni_store_u64le(out + 8, N_OLD);
    qni_store_u64le(out + 16, (uint64_t)n_inserted);
    qni_store_u64le(out + 24, n_head);
    qni_store_u64le(out + 32, qni_hash64(old_bytes, OLD_HEAD, 0));
    qni_store_u64le(out + 40, rest);
    qni_store_u64le(out + 48, qni_hash64(new_head, n_head, 0));
    qni_store_u64le(out + 56, qni_hash64(out, 56, 0));
    memcpy(out + 64, new_head, n_head);
    return 64 + n_head;
}

static void put_journal(int64_t n_inserted)
{
    uint8_t bytes[64 + sizeof new_head];
    put_bytes(at("m.quench-patch"), bytes, make_journal(n_inserted, bytes));
}

static void has_no_journal(void)
{
    assert_false(qni_file_exists(at("m.quench-patch")));
    assert_int_equal(qni_patch_check(at("m"), NULL, NULL), QN_OK);
}

static int set_up(void **state)
{
    for (size_t i = 0; i < sizeof old_bytes; i++) {
        old_bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (size_t i = 0; i < sizeof new_head; i++) {
        new_head[i] = (uint8_t)(i * 40503u >> 7);
    }
    return make_folder(state);
}

/* --- changing ----------------------------------------------------------------------------------
 */

static void test_replaces(void **state)
{
    (void)state;
    const qni_patch patch = patch_of(0);
    bool is_claimed = false;
    put_bytes(at("m"), old_bytes, N_OLD);
    assert_int_equal(qni_patch_apply(at("m"), &patch, NULL, &is_claimed, NULL), QN_OK);
    holds_bytes(at("m"), new_bytes, make_new(0, new_bytes));
    has_no_journal();
}

static void test_inserts_or_changes_nothing(void **state)
{
    (void)state;
    const qni_patch patch = patch_of(UNIT);
    bool is_claimed = false;
    put_bytes(at("m"), old_bytes, N_OLD);
    const qn_status st = qni_patch_apply(at("m"), &patch, NULL, &is_claimed, NULL);
    if (st == QN_OK) {
        holds_bytes(at("m"), new_bytes, make_new(UNIT, new_bytes));
    } else {
        assert_int_equal(st, QN_ERR_NO_ROOM);
        holds_bytes(at("m"), old_bytes, N_OLD);
    }
    has_no_journal();
}

static void test_goes_through_links(void **state)
{
    (void)state;
    const qni_patch patch = patch_of(0);
    bool is_claimed = false;
    put_bytes(at("m"), old_bytes, N_OLD);
    assert_int_equal(symlink("m", at("link")), 0);
    assert_int_equal(qni_patch_apply(at("link"), &patch, NULL, &is_claimed, NULL), QN_OK);
    holds_bytes(at("m"), new_bytes, make_new(0, new_bytes));
    put_journal(0);
    assert_int_equal(qni_patch_check(at("link"), NULL, NULL), QN_ERR_PATCH_PENDING);
    qni_patch_outcome outcome;
    assert_int_equal(qni_patch_recover(at("link"), NULL, &outcome, NULL), QN_OK);
    assert_int_equal(outcome, QNI_PATCH_DONE);
    has_no_journal();
    struct stat info;
    assert_int_equal(lstat(at("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(unlink(at("link")), 0);
}

static void test_refuses(void **state)
{
    (void)state;
    qni_patch patch = patch_of(0);
    bool is_claimed = false;
    qn_error err = QN_ERROR_INIT;
    put_bytes(at("m"), old_bytes, N_OLD);
    /* somebody reads it */
    const int fd = open(at("m"), O_RDONLY);
    assert_true(fd >= 0);
    const qn_status st = qni_patch_apply(at("m"), &patch, NULL, &is_claimed, &err);
    assert_int_equal(close(fd), 0);
    if (st == QN_OK) { /* a file system without leases */
        assert_false(is_claimed);
        put_bytes(at("m"), old_bytes, N_OLD);
    } else {
        assert_int_equal(st, QN_ERR_FILE_IN_USE);
    }
    /* it has changed since */
    patch.old_digest++;
    assert_int_equal(qni_patch_apply(at("m"), &patch, NULL, &is_claimed, NULL),
                     QN_ERR_FILE_CHANGED);
    patch = patch_of(0);
    patch.n_file++;
    assert_int_equal(qni_patch_apply(at("m"), &patch, NULL, &is_claimed, NULL),
                     QN_ERR_FILE_CHANGED);
    has_no_journal();
    /* another edit is to be finished */
    patch = patch_of(0);
    put_journal(0);
    assert_int_equal(qni_patch_apply(at("m"), &patch, NULL, &is_claimed, NULL),
                     QN_ERR_PATCH_PENDING);
    assert_int_equal(unlink(at("m.quench-patch")), 0);
    holds_bytes(at("m"), old_bytes, N_OLD);
    /* no such file */
    assert_int_equal(qni_patch_apply(at("none"), &patch, NULL, &is_claimed, NULL), QN_ERR_IO);
}

/* --- after a kill ------------------------------------------------------------------------------
 */

static void recovers_to(qni_patch_outcome wanted, const uint8_t *bytes, size_t n)
{
    qni_patch_outcome outcome;
    assert_int_equal(qni_patch_recover(at("m"), NULL, &outcome, NULL), QN_OK);
    assert_int_equal(outcome, wanted);
    holds_bytes(at("m"), bytes, n);
    has_no_journal();
}

static void test_finishes_a_replacement(void **state)
{
    (void)state;
    static uint8_t bytes[N_OLD];
    const size_t n = make_new(0, new_bytes);
    const size_t written[] = {0, 1, UNIT, OLD_HEAD - 1, OLD_HEAD};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        memcpy(bytes, old_bytes, N_OLD);
        memcpy(bytes, new_head, written[i]);
        put_bytes(at("m"), bytes, N_OLD);
        put_journal(0);
        recovers_to(QNI_PATCH_DONE, new_bytes, n);
    }
}

static void test_finishes_an_insertion(void **state)
{
    (void)state;
    static uint8_t bytes[N_OLD + UNIT];
    const size_t n = make_new(UNIT, new_bytes);
    const size_t written[] = {0, 1, UNIT, OLD_HEAD + 1, OLD_HEAD + UNIT};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        memset(bytes, 0, UNIT);
        memcpy(bytes + UNIT, old_bytes, N_OLD);
        memcpy(bytes, new_head, written[i]);
        put_bytes(at("m"), bytes, N_OLD + UNIT);
        put_journal(UNIT);
        recovers_to(QNI_PATCH_DONE, new_bytes, n);
    }
    put_bytes(at("m"), old_bytes, N_OLD); /* nothing was inserted yet */
    put_journal(UNIT);
    recovers_to(QNI_PATCH_UNDONE, old_bytes, N_OLD);
    recovers_to(QNI_PATCH_NONE, old_bytes, N_OLD);
}

static void recovery_is_refused(const uint8_t *bytes, size_t n, const uint8_t *journal,
                                size_t n_journal)
{
    qni_patch_outcome outcome;
    put_bytes(at("m"), bytes, n);
    put_bytes(at("m.quench-patch"), journal, n_journal);
    assert_int_equal(qni_patch_recover(at("m"), NULL, &outcome, NULL), QN_ERR_STALE_JOURNAL);
    holds_bytes(at("m"), bytes, n);
    holds_bytes(at("m.quench-patch"), journal, n_journal);
}

static void test_refuses_journals(void **state)
{
    (void)state;
    static uint8_t bytes[N_OLD + 1];
    uint8_t journal[64 + sizeof new_head];
    const int64_t inserted[] = {0, UNIT};
    for (int k = 0; k < 2; k++) {
        const size_t n = make_journal(inserted[k], journal);
        for (size_t i = 0; i < 70; i++) { /* each field, and some of the bytes */
            journal[i] ^= (uint8_t)(1 + i);
            recovery_is_refused(old_bytes, N_OLD, journal, n);
            journal[i] ^= (uint8_t)(1 + i);
        }
        for (size_t cut = 0; cut < n; cut += 997) {
            recovery_is_refused(old_bytes, N_OLD, journal, cut);
        }
        memcpy(bytes, old_bytes, N_OLD); /* another file: longer, shorter, with other data */
        recovery_is_refused(bytes, N_OLD + 1, journal, n);
        recovery_is_refused(bytes, N_OLD - 1, journal, n);
        bytes[OLD_HEAD + 5]++;
        recovery_is_refused(bytes, N_OLD, journal, n);
        bytes[OLD_HEAD + 5]--;
        bytes[N_OLD - 1]++;
        recovery_is_refused(bytes, N_OLD, journal, n);
        bytes[N_OLD - 1]--;
        if (inserted[k] > 0) { /* changed, though nothing had been inserted */
            bytes[0]++;
            recovery_is_refused(bytes, N_OLD, journal, n);
            bytes[0]--;
        }
    }
    assert_int_equal(unlink(at("m.quench-patch")), 0);
}

/* --- beside others ------------------------------------------------------------------------------
 */

enum { N_CHANGES = 40 };

/* Old to new and back, as often as nobody has the file open. An exit status. */
static int change_again_and_again(void)
{
    const qni_patch there = patch_of(0);
    const qni_patch back = {old_bytes, OLD_HEAD, 0, N_OLD, qni_hash64(new_head, OLD_HEAD, 0)};
    bool is_claimed = false;
    for (int n_done = 0; n_done < N_CHANGES;) {
        const qni_patch *patch = n_done % 2 == 0 ? &there : &back;
        const qn_status st = qni_patch_apply(at("m"), patch, NULL, &is_claimed, NULL);
        if (st != QN_OK && st != QN_ERR_FILE_IN_USE) {
            return 1;
        }
        if (st == QN_OK && !is_claimed) {
            return 77;
        }
        n_done += st == QN_OK;
    }
    return 0;
}

/* Whoever opens the file meanwhile waits: nobody sees a half of it, or a journal. */
static void test_readers_wait(void **state)
{
    (void)state;
    static uint8_t seen[OLD_HEAD];
    int status = 0;
    put_bytes(at("m"), old_bytes, N_OLD);
    const pid_t child = fork();
    if (child == 0) {
        _exit(change_again_and_again());
    }
    bool is_whole = true;
    bool is_pending = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        qni_file file;
        is_pending |= qni_patch_check(at("m"), NULL, NULL) != QN_OK;
        assert_int_equal(qni_file_open(at("m"), &file, NULL), QN_OK);
        assert_int_equal(qni_file_pread(&file, seen, OLD_HEAD, 0, NULL), QN_OK);
        qni_file_close(&file);
        is_whole &= memcmp(seen, old_bytes, OLD_HEAD) == 0 || memcmp(seen, new_head, OLD_HEAD) == 0;
        (void)poll(NULL, 0, 1); /* leave it to the other for a while */
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip(); /* a file system without leases */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(is_whole && !is_pending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaces),
        cmocka_unit_test(test_inserts_or_changes_nothing),
        cmocka_unit_test(test_goes_through_links),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_finishes_a_replacement),
        cmocka_unit_test(test_finishes_an_insertion),
        cmocka_unit_test(test_refuses_journals),
        cmocka_unit_test(test_readers_wait),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}

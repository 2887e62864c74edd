/* test_checkpoint_dir.c — checkpoint directories: complete or not, kept, found, bound together;
 * killed at 200 random moments. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"

#define N_KILLS 200
#define N_DATA  20000

static float data[N_DATA];

static qn_status put_file(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    return fwrite(bytes, 1, n_bytes, ctx) == n_bytes ? QN_OK
                                                     : qni_fail(err, QN_ERR_IO, -1, "write");
}

/* A whole save whose payloads say its step. */
static qn_status save(const char *folder, uint64_t step, bool with_optimizer)
{
    char path[256];
    const int64_t shape[1] = {N_DATA};
    for (int i = 0; i < N_DATA; i++) {
        data[i] = (float)step;
    }
    const qn_state_entry entry = {"w", 1, QN_SAFETENSORS_F32, 1, shape, data, sizeof data};
    const qn_trainer_state state = {.step = step, .seed = 1};
    QN_TRY(qn_checkpoint_begin_save(folder, NULL));
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    QN_TRY(qn_state_dict_save_path(&entry, 1, path, NULL));
    if (with_optimizer) {
        const qn_optimizer_slot slot = {.name = "w",
                                        .n_name = 1,
                                        .rows = 1,
                                        .cols = 2,
                                        .step = step,
                                        .buffers = {{QN_DTYPE_F32, data}, {QN_DTYPE_F32, data}}};
        const qn_optimizer o = {.kind = QN_OPTIMIZER_ADAMW, .slots = &slot, .n_slots = 1};
        (void)snprintf(path, sizeof path, "%s/optimizer.fucina", folder);
        FILE *file = fopen(path, "wb");
        if (!file || qn_optimizer_write(&o, put_file, file, NULL) != QN_OK || fclose(file) != 0) {
            return QN_ERR_IO;
        }
    }
    return qn_checkpoint_commit(folder, &state, true, NULL);
}

static void clean(const char *folder)
{
    char command[256];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void keeps_the_save_before(void **state)
{
    (void)state;
    char found[256];
    qn_checkpoint_report report;
    clean("ck");
    assert_int_equal(qn_checkpoint_find("ck", found, sizeof found, NULL),
                     QN_ERR_INVALID_TRAINER_STATE);
    assert_int_equal(save("ck/deep", 1, true), QN_OK);
    assert_int_equal(qn_checkpoint_find("ck/deep", found, sizeof found, NULL), QN_OK);
    assert_string_equal(found, "ck/deep");
    assert_int_equal(qn_checkpoint_verify(found, &report, NULL), QN_OK);
    assert_true(report.has_model && report.has_optimizer && !report.has_adapters &&
                report.has_digests);
    assert_int_equal(report.state.step, 1);
    assert_int_equal(qn_checkpoint_begin_save("ck/deep", NULL), QN_OK); /* and then it is killed */
    assert_int_equal(qn_checkpoint_verify("ck/deep", &report, NULL), QN_ERR_INVALID_TRAINER_STATE);
    assert_int_equal(qn_checkpoint_find("ck/deep", found, sizeof found, NULL), QN_OK);
    assert_string_equal(found, "ck/deep/prev");
    assert_int_equal(qn_checkpoint_verify(found, &report, NULL), QN_OK);
    assert_int_equal(report.state.step, 1);
    const qn_trainer_state t = {.step = 2};
    assert_int_equal(qn_checkpoint_commit("ck/deep", &t, true, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(save("ck/deep", 2, false), QN_OK);
    assert_int_equal(save("ck/deep", 3, false), QN_OK);
    assert_int_equal(qn_checkpoint_verify("ck/deep/prev", &report, NULL), QN_OK);
    assert_int_equal(report.state.step, 2);
    assert_false(report.has_optimizer); /* nothing of the first save is left in it */
    assert_int_equal(qn_checkpoint_find("ck/deep", found, 4, NULL), QN_ERR_INVALID_ARGUMENT);
    clean("ck");
}

static void sees_swapped_payloads(void **state)
{
    (void)state;
    qn_checkpoint_report report;
    qn_error err = QN_ERROR_INIT;
    clean("ck");
    assert_int_equal(save("ck", 1, true), QN_OK);
    assert_int_equal(save("ck", 2, true), QN_OK);
    /* the model of the save before, which parses */
    assert_int_equal(system("cp ck/prev/model.safetensors ck/model.safetensors"), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_ERR_FILE_CHANGED);
    assert_string_equal(err.path, "ck/model.safetensors");
    assert_int_equal(save("ck", 3, true), QN_OK);
    assert_int_equal(unlink("ck/optimizer.fucina"), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_ERR_FILE_CHANGED);
    assert_int_equal(save("ck", 4, false), QN_OK);
    assert_int_equal(system("cp ck/model.safetensors ck/adapters.safetensors"), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_ERR_FILE_CHANGED);
    /* without digests only what does not parse is seen */
    assert_int_equal(unlink("ck/adapters.safetensors"), 0);
    assert_int_equal(unlink("ck/quench_digests.json"), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_OK);
    assert_false(report.has_digests);
    assert_int_equal(truncate("ck/model.safetensors", 1000), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_ERR_METADATA_INCOMPLETE_BUFFER);
    assert_int_equal(unlink("ck/model.safetensors"), 0);
    assert_int_equal(qn_checkpoint_verify("ck", &report, &err), QN_ERR_INVALID_TRAINER_STATE);
    clean("ck");
}

/* How long to wait at most before a kill, in nanoseconds: some saves are then done, others not,
 * however slow the disk is today. */
static uint64_t longest_pause(void)
{
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(save("ck", 1, true), QN_OK);
    assert_int_equal(save("ck", 2, true), QN_OK);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    const int64_t n_ns =
        (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
    return n_ns < 15000000 ? 30000000 : n_ns < 400000000 ? 2 * (uint64_t)n_ns : 800000000;
}

static void survives_kills(void **state)
{
    (void)state;
    uint64_t random = 99;
    uint64_t last = 0;
    int n_prev = 0;
    clean("ck");
    const uint64_t n_pause = longest_pause();
    for (int i = 0; i < N_KILLS; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (uint64_t step = last + 1;; step++) {
                if (save("ck", step, step % 3 != 0) != QN_OK) {
                    _exit(1);
                }
            }
        }
        random = random * 6364136223846793005u + 1442695040888963407u;
        const struct timespec pause = {0, (long)((random >> 33) % n_pause)};
        (void)nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        char found[256];
        qn_checkpoint_report report;
        qn_error err = QN_ERROR_INIT;
        if (qn_checkpoint_find("ck", found, sizeof found, &err) != QN_OK ||
            qn_checkpoint_verify(found, &report, &err) != QN_OK) {
            fail_msg("kill %d: %s: %s", i, err.path, err.message);
        }
        assert_true(report.state.step >= last); /* never an older one than was complete */
        n_prev += strcmp(found, "ck") != 0;
        last = report.state.step;
    }
    print_message("%d kills, %d times the save before was found, %llu saves\n", N_KILLS, n_prev,
                  (unsigned long long)last);
    assert_true(n_prev > 0 && last > 2);
    clean("ck");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_save_before),
        cmocka_unit_test(sees_swapped_payloads),
        cmocka_unit_test(survives_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

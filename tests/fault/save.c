/* save.c DIR STEP — one checkpoint save through the public API, for the fault tests: a model and
 * adapters whose numbers are the step, and digests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "quench/checkpoint.h"

enum { N_VALUES = 5000 };

static float values[N_VALUES];

static qn_status save_payload(const char *folder, const char *name, qn_error *err)
{
    char path[4096];
    const int64_t shape[1] = {N_VALUES};
    const qn_state_entry entry = {"w", 1, QN_SAFETENSORS_F32, 1, shape, values, sizeof values};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return qn_state_dict_save_path(&entry, 1, path, err);
}

static qn_status save(const char *folder, uint64_t step, qn_error *err)
{
    const qn_trainer_state state = {.step = step, .seed = 1};
    qn_status st = qn_checkpoint_begin_save(folder, err);
    if (st == QN_OK) {
        st = save_payload(folder, QN_CHECKPOINT_MODEL, err);
    }
    if (st == QN_OK) {
        st = save_payload(folder, QN_CHECKPOINT_ADAPTERS, err);
    }
    return st == QN_OK ? qn_checkpoint_commit(folder, &state, true, err) : st;
}

int main(int argc, char **argv)
{
    qn_error err = QN_ERROR_INIT;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: fault_save DIR STEP\n");
        return 2;
    }
    const uint64_t step = strtoull(argv[2], NULL, 10);
    for (int i = 0; i < N_VALUES; i++) {
        values[i] = (float)step;
    }
    if (save(argv[1], step, &err) == QN_OK) {
        return 0;
    }
    (void)fprintf(stderr, "quench: %s: %s\n", err.path, err.message);
    return err.message[0] != '\0' ? 1 : 3;
}

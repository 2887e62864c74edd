/* fuzz_imatrix.c — arbitrary bytes as an importance matrix, in either form: refused with a message,
 * or every entry has a name and finite values, and filters leave what they should. */
#include <math.h>

#include "fuzz.h"

#include "quench/quench.h"

static void check_entries(const qn_imatrix *m)
{
    const char *name;
    const float *values;
    int64_t n_name, n_values;
    for (int64_t i = 0; qn_imatrix_entry(m, i, &name, &n_name, &values, &n_values); i++) {
        require(n_name > 0 && name[n_name] == '\0', "an entry has a name");
        require(n_values > 0, "an entry has values");
        for (int64_t k = 0; k < n_values; k++) {
            require(isfinite(values[k]), "values are finite");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_imatrix *m = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_imatrix_parse(bytes, n_bytes, NULL, &m, &err) != QN_OK) {
        require(m == NULL && err.message[0] != '\0', "a failure has a message and gives nothing");
        return 0;
    }
    require(qn_imatrix_n_entries(m) > 0, "a matrix has entries");
    check_entries(m);
    const char *const part[] = {"attn"};
    require(qn_imatrix_filter(m, part, 1, NULL, 0, NULL) == QN_OK, "a filter");
    check_entries(m);
    require(qn_imatrix_filter(m, NULL, 0, part, 1, NULL) == QN_OK, "the opposite filter");
    require(qn_imatrix_n_entries(m) == 0, "what contains it and does not is nothing");
    qn_imatrix_free(m);
    return 0;
}

/* edit_lint.c — what a loader would say of the edited file that it did not say of the input. */
#include "model/edit_internal.h"

/* Kinds that a header tells without the data, which are not there yet. */
static bool is_of_header(qn_gguf_warning_code code)
{
    return code == QN_GGUF_WARN_NO_ARCHITECTURE || code == QN_GGUF_WARN_KEY_LENGTH ||
           code == QN_GGUF_WARN_KEY_TEXT || code == QN_GGUF_WARN_STRING_LENGTH ||
           code == QN_GGUF_WARN_ALIGNMENT || code == QN_GGUF_WARN_NAME_TEXT ||
           code == QN_GGUF_WARN_METADATA_KIND || code == QN_GGUF_WARN_METADATA_VALUE ||
           code == QN_GGUF_WARN_VALUE_TEXT;
}

static bool has_warning(const qn_gguf_report *report, const qn_gguf_warning *wanted)
{
    for (int64_t i = 0; i < qn_gguf_report_n(report); i++) {
        const qn_gguf_warning *warning = qn_gguf_report_at(report, i);
        if (warning->code == wanted->code && strcmp(warning->message, wanted->message) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status compare(const qn_gguf *before, const qn_gguf *after,
                         const qn_edit_options *options, qn_error *err)
{
    qn_gguf_report *old_report = NULL;
    qn_gguf_report *new_report = NULL;
    qn_status st = qn_gguf_lint(before, false, &old_report, err);
    if (st == QN_OK) {
        st = qn_gguf_lint(after, false, &new_report, err);
    }
    for (int64_t i = 0; st == QN_OK && i < qn_gguf_report_n(new_report); i++) {
        const qn_gguf_warning *warning = qn_gguf_report_at(new_report, i);
        if (is_of_header(warning->code) && !has_warning(old_report, warning)) {
            char text[512];
            (void)snprintf(text, sizeof text, "by these edits: %s", warning->message);
            options->log(options->log_ctx, QN_LOG_WARNING, text);
        }
    }
    qn_gguf_report_free(old_report);
    qn_gguf_report_free(new_report);
    return st;
}

qn_status qni_edit_lint(const qn_gguf *before, const void *header, int64_t n_header,
                        const qn_edit_options *options, qn_error *err)
{
    if (options->log == NULL) {
        return QN_OK;
    }
    qn_gguf_options reading = QN_GGUF_OPTIONS_INIT;
    reading.allocator = options->allocator;
    reading.single_shard = true;
    reading.keep_damaged = true; /* the data are not there yet */
    qn_gguf *after;
    QN_TRY(qn_gguf_parse(header, n_header, &reading, &after, err));
    const qn_status st = compare(before, after, options, err);
    qn_gguf_close(after);
    return st;
}

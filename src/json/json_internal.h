/* json_internal.h — what the files of the reader share. */
#ifndef QNI_JSON_INTERNAL_H
#define QNI_JSON_INTERNAL_H

#include "json/json.h"

/* Offset in the file of a byte of the text. */
QNI_INLINE int64_t qni_json_offset_of(const qni_json *r, const char *at)
{
    return r->options.file_offset + (at - r->begin);
}

QNI_INLINE void qni_json_skip_space(qni_json *r)
{
    const char *p = r->pos;
    while (p < r->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    r->pos = p;
}

/* "expected <expected>, found <what stands at `at`>". */
qn_status qni_json_fail(const qni_json *r, const char *at, const char *expected,
                        qn_error *err) QNI_COLD;

/* The string that begins at r->pos, where a quote was seen. */
QN_NODISCARD qn_status qni_json_take_string(qni_json *r, qni_json_text *out_text, qn_error *err);

/* The number at r->pos, checked against the grammar; *out_end is the byte after it. r->pos stays.
 */
QN_NODISCARD qn_status qni_json_scan_number(const qni_json *r, const char **out_end,
                                            bool *out_is_whole, qn_error *err);

/* Forget the names of the object that closes. */
void qni_json_forget_keys(qni_json *r);

#endif

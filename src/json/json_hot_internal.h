/* json_hot_internal.h — the reader's common cases, inline: text without white space between tokens
 * and strings without escapes, as programs write it. Everything else goes to the _slow functions of
 * json_read.c, which know all of JSON; a fast path may only give up, never decide differently.
 * Opening a safetensors file of 20,000 tensors took twice as long without. Included by json.h. */
#ifndef QNI_JSON_HOT_INTERNAL_H
#define QNI_JSON_HOT_INTERNAL_H

#define QNI_JSON_ONES      UINT64_C(0x0101010101010101)
#define QNI_JSON_HIGH_BITS UINT64_C(0x8080808080808080)

QN_NODISCARD qn_status qni_json_enter_slow(qni_json *reader, bool is_object, bool is_checked,
                                           qn_error *err);
QN_NODISCARD qn_status qni_json_next_key_slow(qni_json *reader, qni_json_text *out_key,
                                              bool *out_has_key, qn_error *err);
QN_NODISCARD qn_status qni_json_next_item_slow(qni_json *reader, bool *out_has_item, qn_error *err);
QN_NODISCARD qn_status qni_json_string_slow(qni_json *reader, qni_json_text *out_text,
                                            qn_error *err);
QN_NODISCARD qn_status qni_json_u64_slow(qni_json *reader, uint64_t *out_value, qn_error *err);

/* Nonzero if one of the 8 bytes is a quote, a backslash or a control character; bytes above the
 * lowest such one may be marked without being one. */
QNI_INLINE uint64_t qni_json_special_bytes(uint64_t word)
{
    const uint64_t quote = word ^ (QNI_JSON_ONES * 0x22);
    const uint64_t backslash = word ^ (QNI_JSON_ONES * 0x5c);
    return ((word - QNI_JSON_ONES * 0x20) | (quote - QNI_JSON_ONES) | (backslash - QNI_JSON_ONES)) &
           ~word & QNI_JSON_HIGH_BITS;
}

/* The first byte from `p` on that is a quote, a backslash or a control character, or `end`. */
QNI_INLINE const char *qni_json_find_special(const char *p, const char *end)
{
    while (end - p >= 8) {
        const uint64_t marks = qni_json_special_bytes(qni_load_u64le(p));
        if (marks != 0) {
            return p + (__builtin_ctzll(marks) >> 3);
        }
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

/* The string whose opening quote is at `p`, if it has no escape; else NULL. Returns the byte after
 * its closing quote. */
QNI_INLINE const char *qni_json_plain_string(const qni_json *r, const char *p,
                                             qni_json_text *out_text)
{
    const char *quote = qni_json_find_special(p + 1, r->end);
    if (QNI_UNLIKELY(quote == r->end || *quote != '"')) {
        return NULL;
    }
    out_text->bytes = p + 1;
    out_text->n_bytes = quote - (p + 1);
    out_text->offset = r->options.file_offset + (p - r->begin);
    return quote + 1;
}

QNI_INLINE qn_status qni_json_string(qni_json *reader, qni_json_text *out_text, qn_error *err)
{
    const char *p = reader->pos;
    if (QNI_LIKELY(p < reader->end && *p == '"')) {
        const char *after = qni_json_plain_string(reader, p, out_text);
        if (QNI_LIKELY(after != NULL)) {
            reader->pos = after;
            return QN_OK;
        }
    }
    return qni_json_string_slow(reader, out_text, err);
}

QNI_INLINE qn_status qni_json_enter(qni_json *reader, bool is_object, bool is_checked,
                                    qn_error *err)
{
    if (QNI_UNLIKELY(reader->pos >= reader->end || *reader->pos != (is_object ? '{' : '[') ||
                     reader->depth >= QN_JSON_MAX_DEPTH)) {
        return qni_json_enter_slow(reader, is_object, is_checked, err);
    }
    qni_json_level *level = &reader->levels[reader->depth++];
    level->is_object = is_object;
    level->is_checked = is_checked;
    level->has_map = false;
    level->n_keys = 0;
    reader->is_first = true;
    reader->is_checked = is_checked || !is_object;
    reader->pos++;
    return QN_OK;
}

QNI_INLINE qn_status qni_json_enter_object(qni_json *reader, qni_json_unique unique, qn_error *err)
{
    return qni_json_enter(reader, true, unique == QNI_JSON_UNIQUE, err);
}

QNI_INLINE qn_status qni_json_enter_array(qni_json *reader, qn_error *err)
{
    return qni_json_enter(reader, false, false, err);
}

/* The innermost level ends at r->pos; nothing has to be forgotten. */
QNI_INLINE void qni_json_leave(qni_json *reader)
{
    reader->depth--;
    reader->is_first = false;
    if (reader->depth > 0) {
        const qni_json_level *outer = &reader->levels[reader->depth - 1];
        reader->is_checked = outer->is_checked || !outer->is_object;
    }
    reader->pos++;
}

QNI_INLINE qn_status qni_json_next_key(qni_json *reader, qni_json_text *out_key, bool *out_has_key,
                                       qn_error *err)
{
    const char *p = reader->pos;
    if (QNI_LIKELY(reader->end - p >= 2)) {
        const bool is_next = !reader->is_first && *p == ',';
        p += is_next;
        if (*p == '}' && !is_next && reader->levels[reader->depth - 1].n_keys == 0) {
            qni_json_leave(reader);
            *out_has_key = false;
            return QN_OK;
        }
        if (QNI_LIKELY(*p == '"' && (is_next || reader->is_first) && !reader->is_checked)) {
            const char *after = qni_json_plain_string(reader, p, out_key);
            if (QNI_LIKELY(after != NULL && after < reader->end && *after == ':')) {
                reader->is_first = false;
                reader->pos = after + 1;
                *out_has_key = true;
                return QN_OK;
            }
        }
    }
    return qni_json_next_key_slow(reader, out_key, out_has_key, err);
}

QNI_INLINE qn_status qni_json_next_item(qni_json *reader, bool *out_has_item, qn_error *err)
{
    const char *p = reader->pos;
    if (QNI_LIKELY(p < reader->end)) {
        if (*p == ',' && !reader->is_first) {
            reader->pos = p + 1;
            *out_has_item = true;
            return QN_OK;
        }
        const unsigned digit = (unsigned char)*p - (unsigned)'0';
        if (digit < 10 && reader->is_first) { /* the first item needs no separator */
            reader->is_first = false;
            *out_has_item = true;
            return QN_OK;
        }
        if (*p == ']') {
            qni_json_leave(reader);
            *out_has_item = false;
            return QN_OK;
        }
    }
    return qni_json_next_item_slow(reader, out_has_item, err);
}

/* How many of the 8 bytes, from the lowest up, are digits; their values are in *out_values. */
QNI_INLINE int qni_json_count_digits(uint64_t word, uint64_t *out_values)
{
    const uint64_t values = word ^ (QNI_JSON_ONES * 0x30); /* a digit is 0..9 now */
    const uint64_t others = ((values + QNI_JSON_ONES * 0x76) | values) & QNI_JSON_HIGH_BITS;
    *out_values = values;
    return others == 0 ? 8 : __builtin_ctzll(others) >> 3;
}

/* The number that the lowest n_digits (1..8) of 8 digit values make: adjacent ones are put together
 * to pairs, fours, all eight. */
QNI_INLINE uint64_t qni_json_join_digits(uint64_t values, int n_digits)
{
    uint64_t v = values << (64 - 8 * n_digits); /* as if zeros stood before them */
    v = v * 10 + (v >> 8);
    v = (v & UINT64_C(0x00FF00FF00FF00FF)) * (1 + (UINT64_C(100) << 16)) >> 16;
    v = (v & UINT64_C(0x0000FFFF0000FFFF)) * (1 + (UINT64_C(10000) << 32)) >> 32;
    return v;
}

QNI_INLINE qn_status qni_json_u64(qni_json *reader, uint64_t *out_value, qn_error *err)
{
    static const uint64_t powers[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    const char *p = reader->pos;
    if (QNI_LIKELY(reader->end - p >= 16)) { /* a header goes on after its last number */
        uint64_t digits = 0;
        int n = qni_json_count_digits(qni_load_u64le(p), &digits);
        if (QNI_LIKELY(n > 0 && (*p != '0' || n == 1))) {
            uint64_t value = qni_json_join_digits(digits, n);
            p += n;
            if (n == 8) {
                n = qni_json_count_digits(qni_load_u64le(p), &digits);
                value = n > 0 ? value * powers[n & 7] + qni_json_join_digits(digits, n) : value;
                p += n;
            }
            if (QNI_LIKELY(n < 8 && (*p == ',' || *p == ']'))) {
                *out_value = value;
                reader->pos = p;
                return QN_OK;
            }
        }
    }
    return qni_json_u64_slow(reader, out_value, err);
}

#endif

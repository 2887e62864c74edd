/* bytes.c — the byte cursor, and numbers and text without a locale. */
#include <errno.h>
#include <math.h>

#include "base/base.h"

qn_status qni_cursor_take(qni_cursor *cur, int64_t n_bytes, const uint8_t **out_bytes,
                          const char *what, qn_error *err)
{
    *out_bytes = NULL;
    if (n_bytes < 0 || n_bytes > qni_cursor_left(cur)) {
        (void)qni_fail(err, QN_ERR_END_OF_STREAM, cur->pos,
                       "%s of %" PRId64 " bytes runs past the end: %" PRId64 " bytes are left",
                       what, n_bytes, qni_cursor_left(cur));
        return QN_ERR_END_OF_STREAM;
    }
    *out_bytes = cur->bytes + cur->pos;
    cur->pos += n_bytes;
    return QN_OK;
}

qn_status qni_cursor_u32(qni_cursor *cur, uint32_t *out, const char *what, qn_error *err)
{
    *out = 0;
    const uint8_t *p = NULL;
    QN_TRY(qni_cursor_take(cur, 4, &p, what, err));
    const uint32_t v = qni_load_u32le(p);
    *out = cur->is_big_endian ? __builtin_bswap32(v) : v;
    return QN_OK;
}

qn_status qni_cursor_u64(qni_cursor *cur, uint64_t *out, const char *what, qn_error *err)
{
    *out = 0;
    const uint8_t *p = NULL;
    QN_TRY(qni_cursor_take(cur, 8, &p, what, err));
    const uint64_t v = qni_load_u64le(p);
    *out = cur->is_big_endian ? __builtin_bswap64(v) : v;
    return QN_OK;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool qni_equal_nocase(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

bool qni_parse_i64(const char *text, int64_t *out)
{
    *out = 0;
    const bool is_negative = text[0] == '-';
    const char *p = text + (text[0] == '-' || text[0] == '+');
    if (!*p) {
        return false;
    }
    int64_t value = 0;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || !qni_mul_i64(value, 10, &value) ||
            !qni_add_i64(value, is_negative ? '0' - *p : *p - '0', &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool qni_parse_f64(const char *text, double *out)
{
    *out = 0;
    /* The library never changes the locale, but its host may have: then "," could be the point,
     * and only texts of these characters are plain numbers. */
    if (!text[0] || strspn(text, "0123456789+-.eExXpPabcdfABCDF") != strlen(text)) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    if (*end || !isfinite(value) || (errno == ERANGE && fabs(value) > 1)) {
        return false;
    }
    *out = value;
    return true;
}

bool qni_parse_size(const char *text, int64_t *out_n_bytes)
{
    static const struct {
        const char *suffix;
        int shift;
    } units[] = {{"", 0},   {"K", 10},   {"KiB", 10}, {"M", 20},  {"MiB", 20},
                 {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    *out_n_bytes = 0;
    char digits[24];
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, n);
    digits[n] = '\0';
    int64_t value = 0;
    if (!qni_parse_i64(digits, &value)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (qni_equal_nocase(units[i].suffix, text + n)) {
            return qni_mul_i64(value, (int64_t)1 << units[i].shift, out_n_bytes);
        }
    }
    return false;
}

/* Length of the valid sequence at p, 0 if it is not valid. Ranges of the second byte exclude
 * overlong forms, surrogates and codes above U+10FFFF (Unicode 15, table 3-7). */
static size_t utf8_sequence(const uint8_t *p, size_t n)
{
    const uint8_t a = p[0];
    size_t len = 0;
    uint8_t lo = 0x80;
    uint8_t hi = 0xBF;
    if (a < 0x80) {
        return 1;
    } else if (a >= 0xC2 && a <= 0xDF) {
        len = 2;
    } else if (a >= 0xE0 && a <= 0xEF) {
        len = 3;
        lo = a == 0xE0 ? 0xA0 : 0x80;
        hi = a == 0xED ? 0x9F : 0xBF;
    } else if (a >= 0xF0 && a <= 0xF4) {
        len = 4;
        lo = a == 0xF0 ? 0x90 : 0x80;
        hi = a == 0xF4 ? 0x8F : 0xBF;
    }
    if (len == 0 || len > n || p[1] < lo || p[1] > hi) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return len;
}

bool qni_utf8_is_valid(const void *bytes, size_t n_bytes, size_t *out_bad_at)
{
    const uint8_t *p = bytes;
    size_t i = 0;
    while (i < n_bytes) {
        while (n_bytes - i >= 8 && (qni_load_u64le(p + i) & 0x8080808080808080u) == 0) {
            i += 8; /* ASCII, eight at a time */
        }
        if (i == n_bytes) {
            break;
        }
        const size_t len = utf8_sequence(p + i, n_bytes - i);
        if (len == 0) {
            if (out_bad_at) {
                *out_bad_at = i;
            }
            return false;
        }
        i += len;
    }
    return true;
}

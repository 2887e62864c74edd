/* text.c — strings that grow, escaping of untrusted bytes, numbers for people, wrapping. */
#include <stdarg.h>

#include "cli/cli.h"

static void die_of_memory(void)
{
    (void)fputs("quench: out of memory\n", stderr);
    exit(CLI_FAILED);
}

void *cli_alloc(size_t n, size_t n_elem_bytes)
{
    void *ptr = calloc(n > 0 ? n : 1, n_elem_bytes);

    if (ptr == NULL) {
        die_of_memory();
    }
    return ptr;
}

static void reserve(cli_text *text, size_t n_more)
{
    if (n_more > SIZE_MAX / 4 - text->n) {
        die_of_memory();
    }
    const size_t n_needed = text->n + n_more + 1;
    if (n_needed <= text->n_capacity) {
        return;
    }
    const size_t n_capacity = n_needed * 2;
    char *chars = realloc(text->chars, n_capacity);
    if (chars == NULL) {
        die_of_memory();
    }
    text->chars = chars;
    text->n_capacity = n_capacity;
}

void cli_text_add(cli_text *text, const char *chars, size_t n)
{
    reserve(text, n);
    if (n > 0) {
        memcpy(text->chars + text->n, chars, n);
    }
    text->n += n;
    text->chars[text->n] = '\0';
}

void cli_text_printf(cli_text *text, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    reserve(text, (size_t)n);
    va_start(args, fmt);
    (void)vsnprintf(text->chars + text->n, (size_t)n + 1, fmt, args);
    va_end(args);
    text->n += (size_t)n;
}

void cli_text_free(cli_text *text)
{
    free(text->chars);
    *text = (cli_text){NULL, 0, 0};
}

/* One character of well-formed UTF-8 (Unicode, table 3-7); 0 if there is none at `bytes`. */
static int decode_utf8(const unsigned char *bytes, int64_t n_left, uint32_t *out_code)
{
    const unsigned char b = bytes[0];
    const int n = b < 0x80                ? 1
                  : b >= 0xc2 && b < 0xe0 ? 2
                  : b >= 0xe0 && b < 0xf0 ? 3
                  : b >= 0xf0 && b < 0xf5 ? 4
                                          : 0;

    if (n == 0 || n > n_left) {
        return 0;
    }
    uint32_t code = n == 1 ? b : b & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    const bool is_overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
    if (is_overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        return 0;
    }
    *out_code = code;
    return n;
}

/* Characters that could move the cursor, reverse the line or hide: shown by number. */
static bool is_dangerous(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x206f) || (code >= 0xe000 && code <= 0xf8ff) ||
           code == 0xfeff || (code >= 0xfff0 && code <= 0xfffb) || code >= 0xe0000;
}

static void add_escaped(cli_text *text, const unsigned char *bytes, int n, uint32_t code)
{
    if (n == 0) {
        cli_text_printf(text, "\\x%02x", bytes[0]);
    } else if (code == '\n') {
        cli_text_add(text, "\\n", 2);
    } else if (code == '\t') {
        cli_text_add(text, "\\t", 2);
    } else if (code == '\r') {
        cli_text_add(text, "\\r", 2);
    } else if (code == '\\') {
        cli_text_add(text, "\\\\", 2);
    } else if (code < 0x80 && is_dangerous(code)) {
        cli_text_printf(text, "\\x%02x", (unsigned)code);
    } else if (is_dangerous(code)) {
        cli_text_printf(text, "\\u{%x}", (unsigned)code);
    } else {
        cli_text_add(text, (const char *)bytes, (size_t)n);
    }
}

void cli_text_escape(cli_text *text, const char *bytes, int64_t n_bytes, int64_t n_max)
{
    const unsigned char *p = (const unsigned char *)bytes;
    int64_t n_shown = 0;

    cli_text_add(text, "", 0);
    for (int64_t i = 0; i < n_bytes; n_shown++) {
        if (n_max > 0 && n_shown == n_max) {
            cli_text_add(text, "...", 3);
            return;
        }
        uint32_t code = 0;
        const int n = decode_utf8(p + i, n_bytes - i, &code);
        add_escaped(text, p + i, n, code);
        i += n == 0 ? 1 : n;
    }
}

const char *cli_grouped(int64_t value, char *buf)
{
    char digits[CLI_NUMBER_MAX];
    const int n = snprintf(digits, sizeof digits, "%" PRId64, value);
    const int n_sign = value < 0 ? 1 : 0;
    int n_out = 0;

    for (int i = 0; i < n; i++) {
        if (i > n_sign && (n - i) % 3 == 0) {
            buf[n_out++] = ',';
        }
        buf[n_out++] = digits[i];
    }
    buf[n_out] = '\0';
    return buf;
}

static const char *scaled(double value, double step, const char *const *units, int n_units,
                          char *buf)
{
    int unit = 0;

    while (unit + 1 < n_units && value >= step - 0.05) {
        value /= step;
        unit++;
    }
    (void)snprintf(buf, CLI_NUMBER_MAX, unit == 0 ? "%.0f%s%s" : "%.1f%s%s", value,
                   units[unit][0] == '\0' ? "" : " ", units[unit]);
    return buf;
}

const char *cli_bytes(int64_t n_bytes, char *buf)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

    return scaled((double)n_bytes, 1024.0, units, CLI_COUNT(units), buf);
}

const char *cli_count(int64_t n, char *buf)
{
    static const char *const units[] = {"", "K", "M", "B", "T"};

    return scaled((double)n, 1000.0, units, CLI_COUNT(units), buf);
}

/* One paragraph from `text` to `end`. */
static void wrap_paragraph(FILE *out, const char *text, const char *end, int indent, int width)
{
    int column = 0;

    while (text < end) {
        const char *space = memchr(text, ' ', (size_t)(end - text));
        const char *word_end = space == NULL ? end : space;
        const int n_word = (int)(word_end - text);
        if (column == 0) {
            (void)fprintf(out, "%*s", indent, "");
            column = indent;
        } else if (column + 1 + n_word > width) {
            (void)fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else {
            (void)fputc(' ', out);
            column++;
        }
        (void)fwrite(text, 1, (size_t)n_word, out);
        column += n_word;
        text = space == NULL ? end : space + 1;
    }
    (void)fputc('\n', out);
}

void cli_wrap(FILE *out, const char *text, int indent, int width)
{
    for (;;) {
        const char *end = strstr(text, "\n\n");
        wrap_paragraph(out, text, end == NULL ? text + strlen(text) : end, indent, width);
        if (end == NULL) {
            return;
        }
        (void)fputc('\n', out);
        text = end + 2;
    }
}

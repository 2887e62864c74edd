/* json_number.c — doubles as text: the shortest decimal that reads back as the same value. */
#include <math.h>

#include "json/json.h"

/* 17 significant digits name every double. */
#define MAX_DIGITS 17

/* Plain notation is kept from 1e-5 up to below 1e17; beyond, an exponent is easier to read. */
#define MIN_PLAIN_EXPONENT (-5)
#define MAX_PLAIN_EXPONENT 16

/* A decimal number d.ddd x 10^exponent. */
typedef struct decimal {
    char digits[MAX_DIGITS + 1]; /* without trailing zeros */
    int n_digits;
    int exponent;
} decimal;

/* Parts of "d.ddde+xx", whatever character the locale puts for the point. */
static decimal decimal_of_text(const char *text)
{
    decimal d = {.n_digits = 0, .exponent = 0};
    const char *p = text;
    for (; *p != 'e' && *p != '\0'; p++) {
        if (*p >= '0' && *p <= '9' && d.n_digits < MAX_DIGITS) {
            d.digits[d.n_digits++] = *p;
        }
    }
    while (d.n_digits > 1 && d.digits[d.n_digits - 1] == '0') {
        d.n_digits--;
    }
    d.digits[d.n_digits] = '\0';
    d.exponent = *p == 'e' ? (int)strtol(p + 1, NULL, 10) : 0;
    return d;
}

static decimal shortest_decimal(double magnitude)
{
    char text[40];
    for (int n = 1; n < MAX_DIGITS; n++) {
        (void)snprintf(text, sizeof text, "%.*e", n - 1, magnitude);
        if (strtod(text, NULL) == magnitude) {
            return decimal_of_text(text);
        }
    }
    (void)snprintf(text, sizeof text, "%.*e", MAX_DIGITS - 1, magnitude);
    return decimal_of_text(text);
}

static int put_exponent_form(const decimal *d, char *out, size_t n_out)
{
    const bool has_point = d->n_digits > 1;
    return snprintf(out, n_out, "%c%s%se%d", d->digits[0], has_point ? "." : "",
                    has_point ? d->digits + 1 : "", d->exponent);
}

static int put_plain_form(const decimal *d, char *out)
{
    char *p = out;
    if (d->exponent < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = d->exponent + 1; i < 0; i++) {
            *p++ = '0';
        }
    }
    for (int i = 0; i < d->n_digits; i++) {
        *p++ = d->digits[i];
        if (i == d->exponent && i + 1 < d->n_digits) {
            *p++ = '.';
        }
    }
    for (int i = d->n_digits; i <= d->exponent; i++) {
        *p++ = '0';
    }
    *p = '\0';
    return (int)(p - out);
}

int qni_json_format_f64(double value, bool allow_exponent, char out[QNI_JSON_F64_MAX])
{
    char *p = out;
    if (signbit(value)) {
        *p++ = '-';
    }
    const decimal d = shortest_decimal(fabs(value));
    const bool is_plain =
        !allow_exponent || (d.exponent >= MIN_PLAIN_EXPONENT && d.exponent <= MAX_PLAIN_EXPONENT);
    const size_t n_left = QNI_JSON_F64_MAX - (size_t)(p - out);
    return (int)(p - out) + (is_plain ? put_plain_form(&d, p) : put_exponent_form(&d, p, n_left));
}

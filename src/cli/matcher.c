/* matcher.c — --tensor-type patterns through PCRE2, set up to mean what ECMAScript means. */
#include "cli/matcher.h"

#ifdef CLI_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Steps before a pattern is given up: (a+)+$ reaches it within a millisecond, no pattern that
 * somebody means comes near. */
#define MATCH_LIMIT 1000000

typedef struct compiled {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    char *shown; /* the pattern, escaped */
} compiled;

static qn_status pattern_error(qn_error *err, const char *shown, int code, const char *where)
{
    PCRE2_UCHAR text[160];

    (void)pcre2_get_error_message(code, text, sizeof text);
    return cli_set_error(err, QN_ERR_INVALID_PATTERN, "pattern '%s': %s%s", shown,
                         (const char *)text, where);
}

static void release(void *ctx, void *pointer)
{
    compiled *pattern = pointer;

    (void)ctx;
    if (pattern == NULL) {
        return;
    }
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->context);
    free(pattern->shown);
    free(pattern);
}

/* [] is an empty class, \u and \x as in JavaScript, $ only at the very end, a reference to a group
 * that took no part matches nothing: all as ECMAScript says. */
static pcre2_code *compile_code(const char *pattern, int *out_code, size_t *out_offset)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);

    if (context == NULL) {
        *out_code = PCRE2_ERROR_NOMEMORY;
        return NULL;
    }
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY |
                          PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_UTF,
                      out_code, out_offset, context);
    pcre2_compile_context_free(context);
    return code;
}

static qn_status compile(void *ctx, const char *pattern, void **out_compiled, qn_error *err)
{
    compiled *made = cli_alloc(1, sizeof *made);
    cli_text shown = {NULL, 0, 0};
    int code = 0;
    size_t offset = 0;

    (void)ctx;
    *out_compiled = NULL;
    cli_text_escape(&shown, pattern, (int64_t)strlen(pattern), 100);
    made->shown = shown.chars;
    made->code = compile_code(pattern, &code, &offset);
    if (made->code == NULL) {
        char where[48];
        (void)snprintf(where, sizeof where, " at character %zu", offset);
        const qn_status status = pattern_error(err, made->shown, code, where);
        release(NULL, made);
        return status;
    }
    made->match = pcre2_match_data_create_from_pattern(made->code, NULL);
    made->context = pcre2_match_context_create(NULL);
    if (made->match == NULL || made->context == NULL) {
        release(NULL, made);
        return cli_set_error(err, QN_ERR_OUT_OF_MEMORY, "no memory for a pattern");
    }
    (void)pcre2_set_match_limit(made->context, MATCH_LIMIT);
    *out_compiled = made;
    return QN_OK;
}

static qn_status find(void *ctx, void *pointer, const char *name, int64_t n_name, bool *out_found,
                      qn_error *err)
{
    const compiled *pattern = pointer;

    (void)ctx;
    const int n_groups = pcre2_match(pattern->code, (PCRE2_SPTR)name, (size_t)n_name, 0, 0,
                                     pattern->match, pattern->context);
    *out_found = n_groups >= 0;
    if (n_groups >= 0 || n_groups == PCRE2_ERROR_NOMATCH) {
        return QN_OK;
    }
    return pattern_error(err, pattern->shown, n_groups,
                         " while it was searched for in a tensor's name; write it simpler");
}

const char *cli_matcher_version(void)
{
    static char version[64] = "PCRE2 ";

    (void)pcre2_config(PCRE2_CONFIG_VERSION, version + 6);
    return version;
}

#else

static qn_status compile(void *ctx, const char *pattern, void **out_compiled, qn_error *err)
{
    (void)ctx;
    (void)pattern;
    *out_compiled = NULL;
    return cli_set_error(err, QN_ERR_UNSUPPORTED,
                         "this build has no PCRE2 and so no patterns; build it with libpcre2-dev");
}

static qn_status find(void *ctx, void *pointer, const char *name, int64_t n_name, bool *out_found,
                      qn_error *err)
{
    (void)ctx;
    (void)pointer;
    (void)name;
    (void)n_name;
    (void)err;
    *out_found = false;
    return QN_ERR_UNSUPPORTED;
}

static void release(void *ctx, void *pointer)
{
    (void)ctx;
    (void)pointer;
}

const char *cli_matcher_version(void)
{
    return NULL;
}

#endif

const qn_matcher *cli_matcher(void)
{
    static const qn_matcher matcher = {NULL, compile, find, release};

    return &matcher;
}

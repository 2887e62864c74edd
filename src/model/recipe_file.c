/* recipe_file.c — recipes as text: `pattern = type` lines, printed from a plan and read again. */
#include "model/plan_internal.h"

/* More lines than any model has tensors. */
#define MAX_RULES 10000000

struct qn_recipe {
    const qn_allocator *allocator;
    qni_arena arena;
    qn_tensor_type_rule *rules;
    int32_t n_rules;
};

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct text_span {
    const char *at;
    size_t n;
} text_span;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static text_span trim(text_span span)
{
    while (span.n > 0 && is_blank(span.at[0])) {
        span.at++;
        span.n--;
    }
    while (span.n > 0 && is_blank(span.at[span.n - 1])) {
        span.n--;
    }
    return span;
}

/* Cut the next line off `rest`. */
static text_span next_line(text_span *rest)
{
    const char *end = memchr(rest->at, '\n', rest->n);
    const size_t n = end != NULL ? (size_t)(end - rest->at) : rest->n;
    const text_span line = {rest->at, n};
    const size_t n_taken = end != NULL ? n + 1 : n;
    rest->at += n_taken;
    rest->n -= n_taken;
    return line;
}

static qn_status parse_line(qn_recipe *recipe, text_span line, int64_t number, qn_error *err)
{
    size_t n_left = line.n;
    while (n_left > 0 && line.at[n_left - 1] != '=') {
        n_left--;
    }
    QN_CHECK(n_left > 0, err, QN_ERR_INVALID_RECIPE, -1,
             "line %" PRId64 " has no \"=\"; write: pattern = type", number);
    const text_span pattern = trim((text_span){line.at, n_left - 1});
    const text_span type = trim((text_span){line.at + n_left, line.n - n_left});
    qni_name_text text;
    QN_CHECK(pattern.n > 0, err, QN_ERR_INVALID_RECIPE, -1, "line %" PRId64 " has no pattern",
             number);
    QN_CHECK(memchr(pattern.at, '\0', pattern.n) == NULL, err, QN_ERR_INVALID_RECIPE, -1,
             "line %" PRId64 " holds a NUL byte", number);
    char name[16] = "";
    const size_t n_name = type.n < sizeof name ? type.n : 0;
    memcpy(name, type.at, n_name);
    const qn_dtype dtype = qn_dtype_from_name(name);
    QN_CHECK(n_name > 0 && dtype != QN_DTYPE_NONE && qn_dtype_is_valid(dtype), err,
             QN_ERR_INVALID_RECIPE, -1,
             "line %" PRId64 ": \"%s\" is no tensor type; give one such as q4_K or f16", number,
             qni_escape_name(type.at, (int64_t)type.n, &text));
    qn_tensor_type_rule *rule = &recipe->rules[recipe->n_rules];
    rule->pattern = qni_arena_copy(&recipe->arena, pattern.at, pattern.n);
    rule->dtype = dtype;
    if (rule->pattern == NULL) {
        return qni_fail_memory(err, pattern.n);
    }
    recipe->n_rules++;
    return QN_OK;
}

static qn_status parse_all(qn_recipe *recipe, text_span rest, qn_error *err)
{
    int64_t n_lines = 1;
    for (size_t i = 0; i < rest.n; i++) {
        n_lines += rest.at[i] == '\n';
    }
    QN_CHECK(n_lines <= MAX_RULES, err, QN_ERR_INVALID_RECIPE, -1,
             "%" PRId64 " lines are too many for a recipe", n_lines);
    recipe->rules = qni_arena_alloc(&recipe->arena, (size_t)n_lines * sizeof *recipe->rules);
    if (recipe->rules == NULL) {
        return qni_fail_memory(err, (size_t)n_lines * sizeof *recipe->rules);
    }
    for (int64_t number = 1; rest.n > 0; number++) {
        const text_span line = trim(next_line(&rest));
        if (line.n > 0 && line.at[0] != '#') {
            QN_TRY(parse_line(recipe, line, number, err));
        }
    }
    return QN_OK;
}

qn_status qn_recipe_parse(const void *text, size_t n_bytes, const qn_allocator *allocator,
                          qn_recipe **out_recipe, qn_error *err)
{
    *out_recipe = NULL;
    QN_CHECK(text != NULL || n_bytes == 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the recipe's text is missing");
    qn_recipe *recipe = qni_alloc_zeroed(allocator, sizeof *recipe);
    if (recipe == NULL) {
        return qni_fail_memory(err, sizeof *recipe);
    }
    recipe->allocator = allocator;
    recipe->arena.allocator = allocator;
    const qn_status st = parse_all(recipe, (text_span){n_bytes > 0 ? text : "", n_bytes}, err);
    if (st != QN_OK) {
        qn_recipe_free(recipe);
        return st;
    }
    *out_recipe = recipe;
    return QN_OK;
}

void qn_recipe_free(qn_recipe *recipe)
{
    if (recipe == NULL) {
        return;
    }
    qni_arena_free(&recipe->arena);
    qni_free(recipe->allocator, recipe, sizeof *recipe);
}

const qn_tensor_type_rule *qn_recipe_rules(const qn_recipe *recipe, int32_t *out_n_rules)
{
    *out_n_rules = recipe->n_rules;
    return recipe->rules;
}

/* --- printing --------------------------------------------------------------------------------- */

/* The name as a pattern that matches it alone: anchored, what a regular expression reads as special
 * escaped, bytes that are no printable ASCII as \xNN. */
static bool pattern_of(const qn_tensor_info *tensor, char *out, size_t n_out)
{
    size_t n = 0;
    out[n++] = '^';
    for (int64_t i = 0; i < tensor->n_name; i++) {
        const unsigned char c = (unsigned char)tensor->name[i];
        if (n + 8 > n_out) {
            return false;
        }
        if (c <= ' ' || c >= 0x7F || c == '=' || c == '#') {
            n += (size_t)snprintf(out + n, n_out - n, "\\x%02x", c);
        } else {
            if (strchr("\\^$.|?*+()[]{}", c) != NULL) {
                out[n++] = '\\';
            }
            out[n++] = (char)c;
        }
    }
    out[n++] = '$';
    out[n] = '\0';
    return true;
}

void qn_plan_print_recipe(const qn_plan *plan, bool (*put)(void *ctx, const char *line), void *ctx)
{
    if (!put(ctx, "# pattern = type; the first pattern that is found in a name counts\n")) {
        return;
    }
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qni_item *item = &plan->items[i];
        const qn_tensor_info *target = qni_plan_target(plan, item);
        char pattern[1024];
        char line[1100];
        if (target == NULL || !item->may_convert || !pattern_of(target, pattern, sizeof pattern)) {
            continue;
        }
        (void)snprintf(line, sizeof line, "%s = %s\n", pattern, qn_dtype_name(target->dtype));
        if (!put(ctx, line)) {
            return;
        }
    }
}

/* fuzz_recipe.c — arbitrary text as a recipe: refused with a message that names the line, or every
 * rule has a pattern and a type, and its lines written again give the same rules. */
#include "fuzz.h"

#include "quench/quench.h"

static void check_again(const qn_tensor_type_rule *rules, int32_t n_rules, size_t n_bytes)
{
    const size_t n_room = n_bytes + (size_t)n_rules * 16 + 1;
    char *text = malloc(n_room);
    require(text != NULL, "memory");
    size_t n = 0;
    for (int32_t i = 0; i < n_rules; i++) {
        n += (size_t)snprintf(text + n, n_room - n, "%s=%s\n", rules[i].pattern,
                              qn_dtype_name(rules[i].dtype));
    }
    qn_recipe *again;
    int32_t n_again;
    require(qn_recipe_parse(text, n, NULL, &again, NULL) == QN_OK, "it parses again");
    const qn_tensor_type_rule *rules_again = qn_recipe_rules(again, &n_again);
    require(n_again == n_rules, "as many rules");
    for (int32_t i = 0; i < n_rules; i++) {
        require(strcmp(rules[i].pattern, rules_again[i].pattern) == 0, "the same pattern");
        require(rules[i].dtype == rules_again[i].dtype, "the same type");
    }
    qn_recipe_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_recipe *recipe = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_recipe_parse(bytes, n_bytes, NULL, &recipe, &err) != QN_OK) {
        require(recipe == NULL && strstr(err.message, "line") != NULL, "a failure names its line");
        return 0;
    }
    int32_t n_rules;
    const qn_tensor_type_rule *rules = qn_recipe_rules(recipe, &n_rules);
    for (int32_t i = 0; i < n_rules; i++) {
        require(rules[i].pattern[0] != '\0' && qn_dtype_is_valid(rules[i].dtype), "a whole rule");
    }
    check_again(rules, n_rules, n_bytes);
    qn_recipe_free(recipe);
    return 0;
}

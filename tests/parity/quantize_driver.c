/* quantize_driver.c — the library's quantize API behind the arguments of oracle_quantize.py, so
 * that one script can drive both sides. A test tool: the command of users is `quench quantize`.
 *
 * usage: quantize_driver IN OUT PRESET [-t N] [-m BYTES] [--isa NAME] [--imatrix FILE]
 *            [--imatrix-path TEXT] [--include S] [--exclude S] [--pure] [--allow-requantize]
 *            [--leave-output] [--keep-split] [--dry-run] [--output-type T] [--embd-type T]
 *            [--tensor-type PATTERN=T] [--recipe FILE] [--print-recipe] [--prune 1,2]
 *            [--override KEY=TYPE:VALUE] [--allow-unmatched] [--no-fallback] [--metadata-from FILE]
 *            [--split-max-bytes N] [--split-max-tensors N] [--types] [--resume] [--check]
 * [--report]
 *            [--stats] [--no-sync] [--digest] [--keep-cache]
 * Patterns are POSIX extended regular expressions. Exit 0, or 1 with one line on stderr. */
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

#define MAX_LIST 256

typedef struct arguments {
    const char *in, *out, *preset;
    const char *imatrix, *recipe, *metadata_from;
    const char *include[MAX_LIST], *exclude[MAX_LIST];
    int32_t n_include, n_exclude;
    qn_tensor_type_rule types[MAX_LIST];
    qn_kv_override overrides[MAX_LIST];
    int32_t prune[MAX_LIST];
    bool print_recipe, print_types, report, stats, digest;
    qn_quantize_options plan;
    qn_run_options run;
} arguments;

static void die(const char *text)
{
    fprintf(stderr, "quantize_driver: %s\n", text);
    exit(2);
}

/* --- matcher -----------------------------------------------------------------------------------
 */

static qn_status regex_compile(void *ctx, const char *pattern, void **out_compiled, qn_error *err)
{
    (void)ctx;
    (void)err;
    regex_t *regex = malloc(sizeof *regex);
    if (regex == NULL || regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
        free(regex);
        return QN_ERR_INVALID_PATTERN;
    }
    *out_compiled = regex;
    return QN_OK;
}

static qn_status regex_find(void *ctx, void *compiled, const char *name, int64_t n_name,
                            bool *out_found, qn_error *err)
{
    (void)ctx;
    (void)n_name;
    (void)err;
    *out_found = regexec(compiled, name, 0, NULL, 0) == 0;
    return QN_OK;
}

static void regex_release(void *ctx, void *compiled)
{
    (void)ctx;
    regfree(compiled);
    free(compiled);
}

static const qn_matcher matcher = {NULL, regex_compile, regex_find, regex_release};

/* --- arguments ---------------------------------------------------------------------------------
 */

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL) {
        die("no memory");
    }
    return strcpy(copy, text);
}

static qn_tensor_type_rule rule_of(const char *text)
{
    char *pattern = copy_of(text);
    char *equals = strrchr(pattern, '=');
    if (equals == NULL) {
        die("a tensor type without =");
    }
    *equals = '\0';
    return (qn_tensor_type_rule){pattern, qn_dtype_from_name(equals + 1)};
}

static qn_kv_override override_of(const char *text)
{
    char *key = copy_of(text);
    char *type = strchr(key, '=');
    char *value = type != NULL ? strchr(type, ':') : NULL;
    if (value == NULL) {
        die("an override that is not KEY=TYPE:VALUE");
    }
    *type++ = '\0';
    *value++ = '\0';
    qn_kv_override o = {.key = key};
    if (strcmp(type, "int") == 0) {
        o.kind = QN_OVERRIDE_INT;
        o.int_value = strtoll(value, NULL, 10);
    } else if (strcmp(type, "float") == 0) {
        o.kind = QN_OVERRIDE_FLOAT;
        o.float_value = strtod(value, NULL);
    } else if (strcmp(type, "bool") == 0) {
        o.kind = QN_OVERRIDE_BOOL;
        o.bool_value = strcmp(value, "true") == 0;
    } else {
        o.kind = QN_OVERRIDE_STR;
        o.str_value = value;
    }
    return o;
}

static void read_prune(arguments *a, const char *text)
{
    char *list = copy_of(text);
    for (char *at = list; *at != '\0'; at += strspn(at, ",")) {
        a->prune[a->plan.n_prune_layers++] = (int32_t)strtol(at, &at, 10);
    }
    free(list);
}

typedef struct flag {
    const char *name;
    bool *at;
} flag;

static bool read_flag(arguments *a, const char *name)
{
    const flag flags[] = {
        {"--pure", &a->plan.is_pure},
        {"--allow-requantize", &a->plan.allow_requantize},
        {"--leave-output", &a->plan.leave_output_tensor},
        {"--keep-split", &a->plan.keep_split},
        {"--dry-run", &a->plan.is_dry_run},
        {"--allow-unmatched", &a->plan.allow_unmatched},
        {"--no-fallback", &a->plan.no_fallback},
        {"--print-recipe", &a->print_recipe},
        {"--types", &a->print_types},
        {"--resume", &a->run.do_resume},
        {"--check", &a->run.is_check_only},
        {"--report", &a->report},
        {"--stats", &a->stats},
        {"--no-sync", &a->run.no_sync},
        {"--keep-cache", &a->run.keep_page_cache},
        {"--digest", &a->digest},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].at = true;
            return true;
        }
    }
    return false;
}

static void read_option(arguments *a, const char *name, const char *value)
{
    if (value == NULL) {
        die("an option without its value, or an unknown one");
    }
    if (strcmp(name, "-t") == 0) {
        a->run.n_threads = (int32_t)strtol(value, NULL, 10);
    } else if (strcmp(name, "-m") == 0) {
        a->run.memory_bytes = strtoll(value, NULL, 10);
    } else if (strcmp(name, "--isa") == 0) {
        if (qn_isa_from_name(value, &a->run.isa, NULL) != QN_OK) {
            die("unknown instruction set");
        }
    } else if (strcmp(name, "--imatrix") == 0) {
        a->imatrix = value;
    } else if (strcmp(name, "--imatrix-path") == 0) {
        a->plan.imatrix_path = value;
    } else if (strcmp(name, "--include") == 0) {
        a->include[a->n_include++] = value;
    } else if (strcmp(name, "--exclude") == 0) {
        a->exclude[a->n_exclude++] = value;
    } else if (strcmp(name, "--output-type") == 0) {
        a->plan.output_tensor_type = qn_dtype_from_name(value);
    } else if (strcmp(name, "--embd-type") == 0) {
        a->plan.token_embedding_type = qn_dtype_from_name(value);
    } else if (strcmp(name, "--tensor-type") == 0) {
        a->types[a->plan.n_tensor_types++] = rule_of(value);
    } else if (strcmp(name, "--recipe") == 0) {
        a->recipe = value;
    } else if (strcmp(name, "--prune") == 0) {
        read_prune(a, value);
    } else if (strcmp(name, "--override") == 0) {
        a->overrides[a->plan.n_overrides++] = override_of(value);
    } else if (strcmp(name, "--metadata-from") == 0) {
        a->metadata_from = value;
    } else if (strcmp(name, "--split-max-bytes") == 0) {
        a->plan.split_max_bytes = strtoll(value, NULL, 10);
    } else if (strcmp(name, "--split-max-tensors") == 0) {
        a->plan.split_max_tensors = strtoll(value, NULL, 10);
    } else {
        die("unknown option");
    }
}

static void read_arguments(arguments *a, int argc, char **argv)
{
    a->plan = (qn_quantize_options)QN_QUANTIZE_OPTIONS_INIT;
    a->run = (qn_run_options)QN_RUN_OPTIONS_INIT;
    if (argc < 4) {
        die("usage: quantize_driver IN OUT PRESET [options]");
    }
    a->in = argv[1];
    a->out = argv[2];
    a->preset = argv[3];
    for (int i = 4; i < argc; i++) {
        if (!read_flag(a, argv[i])) {
            read_option(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        }
    }
    a->plan.tensor_types = a->types;
    a->plan.overrides = a->overrides;
    a->plan.prune_layers = a->prune;
    a->plan.matcher = &matcher;
    a->run.want_errors = a->report;
}

/* --- the job -----------------------------------------------------------------------------------
 */

static void say(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "warning: %s\n", message);
}

static bool put_line(void *ctx, const char *line)
{
    (void)ctx;
    return fputs(line, stdout) >= 0;
}

static qn_recipe *read_recipe(arguments *a, qn_error *err)
{
    static char text[1 << 22];
    FILE *file = fopen(a->recipe, "rb");
    if (file == NULL) {
        die("the recipe is missing");
    }
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    qn_recipe *recipe;
    if (qn_recipe_parse(text, n, NULL, &recipe, err) != QN_OK) {
        return NULL;
    }
    a->plan.recipe = qn_recipe_rules(recipe, &a->plan.n_recipe);
    return recipe;
}

static void print_types(const qn_plan *plan)
{
    qn_plan_item item;
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        printf("%s\t%s\t%s\t%s\t%" PRId64 "\n", item.target->name,
               qn_dtype_name(item.source->dtype), qn_dtype_name(item.target->dtype), item.rule,
               item.target->n_bytes);
    }
}

static void print_errors(const qn_plan *plan, const qn_run *run)
{
    qn_plan_item item;
    qn_item_errors e;
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        if (qn_run_item_errors(run, i, &e)) {
            printf("%s\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\n", item.target->name, e.rmse,
                   e.relative_error, e.weighted_error, e.max_error, e.cosine);
        }
    }
}

static void print_stats(const qn_run *run)
{
    qn_run_stats s;
    qn_run_stats_of(run, &s);
    printf("wall %.3f read %.3f compute %.3f write %.3f order %.3f sync %.3f cores %.2f threads %d "
           "chunks %" PRId64 " in %" PRId64 " out %" PRId64 "\n",
           s.wall_seconds, s.read_seconds, s.compute_seconds, s.write_seconds, s.order_seconds,
           s.sync_seconds, s.cores_busy, (int)s.n_threads, s.n_chunks, s.n_bytes_read,
           s.n_bytes_written);
}

/* FNV-1a over what the callback is given: compared with the file's by the script. */
static uint64_t digest = UINT64_C(0xcbf29ce484222325);
static void on_bytes(void *ctx, int32_t output, const void *bytes, size_t n_bytes)
{
    (void)ctx;
    (void)output;
    for (size_t i = 0; i < n_bytes; i++) {
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
}

static qn_status run_plan(arguments *a, const qn_plan *plan, qn_error *err)
{
    qn_run *run;
    if (a->digest) {
        a->run.on_output_bytes = on_bytes;
    }
    qn_status st = qn_run_begin(plan, a->out, &a->run, &run, err);
    if (st != QN_OK) {
        return st;
    }
    st = qn_run_range(run, 0, qn_plan_n_items(plan), err);
    if (st == QN_OK) {
        st = qn_run_commit(run, err);
    }
    if (st == QN_OK && a->report) {
        print_errors(plan, run);
    }
    if (st == QN_OK && a->stats) {
        print_stats(run);
    }
    if (st == QN_OK && a->digest) {
        printf("%016" PRIx64 "\n", digest);
    }
    qn_run_free(run);
    return st;
}

static qn_status quantize(arguments *a, qn_model *model, qn_error *err)
{
    const qn_preset *preset;
    qn_status st = qn_preset_from_name(a->preset, &preset, err);
    if (st != QN_OK) {
        return st;
    }
    a->plan.preset = preset->id;
    a->plan.log = say;
    qn_plan *plan = NULL;
    st = qn_plan_quantize(model, &a->plan, &plan, err);
    if (st != QN_OK) {
        return st;
    }
    if (a->print_recipe) {
        qn_plan_print_recipe(plan, put_line, NULL);
    }
    if (a->print_types) {
        print_types(plan);
    }
    if (!a->plan.is_dry_run) {
        st = run_plan(a, plan, err);
    }
    qn_plan_free(plan);
    return st;
}

static qn_status run(arguments *a, qn_error *err)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;
    options.metadata_from = a->metadata_from;
    qn_model *model;
    qn_imatrix *imatrix = NULL;
    qn_status st = qn_model_open(a->in, &options, &model, err);
    if (st == QN_OK && a->imatrix != NULL) {
        st = qn_imatrix_open(a->imatrix, NULL, &imatrix, err);
        if (st == QN_OK) {
            st =
                qn_imatrix_filter(imatrix, a->include, a->n_include, a->exclude, a->n_exclude, err);
        }
        a->plan.imatrix = imatrix;
    }
    qn_recipe *recipe = NULL;
    if (st == QN_OK && a->recipe != NULL) {
        recipe = read_recipe(a, err);
        st = recipe != NULL ? QN_OK : err->status;
    }
    if (st == QN_OK) {
        st = quantize(a, model, err);
    }
    qn_recipe_free(recipe);
    qn_imatrix_free(imatrix);
    qn_model_close(model);
    return st;
}

int main(int argc, char **argv)
{
    static arguments a;
    qn_error err = QN_ERROR_INIT;
    read_arguments(&a, argc, argv);
    if (run(&a, &err) != QN_OK) {
        fprintf(stderr, "%s: %s: %s\n", qn_status_name(err.status), err.path, err.message);
        return 1;
    }
    return 0;
}

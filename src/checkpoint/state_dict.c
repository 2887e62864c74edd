/* state_dict.c — named tensors as one safetensors frame. */
#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"

static bool is_bridged(qn_safetensors_dtype dtype)
{
    return dtype == QN_SAFETENSORS_F32 || dtype == QN_SAFETENSORS_F16 ||
           dtype == QN_SAFETENSORS_BF16 || dtype == QN_SAFETENSORS_I64;
}

static const char *entry_name(const qn_state_entry *entry, qni_name_text *out)
{
    return qni_escape_name(entry->name, entry->n_name, out);
}

/* --- saving ----------------------------------------------------------------------------------- */

static qn_status add_entry(qn_safetensors_writer *writer, const qn_state_entry *e, qn_error *err)
{
    qni_name_text name;
    QN_CHECK(e->n_name > 0 && !memchr(e->name, '\0', (size_t)e->n_name), err,
             QN_ERR_CHECKPOINT_INVALID_NAME, -1,
             "state entry \"%s\" has an empty name, or a NUL in it", entry_name(e, &name));
    QN_CHECK(is_bridged(e->dtype), err, QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE, -1,
             "state entry \"%s\" is %s; a state dict holds F32, F16, BF16 and I64",
             entry_name(e, &name), qn_safetensors_dtype_tag(e->dtype));
    const qn_status st = qn_safetensors_writer_add(writer, e->name, e->n_name, e->dtype, e->shape,
                                                   e->rank, e->data, e->n_bytes, err);
    switch (st) {
    case QN_OK:
    case QN_ERR_OUT_OF_MEMORY:
        return st;
    case QN_ERR_INVALID_TENSOR_NAME:
        return qni_fail(err, QN_ERR_CHECKPOINT_INVALID_NAME, -1,
                        "state entry \"%s\": the name is reserved or not UTF-8",
                        entry_name(e, &name));
    case QN_ERR_DUPLICATE_TENSOR_NAME:
        return qni_fail(err, QN_ERR_CHECKPOINT_DUPLICATE_NAME, -1,
                        "two state entries are named \"%s\"", entry_name(e, &name));
    default:
        return qni_fail(err, QN_ERR_CHECKPOINT_SHAPE_MISMATCH, -1,
                        "state entry \"%s\": %" PRId64 " bytes are not what its shape makes",
                        entry_name(e, &name), e->n_bytes);
    }
}

static qn_status writer_of(const qn_state_entry *entries, int64_t n_entries,
                           qn_safetensors_writer **out_writer, qn_error *err)
{
    qn_safetensors_writer *writer = NULL;
    *out_writer = NULL;
    QN_TRY(qn_safetensors_writer_new(NULL, &writer, err));
    for (int64_t i = 0; i < n_entries; i++) {
        const qn_status st = add_entry(writer, &entries[i], err);
        if (st != QN_OK) {
            qn_safetensors_writer_free(writer);
            return qni_fail_tensor(err, st, i);
        }
    }
    *out_writer = writer;
    return QN_OK;
}

qn_status qn_state_dict_save(const qn_state_entry *entries, int64_t n_entries, qn_write_fn write,
                             void *write_ctx, qn_error *err)
{
    qn_safetensors_writer *writer = NULL;
    QN_TRY(writer_of(entries, n_entries, &writer, err));
    const qn_status st = qn_safetensors_writer_serialize(writer, write, write_ctx, err);
    qn_safetensors_writer_free(writer);
    return st;
}

qn_status qn_state_dict_save_path(const qn_state_entry *entries, int64_t n_entries,
                                  const char *path, qn_error *err)
{
    qn_safetensors_writer *writer = NULL;
    QN_TRY(writer_of(entries, n_entries, &writer, err));
    const qn_status st = qn_safetensors_writer_save_atomic(writer, path, err);
    qn_safetensors_writer_free(writer);
    return st;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* A load: which stored tensor fills which destination (-1: none). */
typedef struct load_plan {
    const qn_state_entry *entries;
    int64_t n_entries;
    const qn_state_dict_options *options;
    qni_strmap destinations;
    int64_t *sources;
} load_plan;

static qn_status index_destinations(load_plan *plan, qn_error *err)
{
    for (int64_t i = 0; i < plan->n_entries; i++) {
        const qn_state_entry *e = &plan->entries[i];
        int64_t existing = -1;
        qni_name_text name;
        QN_TRY(qni_strmap_add(&plan->destinations, e->name, e->n_name, i, &existing, err));
        QN_CHECK(existing < 0, err, QN_ERR_CHECKPOINT_DUPLICATE_NAME, -1,
                 "two destinations are named \"%s\"", entry_name(e, &name));
        plan->sources[i] = -1;
    }
    return QN_OK;
}

static int64_t destination_of(const load_plan *plan, const qn_safetensors_tensor *t)
{
    for (int64_t i = 0; i < plan->options->n_aliases; i++) {
        const qn_state_alias *alias = &plan->options->aliases[i];
        if (strlen(alias->old_name) == (size_t)t->n_name &&
            memcmp(alias->old_name, t->name, (size_t)t->n_name) == 0) {
            return qni_strmap_find(&plan->destinations, alias->new_name,
                                   (int64_t)strlen(alias->new_name));
        }
    }
    return qni_strmap_find(&plan->destinations, t->name, t->n_name);
}

static qn_status check_pair(const qn_state_entry *e, const qn_safetensors_tensor *t, qn_error *err)
{
    qni_name_text name;
    QN_CHECK(is_bridged(t->dtype) && t->dtype == e->dtype, err, QN_ERR_CHECKPOINT_DTYPE_MISMATCH,
             -1, "state entry \"%s\" is stored as %s, its destination is %s", entry_name(e, &name),
             qn_safetensors_dtype_tag(t->dtype), qn_safetensors_dtype_tag(e->dtype));
    const bool is_same =
        t->rank == e->rank &&
        (t->rank == 0 || memcmp(t->shape, e->shape, (size_t)t->rank * sizeof *t->shape) == 0);
    QN_CHECK(is_same && t->n_bytes == e->n_bytes, err, QN_ERR_CHECKPOINT_SHAPE_MISMATCH, -1,
             "state entry \"%s\" is stored with another shape than its destination has (%" PRId64
             " bytes, %" PRId64 " there)",
             entry_name(e, &name), t->n_bytes, e->n_bytes);
    return QN_OK;
}

static qn_status match(load_plan *plan, const qn_safetensors *st, qn_error *err)
{
    qni_name_text name;
    for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
        qn_safetensors_tensor t;
        (void)qn_safetensors_tensor_at(st, i, &t);
        const int64_t to = destination_of(plan, &t);
        if (to < 0) {
            QN_CHECK(plan->options->is_lenient, err, QN_ERR_CHECKPOINT_UNKNOWN_NAME, -1,
                     "the stored state has \"%s\", for which there is no destination",
                     qni_escape_name(t.name, t.n_name, &name));
            continue;
        }
        QN_CHECK(plan->sources[to] < 0, err, QN_ERR_CHECKPOINT_DUPLICATE_NAME, -1,
                 "two stored tensors are meant for \"%s\"", entry_name(&plan->entries[to], &name));
        QN_TRY(check_pair(&plan->entries[to], &t, err));
        plan->sources[to] = i;
    }
    for (int64_t i = 0; i < plan->n_entries && !plan->options->is_lenient; i++) {
        QN_CHECK(plan->sources[i] >= 0, err, QN_ERR_CHECKPOINT_MISSING_ENTRY, -1,
                 "the stored state has no \"%s\"", entry_name(&plan->entries[i], &name));
    }
    return QN_OK;
}

/* Nothing can fail any more. */
static void copy_all(const load_plan *plan, const qn_safetensors *st)
{
    for (int64_t i = 0; i < plan->n_entries; i++) {
        qn_safetensors_tensor t;
        if (plan->sources[i] >= 0 && qn_safetensors_tensor_at(st, plan->sources[i], &t) &&
            t.n_bytes > 0) {
            memcpy(plan->entries[i].data, t.data, (size_t)t.n_bytes);
        }
    }
}

qn_status qn_state_dict_load(const qn_state_entry *entries, int64_t n_entries, qn_read_fn read,
                             void *read_ctx, const qn_state_dict_options *options, qn_error *err)
{
    static const qn_state_dict_options defaults = QN_STATE_DICT_OPTIONS_INIT;
    options = options ? options : &defaults;
    load_plan plan = {.entries = entries, .n_entries = n_entries, .options = options};
    qn_safetensors_options st_options = QN_SAFETENSORS_OPTIONS_INIT;
    qn_safetensors *frame = NULL;
    qn_status st = QN_OK;
    st_options.allocator = options->allocator;
    qni_strmap_init(&plan.destinations, options->allocator);
    plan.sources = qni_alloc_array(options->allocator, n_entries, sizeof *plan.sources);
    if (!plan.sources) {
        return qni_fail_memory(err, (size_t)n_entries * sizeof *plan.sources);
    }
    QN_TRY_GOTO(index_destinations(&plan, err));
    QN_TRY_GOTO(qn_safetensors_read_prefix(read, read_ctx, &st_options, &frame, err));
    QN_TRY_GOTO(match(&plan, frame, err));
    copy_all(&plan, frame);
done:
    qn_safetensors_close(frame);
    qni_strmap_free(&plan.destinations);
    qni_free(options->allocator, plan.sources, (size_t)n_entries * sizeof *plan.sources);
    return st;
}

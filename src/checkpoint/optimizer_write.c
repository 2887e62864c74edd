/* optimizer_write.c — a frame of the lowest version that can hold the state. */
#include "checkpoint/optimizer_internal.h"

const optimizer_row qni_optimizer_rows[QN_OPTIMIZER_SET + 1] = {
    [QN_OPTIMIZER_ADAM] = {"Adam", {"FZAD", "FZD4", "FZD5"}, 2, true},
    [QN_OPTIMIZER_ADAMW] = {"AdamW", {"FZA3", "FZA4", "FZA5"}, 2, true},
    [QN_OPTIMIZER_MUON] = {"Muon", {"FZM3", "FZM4", "FZM5"}, 1, false},
    [QN_OPTIMIZER_SGD] = {"SGD", {"FZS3", "FZS4", "FZS5"}, 1, true},
    [QN_OPTIMIZER_SET] = {"set", {"FZO3", NULL, NULL}, 0, false},
};

static bool is_kind(qn_optimizer_kind kind)
{
    return (int)kind >= 0 && kind <= QN_OPTIMIZER_SET;
}

const char *qn_optimizer_name(qn_optimizer_kind kind)
{
    return is_kind(kind) ? qni_optimizer_rows[kind].name : "?";
}

typedef struct sink {
    qn_write_fn write;
    void *ctx;
    qn_error *err;
} sink;

static qn_status put(const sink *s, const void *bytes, size_t n_bytes)
{
    return n_bytes > 0 ? s->write(s->ctx, bytes, n_bytes, s->err) : QN_OK;
}

static qn_status put_u32(const sink *s, uint32_t value)
{
    uint8_t bytes[4];
    qni_store_u32le(bytes, value);
    return put(s, bytes, sizeof bytes);
}

static qn_status put_u64(const sink *s, uint64_t value)
{
    uint8_t bytes[8];
    qni_store_u64le(bytes, value);
    return put(s, bytes, sizeof bytes);
}

/* --- checks ----------------------------------------------------------------------------------- */

static qn_status check_slot(const qn_optimizer *o, const qn_optimizer_slot *slot, qn_error *err)
{
    qni_name_text name;
    int64_t n_elems = 0;
    int64_t n_bytes = 0;
    QN_CHECK(slot->n_name > 0 && slot->n_name <= OPTIMIZER_MAX_NAME &&
                 qni_utf8_is_valid(slot->name, (size_t)slot->n_name, NULL),
             err, QN_ERR_CHECKPOINT_INVALID_NAME, -1,
             "parameter name \"%s\" is empty, too long or not UTF-8",
             qni_escape_name(slot->name, slot->n_name, &name));
    QN_CHECK(slot->rows >= 0 && slot->cols >= 0 && qni_mul_i64(slot->rows, slot->cols, &n_elems) &&
                 qni_mul_i64(n_elems, 4, &n_bytes),
             err, QN_ERR_CHECKPOINT_SHAPE_MISMATCH, -1,
             "parameter \"%s\" of %" PRId64 " x %" PRId64 " elements is impossible",
             qni_escape_name(slot->name, slot->n_name, &name), slot->rows, slot->cols);
    for (int i = 0; i < qni_optimizer_rows[o->kind].n_buffers; i++) {
        const qn_optimizer_buffer *b = &slot->buffers[i];
        QN_CHECK((b->dtype == QN_DTYPE_F32 || b->dtype == QN_DTYPE_BF16) &&
                     (b->data || n_elems == 0),
                 err, QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE, -1,
                 "state %d of parameter \"%s\" must be f32 or bf16 and be there", i,
                 qni_escape_name(slot->name, slot->n_name, &name));
    }
    return QN_OK;
}

static qn_status check_slots(const qn_optimizer *o, qni_strmap *names, qn_error *err)
{
    for (int64_t i = 0; i < o->n_slots; i++) {
        const qn_optimizer_slot *slot = &o->slots[i];
        int64_t existing = -1;
        qni_name_text name;
        QN_TRY(check_slot(o, slot, err));
        QN_TRY(qni_strmap_add(names, slot->name, slot->n_name, i, &existing, err));
        QN_CHECK(existing < 0, err, QN_ERR_CHECKPOINT_DUPLICATE_NAME, -1,
                 "two parameters are named \"%s\"",
                 qni_escape_name(slot->name, slot->n_name, &name));
    }
    return QN_OK;
}

/* One optimizer without what follows it. */
static qn_status check_one(const qn_optimizer *o, qn_error *err)
{
    QN_CHECK(is_kind(o->kind) && o->kind != QN_OPTIMIZER_SET, err, QN_ERR_INVALID_ARGUMENT, -1,
             "a set of optimizers cannot hold a set, or the kind is none");
    QN_CHECK(o->n_slots >= 0 && o->n_slots <= UINT32_MAX, err, QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES,
             -1, "an optimizer frame cannot hold %" PRId64 " parameters", o->n_slots);
    qni_strmap names;
    qni_strmap_init(&names, NULL);
    const qn_status st = check_slots(o, &names, err);
    qni_strmap_free(&names);
    return st;
}

static qn_status check_member(const qn_optimizer *o, qn_error *err)
{
    QN_TRY(check_one(o, err));
    if (o->kind != QN_OPTIMIZER_MUON) {
        return QN_OK;
    }
    QN_CHECK(o->second && o->second->kind == QN_OPTIMIZER_ADAMW, err, QN_ERR_INVALID_ARGUMENT, -1,
             "Muon needs the AdamW of the parameters that are no matrices");
    return check_one(o->second, err);
}

static qn_status check_all(const qn_optimizer *o, qn_error *err)
{
    if (o->kind != QN_OPTIMIZER_SET) {
        return check_member(o, err);
    }
    QN_CHECK(o->n_members >= 0 && o->n_members <= OPTIMIZER_MAX_MEMBERS, err,
             QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES, -1, "a set cannot hold %" PRId64 " optimizers",
             o->n_members);
    for (int64_t i = 0; i < o->n_members; i++) {
        QN_TRY(check_member(&o->second[i], err));
    }
    return QN_OK;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int lowest_version(const qn_optimizer *o)
{
    int version = 3;
    for (int64_t i = 0; i < o->n_slots; i++) {
        if (o->slots[i].master) {
            return 5;
        }
        for (int k = 0; k < qni_optimizer_rows[o->kind].n_buffers; k++) {
            version = o->slots[i].buffers[k].dtype == QN_DTYPE_BF16 ? 4 : version;
        }
    }
    return version;
}

static qn_status put_config(const sink *s, const qn_optimizer *o)
{
    uint8_t bytes[9];
    if (o->kind == QN_OPTIMIZER_SGD) {
        qni_store_f32le(bytes, o->momentum);
        qni_store_f32le(bytes + 4, o->dampening);
        bytes[8] = o->is_nesterov;
        return put(s, bytes, 9);
    }
    if (o->kind == QN_OPTIMIZER_MUON) {
        bytes[0] = o->scale_mode;
        bytes[1] = o->is_nesterov;
        qni_store_u32le(bytes + 2, o->n_ns_steps);
        return put(s, bytes, 6);
    }
    return QN_OK;
}

static qn_status put_buffers(const sink *s, const qn_optimizer *o, const qn_optimizer_slot *slot,
                             int version)
{
    const size_t n_elems = (size_t)(slot->rows * slot->cols);
    for (int i = 0; i < qni_optimizer_rows[o->kind].n_buffers; i++) {
        const bool is_bf16 = slot->buffers[i].dtype == QN_DTYPE_BF16;
        const uint8_t tag = is_bf16;
        QN_TRY(put(s, &tag, version > 3));
        QN_TRY(put(s, slot->buffers[i].data, n_elems * (is_bf16 ? 2 : 4)));
    }
    if (version == 5) {
        const uint8_t has_master = slot->master != NULL;
        QN_TRY(put(s, &has_master, 1));
        QN_TRY(put(s, slot->master, has_master ? n_elems * 4 : 0));
    }
    return QN_OK;
}

static qn_status put_slot(const sink *s, const qn_optimizer *o, const qn_optimizer_slot *slot,
                          int version)
{
    uint8_t n_name[2];
    qni_store_u16le(n_name, (uint16_t)slot->n_name);
    QN_TRY(put(s, n_name, sizeof n_name));
    QN_TRY(put(s, slot->name, (size_t)slot->n_name));
    QN_TRY(put_u64(s, (uint64_t)slot->rows));
    QN_TRY(put_u64(s, (uint64_t)slot->cols));
    if (qni_optimizer_rows[o->kind].has_step) {
        QN_TRY(put_u64(s, slot->step));
    }
    return put_buffers(s, o, slot, version);
}

static qn_status put_one(const sink *s, const qn_optimizer *o)
{
    const int version = lowest_version(o);
    QN_TRY(put(s, qni_optimizer_rows[o->kind].magics[version - 3], 4));
    QN_TRY(put_config(s, o));
    QN_TRY(put_u32(s, (uint32_t)o->n_slots));
    for (int64_t i = 0; i < o->n_slots; i++) {
        QN_TRY(put_slot(s, o, &o->slots[i], version));
    }
    return QN_OK;
}

static qn_status put_member(const sink *s, const qn_optimizer *o)
{
    QN_TRY(put_one(s, o));
    return o->kind == QN_OPTIMIZER_MUON ? put_one(s, o->second) : QN_OK;
}

qn_status qn_optimizer_write(const qn_optimizer *optimizer, qn_write_fn write, void *write_ctx,
                             qn_error *err)
{
    const sink s = {write, write_ctx, err};
    QN_TRY(check_all(optimizer, err));
    if (optimizer->kind != QN_OPTIMIZER_SET) {
        return put_member(&s, optimizer);
    }
    QN_TRY(put(&s, qni_optimizer_rows[QN_OPTIMIZER_SET].magics[0], 4));
    QN_TRY(put_u32(&s, (uint32_t)optimizer->n_members));
    for (int64_t i = 0; i < optimizer->n_members; i++) {
        QN_TRY(put_member(&s, &optimizer->second[i]));
    }
    return QN_OK;
}

/* optimizer_read.c — optimizer frames off a stream. Blocks grow as bytes arrive: neither a count
 * nor a size that a frame claims is ever allocated at once. */
#include "checkpoint/optimizer_internal.h"

/* The first piece of a buffer, whatever its size is said to be. */
#define FIRST_PIECE_BYTES ((size_t)64 * 1024)

typedef struct block {
    void *ptr;
    size_t n_bytes;
} block;

/* What is handed out is its first member. */
typedef struct frame {
    qn_optimizer root;
    const qn_allocator *allocator;
    qni_buffer blocks; /* of block: all memory of the frame but this */
} frame;

typedef struct stream {
    qn_read_fn read;
    void *ctx;
    int64_t offset;
    qn_error *err;
} stream;

void qn_optimizer_free(qn_optimizer *optimizer)
{
    frame *f = (frame *)(void *)optimizer;
    if (!f) {
        return;
    }
    const block *blocks = (const block *)(const void *)f->blocks.bytes;
    for (size_t i = 0; i < f->blocks.n_bytes / sizeof *blocks; i++) {
        qni_free(f->allocator, blocks[i].ptr, blocks[i].n_bytes);
    }
    qni_buffer_free(&f->blocks);
    qni_free(f->allocator, f, sizeof *f);
}

/* The frame frees it from now on, also if this fails. */
static qn_status keep(frame *f, void *ptr, size_t n_bytes, qn_error *err)
{
    const block b = {ptr, n_bytes};
    const qn_status st = qni_buffer_append(&f->blocks, &b, sizeof b, err);
    if (st != QN_OK) {
        qni_free(f->allocator, ptr, n_bytes);
    }
    return st;
}

static qn_status read_exactly(stream *s, void *out, size_t n_bytes)
{
    uint8_t *p = out;
    while (n_bytes > 0) {
        size_t n_read = 0;
        QN_TRY(s->read(s->ctx, p, n_bytes, &n_read, s->err));
        QN_CHECK(n_read <= n_bytes, s->err, QN_ERR_INVALID_ARGUMENT, s->offset,
                 "the stream gave more bytes than were asked for");
        QN_CHECK(n_read > 0, s->err, QN_ERR_END_OF_STREAM, s->offset,
                 "the stream ends inside an optimizer frame: at least %zu bytes are missing",
                 n_bytes);
        p += n_read;
        n_bytes -= n_read;
        s->offset += (int64_t)n_read;
    }
    return QN_OK;
}

static qn_status read_block(frame *f, stream *s, size_t n_bytes, const void **out_ptr)
{
    uint8_t *ptr = NULL;
    size_t n_have = 0;
    *out_ptr = NULL;
    do {
        const size_t n_double = n_have == 0 ? FIRST_PIECE_BYTES : n_have * 2;
        const size_t n_want = n_bytes < n_double ? n_bytes : n_double;
        uint8_t *grown = qni_realloc(f->allocator, ptr, n_have, n_want);
        const qn_status st = grown ? read_exactly(s, grown + n_have, n_want - n_have)
                                   : qni_fail_memory(s->err, n_want);
        if (st != QN_OK) {
            qni_free(f->allocator, grown ? grown : ptr, grown ? n_want : n_have);
            return st;
        }
        ptr = grown;
        n_have = n_want;
    } while (n_have < n_bytes);
    QN_TRY(keep(f, ptr, n_have, s->err));
    *out_ptr = ptr;
    return QN_OK;
}

static qn_status read_flag(stream *s, const char *what, uint8_t n_max, uint8_t *out)
{
    QN_TRY(read_exactly(s, out, 1));
    QN_CHECK(*out <= n_max, s->err, QN_ERR_CHECKPOINT_CONFIG_MISMATCH, s->offset - 1,
             "%s is %u, not one of 0 to %u", what, (unsigned)*out, (unsigned)n_max);
    return QN_OK;
}

static qn_status read_u64(stream *s, uint64_t *out)
{
    uint8_t bytes[8];
    QN_TRY(read_exactly(s, bytes, sizeof bytes));
    *out = qni_load_u64le(bytes);
    return QN_OK;
}

static qn_status read_u32(stream *s, uint32_t *out)
{
    uint8_t bytes[4];
    QN_TRY(read_exactly(s, bytes, sizeof bytes));
    *out = qni_load_u32le(bytes);
    return QN_OK;
}

/* --- slots ------------------------------------------------------------------------------------ */

static qn_status read_name(frame *f, stream *s, qn_optimizer_slot *slot)
{
    uint8_t length[2];
    const void *name = NULL;
    const int64_t at = s->offset;
    QN_TRY(read_exactly(s, length, sizeof length));
    slot->n_name = qni_load_u16le(length);
    QN_TRY(read_block(f, s, (size_t)slot->n_name, &name));
    slot->name = name;
    QN_CHECK(slot->n_name > 0 && qni_utf8_is_valid(name, (size_t)slot->n_name, NULL), s->err,
             QN_ERR_CHECKPOINT_INVALID_NAME, at, "a parameter's name is empty or not UTF-8");
    return QN_OK;
}

static qn_status read_dims(stream *s, qn_optimizer_slot *slot, int64_t *out_n_elems)
{
    uint64_t dims[2] = {0, 0};
    int64_t n_bytes = 0;
    qni_name_text name;
    const int64_t at = s->offset;
    QN_TRY(read_u64(s, &dims[0]));
    QN_TRY(read_u64(s, &dims[1]));
    slot->rows = dims[0] <= INT64_MAX ? (int64_t)dims[0] : -1;
    slot->cols = dims[1] <= INT64_MAX ? (int64_t)dims[1] : -1;
    QN_CHECK(slot->rows >= 0 && slot->cols >= 0 &&
                 qni_mul_i64(slot->rows, slot->cols, out_n_elems) &&
                 qni_mul_i64(*out_n_elems, 4, &n_bytes) && (uint64_t)n_bytes <= SIZE_MAX / 2,
             s->err, QN_ERR_CHECKPOINT_SHAPE_MISMATCH, at,
             "parameter \"%s\" of %" PRIu64 " x %" PRIu64 " elements is impossible",
             qni_escape_name(slot->name, slot->n_name, &name), dims[0], dims[1]);
    return QN_OK;
}

static qn_status read_buffers(frame *f, stream *s, const qn_optimizer *o, qn_optimizer_slot *slot,
                              int64_t n_elems)
{
    for (int i = 0; i < qni_optimizer_rows[o->kind].n_buffers; i++) {
        uint8_t tag = 0;
        if (o->version > 3) {
            QN_TRY(read_exactly(s, &tag, 1));
            QN_CHECK(tag <= 1, s->err, QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE, s->offset - 1,
                     "state type %u is not known (0 f32, 1 bf16)", (unsigned)tag);
        }
        slot->buffers[i].dtype = tag ? QN_DTYPE_BF16 : QN_DTYPE_F32;
        QN_TRY(read_block(f, s, (size_t)n_elems * (tag ? 2 : 4), &slot->buffers[i].data));
    }
    uint8_t has_master = 0;
    if (o->version == 5) {
        QN_TRY(read_flag(s, "the flag of master weights", 1, &has_master));
    }
    return has_master ? read_block(f, s, (size_t)n_elems * 4, &slot->master) : QN_OK;
}

static qn_status read_slot(frame *f, stream *s, const qn_optimizer *o, qn_optimizer_slot *slot)
{
    int64_t n_elems = 0;
    QN_TRY(read_name(f, s, slot));
    QN_TRY(read_dims(s, slot, &n_elems));
    if (qni_optimizer_rows[o->kind].has_step) {
        QN_TRY(read_u64(s, &slot->step));
    }
    return read_buffers(f, s, o, slot, n_elems);
}

static qn_status check_names(const qn_optimizer *o, const stream *s, const qn_allocator *allocator)
{
    qni_strmap names;
    qn_status st = QN_OK;
    qni_strmap_init(&names, allocator);
    for (int64_t i = 0; i < o->n_slots && st == QN_OK; i++) {
        int64_t existing = -1;
        qni_name_text name;
        st = qni_strmap_add(&names, o->slots[i].name, o->slots[i].n_name, i, &existing, s->err);
        if (st == QN_OK && existing >= 0) {
            st = qni_fail(s->err, QN_ERR_CHECKPOINT_DUPLICATE_NAME, -1,
                          "two parameters are named \"%s\"",
                          qni_escape_name(o->slots[i].name, o->slots[i].n_name, &name));
        }
    }
    qni_strmap_free(&names);
    return st;
}

/* The array of slots grows as they arrive; *slots is the frame's as soon as this returns. */
static qn_status read_slots(frame *f, stream *s, qn_optimizer *o)
{
    uint32_t count = 0;
    qni_buffer slots;
    qn_status st = read_u32(s, &count);
    qni_buffer_init(&slots, f->allocator, SIZE_MAX / 2);
    for (uint32_t i = 0; i < count && st == QN_OK; i++) {
        qn_optimizer_slot slot = {.n_name = 0};
        st = read_slot(f, s, o, &slot);
        if (st == QN_OK) {
            st = qni_buffer_append(&slots, &slot, sizeof slot, s->err);
        }
    }
    if (st != QN_OK || count == 0) {
        qni_buffer_free(&slots);
        return st;
    }
    QN_TRY(keep(f, slots.bytes, slots.n_capacity, s->err));
    o->slots = (const qn_optimizer_slot *)(const void *)slots.bytes;
    o->n_slots = count;
    return check_names(o, s, f->allocator);
}

/* --- frames ----------------------------------------------------------------------------------- */

static qn_status read_magic(stream *s, qn_optimizer *o)
{
    char magic[5] = "";
    const int64_t at = s->offset;
    qni_name_text text;
    QN_TRY(read_exactly(s, magic, 4));
    for (int kind = 0; kind <= QN_OPTIMIZER_SET; kind++) {
        for (int v = 0; v < 3; v++) {
            const char *known = qni_optimizer_rows[kind].magics[v];
            if (known && memcmp(known, magic, 4) == 0) {
                o->kind = (qn_optimizer_kind)kind;
                o->version = v + 3;
                return QN_OK;
            }
        }
    }
    const bool is_apollo = memcmp(magic, "FZP", 3) == 0;
    return qni_fail(s->err, QN_ERR_CHECKPOINT_MAGIC_MISMATCH, at,
                    is_apollo ? "\"%s\" is an APOLLO frame, which cannot be read: the sizes of its "
                                "buffers are not documented"
                              : "\"%s\" is no optimizer frame that is known here",
                    qni_escape_name(magic, 4, &text));
}

static qn_status read_config(stream *s, qn_optimizer *o)
{
    uint8_t flag = 0;
    uint8_t floats[8];
    if (o->kind == QN_OPTIMIZER_SGD) {
        QN_TRY(read_exactly(s, floats, sizeof floats));
        o->momentum = qni_load_f32le(floats);
        o->dampening = qni_load_f32le(floats + 4);
        QN_TRY(read_flag(s, "nesterov", 1, &flag));
        o->is_nesterov = flag != 0;
    } else if (o->kind == QN_OPTIMIZER_MUON) {
        QN_TRY(read_flag(s, "the scale mode", 1, &o->scale_mode));
        QN_TRY(read_flag(s, "nesterov", 1, &flag));
        o->is_nesterov = flag != 0;
        QN_TRY(read_u32(s, &o->n_ns_steps));
    }
    return QN_OK;
}

static qn_status read_one(frame *f, stream *s, qn_optimizer *o)
{
    QN_TRY(read_config(s, o));
    return read_slots(f, s, o);
}

/* An optimizer whose magic was read, with the AdamW that follows a Muon. */
static qn_status read_member(frame *f, stream *s, qn_optimizer *o)
{
    QN_TRY(read_one(f, s, o));
    if (o->kind != QN_OPTIMIZER_MUON) {
        return QN_OK;
    }
    qn_optimizer *second = qni_alloc_zeroed(f->allocator, sizeof *second);
    if (!second) {
        return qni_fail_memory(s->err, sizeof *second);
    }
    QN_TRY(keep(f, second, sizeof *second, s->err));
    o->second = second;
    const int64_t at = s->offset;
    QN_TRY(read_magic(s, second));
    QN_CHECK(second->kind == QN_OPTIMIZER_ADAMW, s->err, QN_ERR_CHECKPOINT_MAGIC_MISMATCH, at,
             "a Muon frame is followed by %s, not by AdamW", qn_optimizer_name(second->kind));
    return read_one(f, s, second);
}

static qn_status read_set(frame *f, stream *s)
{
    uint32_t count = 0;
    QN_TRY(read_u32(s, &count));
    QN_CHECK(count <= OPTIMIZER_MAX_MEMBERS, s->err, QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES,
             s->offset - 4, "a set of %u optimizers; at most %d are believed", (unsigned)count,
             OPTIMIZER_MAX_MEMBERS);
    const size_t n_bytes = count * sizeof(qn_optimizer);
    qn_optimizer *members = qni_alloc_zeroed(f->allocator, n_bytes);
    if (!members) {
        return qni_fail_memory(s->err, n_bytes);
    }
    QN_TRY(keep(f, members, n_bytes, s->err));
    f->root.second = members;
    f->root.n_members = count;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t at = s->offset;
        QN_TRY(read_magic(s, &members[i]));
        QN_CHECK(members[i].kind != QN_OPTIMIZER_SET, s->err, QN_ERR_CHECKPOINT_MAGIC_MISMATCH, at,
                 "a set of optimizers inside a set");
        QN_TRY(read_member(f, s, &members[i]));
    }
    return QN_OK;
}

qn_status qn_optimizer_read(qn_read_fn read, void *read_ctx, const qn_allocator *allocator,
                            qn_optimizer **out_optimizer, qn_error *err)
{
    *out_optimizer = NULL;
    frame *f = qni_alloc_zeroed(allocator, sizeof *f);
    if (!f) {
        return qni_fail_memory(err, sizeof *f);
    }
    f->allocator = allocator;
    qni_buffer_init(&f->blocks, allocator, SIZE_MAX / 2);
    stream s = {read, read_ctx, 0, err};
    qn_status st = read_magic(&s, &f->root);
    if (st == QN_OK) {
        st = f->root.kind == QN_OPTIMIZER_SET ? read_set(f, &s) : read_member(f, &s, &f->root);
    }
    if (st != QN_OK) {
        qn_optimizer_free(&f->root);
        return st;
    }
    *out_optimizer = &f->root;
    return QN_OK;
}

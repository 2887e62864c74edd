/* json_keys.c — no name twice in one object, however it is spelled.
 *
 * The names of all open objects stand in one stack; each object knows where its own begin. A few
 * are compared one by one; from the LINEAR_KEYS-th on an object gets a hash map. */
#include "json/json_internal.h"

#define LINEAR_KEYS 8

static qn_status fail_repeated(const qni_json *r, const qni_json_text *key, qn_error *err)
{
    qni_name_text name;
    return qni_fail(err, r->options.status_repeated, key->offset,
                    "the name \"%s\" stands in one JSON object twice; readers differ on which one "
                    "counts",
                    qni_escape_name(key->bytes, key->n_bytes, &name));
}

static qn_status add_to_map(qni_json *r, qni_json_level *level, const qni_json_text *key,
                            qn_error *err)
{
    int64_t existing = -1;
    QN_TRY(qni_strmap_add(&level->map, key->bytes, key->n_bytes, 0, &existing, err));
    return existing < 0 ? QN_OK : fail_repeated(r, key, err);
}

/* The names collected so far move into a map. */
static qn_status start_map(qni_json *r, qni_json_level *level, qn_error *err)
{
    qni_strmap_init(&level->map, r->options.allocator);
    level->has_map = true;
    const qni_json_text *keys = (const qni_json_text *)(const void *)r->keys.bytes;
    for (int32_t i = 0; i < level->n_keys; i++) {
        QN_TRY(add_to_map(r, level, &keys[level->first_key + i], err));
    }
    return QN_OK;
}

qn_status qni_json_watch_key(qni_json *reader, const qni_json_text *key, qn_error *err)
{
    qni_json_level *level = &reader->levels[reader->depth - 1];
    if (level->n_keys > LINEAR_KEYS) {
        return add_to_map(reader, level, key, err);
    }
    if (level->n_keys == LINEAR_KEYS) {
        QN_TRY(start_map(reader, level, err));
        level->n_keys++;
        return add_to_map(reader, level, key, err);
    }
    if (level->n_keys == 0) {
        level->first_key = (int64_t)(reader->keys.n_bytes / sizeof *key);
    }
    const qni_json_text *keys = (const qni_json_text *)(const void *)reader->keys.bytes;
    for (int32_t i = 0; i < level->n_keys; i++) {
        const qni_json_text *other = &keys[level->first_key + i];
        if (other->n_bytes == key->n_bytes &&
            memcmp(other->bytes, key->bytes, (size_t)key->n_bytes) == 0) {
            return fail_repeated(reader, key, err);
        }
    }
    level->n_keys++;
    return qni_buffer_append(&reader->keys, key, sizeof *key, err);
}

void qni_json_forget_keys(qni_json *r)
{
    qni_json_level *level = &r->levels[r->depth - 1];
    if (level->has_map) {
        qni_strmap_free(&level->map);
        level->has_map = false;
    }
    if (level->n_keys > 0) {
        r->keys.n_bytes = (size_t)level->first_key * sizeof(qni_json_text);
    }
    level->n_keys = 0;
}

/* presets.c — the table of presets and how they are named. */
#include "model/policy_internal.h"

static const qn_preset presets[] = {
#define QN_PRESET(id, name, alias, base, description) \
    {id, #name, alias, QN_DTYPE_##base, description},
#include "model/presets.def"
#undef QN_PRESET
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const qn_preset *qn_preset_at(int32_t index)
{
    return index >= 0 && index < N_PRESETS ? &presets[index] : NULL;
}

const qn_preset *qni_preset_of(int32_t id)
{
    for (int i = 0; i < N_PRESETS; i++) {
        if (presets[i].id == id) {
            return &presets[i];
        }
    }
    return NULL;
}

static const qn_preset *preset_named(const char *name)
{
    for (int i = 0; i < N_PRESETS; i++) {
        const qn_preset *preset = &presets[i];
        if (qni_equal_nocase(name, preset->name) ||
            (preset->alias != NULL && qni_equal_nocase(name, preset->alias))) {
            return preset;
        }
    }
    return NULL;
}

qn_status qn_preset_from_name(const char *name, const qn_preset **out_preset, qn_error *err)
{
    *out_preset = NULL;
    QN_CHECK(name != NULL, err, QN_ERR_INVALID_ARGUMENT, -1, "the preset name is missing");
    const qn_preset *preset = preset_named(name);
    int64_t id;
    if (preset == NULL && qni_parse_i64(name, &id) && id >= 0 && id <= INT32_MAX) {
        preset = qni_preset_of((int32_t)id);
    }
    qni_name_text text;
    QN_CHECK(preset != NULL, err, QN_ERR_UNKNOWN_PRESET, -1,
             "\"%s\" is no preset; give a name such as Q4_K_M or Q8_0, or its number",
             qni_escape_name(name, (int64_t)strlen(name), &text));
    *out_preset = preset;
    return QN_OK;
}

const char *qn_policy_reference(void)
{
    return "llama.cpp v0.4.0 (commit 5b4ebc5)";
}

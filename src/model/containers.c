/* containers.c — the formats a model can come in: one row each. */
#include "model/source_internal.h"

static const qni_container containers[] = {
    {"gguf", QN_CONTAINER_GGUF, QN_FILE_GGUF, qni_source_open_gguf},
    {"safetensors", QN_CONTAINER_SAFETENSORS, QN_FILE_SAFETENSORS, qni_source_open_safetensors},
    {"safetensors index", QN_CONTAINER_SAFETENSORS, QN_FILE_JSON, qni_source_open_safetensors},
};

const qni_container *qni_container_at(int index)
{
    const int n_containers = (int)(sizeof containers / sizeof containers[0]);
    return index >= 0 && index < n_containers ? &containers[index] : NULL;
}

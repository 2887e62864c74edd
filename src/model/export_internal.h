/* export_internal.h — the export policy as a pure decision, one tensor at a time. */
#ifndef QNI_EXPORT_INTERNAL_H
#define QNI_EXPORT_INTERNAL_H

#include "model/model.h"
#include "quench/export.h"

typedef enum qni_export_action {
    QNI_EXPORT_KEEP,
    QNI_EXPORT_CONVERT,
    QNI_EXPORT_PLANES,
    QNI_EXPORT_REFUSE /* the whole export fails on this tensor */
} qni_export_action;

/* What becomes of a tensor, and by which row of the policy. */
typedef struct qni_export_choice {
    qni_export_action action;
    qn_dtype dtype;   /* of the output: the source's when kept, tq2_0 for planes */
    const char *rule; /* short, static */
} qni_export_choice;

qni_export_choice qni_export_choose(const qn_export_options *options, const qn_tensor_info *tensor);

/* general.file_type of a model that is uniformly of this type; -1 if no preset stands for it. */
int32_t qni_uniform_file_type(qn_dtype dtype);

#endif

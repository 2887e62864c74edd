/* plan_read.c — the policy of commands that only look: every tensor is read, none is written. */
#include "model/recipe_internal.h"

static qn_status add_tensor(qn_plan *plan, const qn_model *model, const qn_tensor_info *tensor,
                            bool do_validate, qn_error *err)
{
    qni_item *item = NULL;
    QN_TRY(qni_plan_add_tensor(plan, tensor, err));
    QN_TRY(qni_plan_add_item(plan, do_validate ? &qni_recipe_copy : &qni_recipe_read, model, tensor,
                             1, &item, err));
    item->rule = "read";
    item->wanted = tensor->dtype;
    return QN_OK;
}

qn_status qn_plan_read(const qn_model *model, const int64_t *tensors, int64_t n_tensors,
                       bool do_validate, const qn_allocator *allocator, qn_plan **out_plan,
                       qn_error *err)
{
    *out_plan = NULL;
    QN_CHECK(n_tensors >= 0, err, QN_ERR_INVALID_ARGUMENT, -1, "%" PRId64 " tensors", n_tensors);
    const int64_t n = tensors != NULL ? n_tensors : qn_model_n_tensors(model);
    qn_plan *plan = NULL;
    QN_TRY(qni_plan_new(model, allocator, n, n, 0, &plan, err));
    qn_status st = QN_OK;
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = tensors != NULL ? tensors[i] : i;
        const qn_tensor_info *tensor = qn_model_tensor(model, index);
        QN_CHECK_GOTO(tensor != NULL, err, QN_ERR_INVALID_ARGUMENT, -1,
                      "the model has no tensor number %" PRId64, index);
        QN_TRY_GOTO(add_tensor(plan, model, tensor, do_validate, err));
    }
done:
    if (st != QN_OK) {
        qn_plan_free(plan);
        return st;
    }
    *out_plan = plan;
    return QN_OK;
}

/* dispatch.c — the table made of kernels.def, and the search in it. */
#include "kernels/kernels.h"

/* Instruction sets as small ascending numbers. */
enum {
#define QN_ISA_ROW(name, symbol) SLOT_##name,
#include "kernels/isas.def"
#undef QN_ISA_ROW
    N_SLOTS
};

static const qn_isa slot_isa[N_SLOTS] = {
#define QN_ISA_ROW(name, symbol) QN_ISA_##symbol,
#include "kernels/isas.def"
#undef QN_ISA_ROW
};

static const qni_kernel table[QNI_N_OPERATIONS][N_SLOTS][QN_DTYPE_LIMIT] = {
#define QN_KERNEL(operation, dtype, isa, symbol) \
    [QNI_OP_##operation][SLOT_##isa][QN_DTYPE_##dtype] = {.operation = symbol},
#include "kernels/kernels.def"
#undef QN_KERNEL
};

#define ISA_OF(isa) slot_isa_##isa
enum {
#define QN_ISA_ROW(name, symbol) slot_isa_##name = QN_ISA_##symbol,
#include "kernels/isas.def"
#undef QN_ISA_ROW
};

static const qni_kernel_row rows[] = {
#define QN_KERNEL(operation_, dtype_, isa_, symbol_)       \
    {QNI_OP_##operation_,  #operation_, QN_DTYPE_##dtype_, \
     (qn_isa)ISA_OF(isa_), #symbol_,    {.operation_ = symbol_}},
#include "kernels/kernels.def"
#undef QN_KERNEL
};

/* A level may be passed over on the way down: a CPU with AVX-512 need not have AVX-VNNI. */
static qni_kernel find(qni_operation operation, qn_dtype dtype, qn_isa limit)
{
    const qni_kernel none = {.any = NULL};
    if ((int)dtype < 0 || (int)dtype >= QN_DTYPE_LIMIT) {
        return none;
    }
    const qn_isa best = qn_isa_resolve(limit);
    for (int slot = N_SLOTS - 1; slot >= 0; slot--) {
        const qni_kernel kernel = table[operation][slot][dtype];
        if (!kernel.any || slot_isa[slot] > best) {
            continue;
        }
        if (slot == SLOT_scalar || qn_isa_is_available(slot_isa[slot])) {
            return kernel;
        }
    }
    return none;
}

#define QN_OPERATION(name, type)                       \
    type qni_kernel_##name(qn_dtype dtype, qn_isa isa) \
    {                                                  \
        return find(QNI_OP_##name, dtype, isa).name;   \
    }
#include "kernels/operations.def"
#undef QN_OPERATION

const qni_kernel_row *qni_kernel_row_at(int index)
{
    const int n_rows = (int)(sizeof rows / sizeof rows[0]);
    return index >= 0 && index < n_rows ? &rows[index] : NULL;
}

bool qni_kernel_is_chosen(const qni_kernel_row *row)
{
    return find(row->operation, row->dtype, QN_ISA_BEST).any == row->kernel.any;
}

/* level_lanes_internal.h — the levels of q4_0 and its kin stored lane by lane, for instruction sets
 * without a shorter way. See encode_legacy_internal.h. */
#ifndef QNI_LEVEL_LANES_INTERNAL_H
#define QNI_LEVEL_LANES_INTERNAL_H

#include "kernels/search_internal.h"

QNI_INLINE void put_nibbles(vi low, vi high, uint8_t *qs)
{
    const vi least = vi_set(0);
    const vi most = vi_set(15);
    const vi top = vi_min(vi_max(high, least), most);
    vi_store_u8(qs, vi_or(vi_min(vi_max(low, least), most), vi_shl(top, 4)));
}

QNI_INLINE void put_fifths(vi low, vi high, uint8_t *qh, uint8_t *qs)
{
    const vi least = vi_set(0);
    const vi most = vi_set(31);
    const vi nibble = vi_set(15);
    low = vi_min(vi_max(low, least), most);
    high = vi_min(vi_max(high, least), most);
    const uint32_t bits = vm_bits(vi_gt(low, nibble)) | vm_bits(vi_gt(high, nibble)) << 16;
    const vi top = vi_and(high, nibble);
    qni_store_u32le(qh, bits);
    vi_store_u8(qs, vi_or(vi_and(low, nibble), vi_shl(top, 4)));
}

#endif

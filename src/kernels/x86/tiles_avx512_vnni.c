/* tiles_avx512_vnni.c — products over tiles of 16 rows with AVX-512 VNNI. */
#include "kernels/x86/tile_avx512_vnni_internal.h"

#include "kernels/simd/tile_products_internal.h"

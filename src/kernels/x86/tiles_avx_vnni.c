/* tiles_avx_vnni.c — products over tiles of 16 rows with AVX-VNNI. */
#include "kernels/x86/tile_avx_vnni_internal.h"

#include "kernels/simd/tile_products_internal.h"

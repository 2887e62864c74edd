/* tiles_avx2.c — products over tiles of 16 rows with AVX2. */
#include "kernels/x86/tile_avx2_internal.h"

#include "kernels/simd/tile_products_internal.h"

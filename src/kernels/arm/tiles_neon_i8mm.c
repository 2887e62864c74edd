/* tiles_neon_i8mm.c — products over tiles of 16 rows with the NEON matrix instructions. */
#include "kernels/arm/tile_neon_i8mm_internal.h"

#include "kernels/simd/tile_products_internal.h"

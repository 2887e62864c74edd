/* tiles_neon_dotprod.c — products over tiles of 16 rows with the NEON dot product instructions. */
#include "kernels/arm/tile_neon_dotprod_internal.h"

#include "kernels/simd/tile_products_internal.h"

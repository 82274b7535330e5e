// NEON with 8-bit dot products (ARMv8.2 dotprod: Cortex-A75, Neoverse N1 and later).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels neon_kernels;
const Kernels neon_kernels = this_table();
}  // namespace kvant

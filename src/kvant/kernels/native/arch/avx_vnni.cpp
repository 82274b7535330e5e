// AVX2, FMA, F16C and AVX-VNNI (Alder Lake, Sierra Forest and later).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels avx_vnni_kernels;
const Kernels avx_vnni_kernels = this_table();
}  // namespace kvant

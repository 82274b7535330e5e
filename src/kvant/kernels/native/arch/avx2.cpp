// AVX2 with FMA (x86-64-v3).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels avx2_kernels;
const Kernels avx2_kernels = this_table();
}  // namespace kvant

// AVX-512 F, BW, VL, DQ and VNNI without VBMI (Cascade Lake, Cooper Lake).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels avx512_vnni_kernels;
const Kernels avx512_vnni_kernels = this_table();
}  // namespace kvant

// AVX-512 F, BW, VL, DQ, VNNI, VBMI (Ice Lake, Zen 4 and later).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels avx512_kernels;
const Kernels avx512_kernels = this_table();
}  // namespace kvant

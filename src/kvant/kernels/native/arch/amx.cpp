// AVX-512 as in avx512.cpp, and the 8-bit products on AMX tiles (Sapphire Rapids and later).
#include "../core/kernels.h"

namespace kvant {
extern const Kernels amx_kernels;
const Kernels amx_kernels = this_table();
}  // namespace kvant

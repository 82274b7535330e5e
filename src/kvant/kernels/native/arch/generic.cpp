// Whatever the compiler's baseline is: SSE2 on x86-64, NEON without dot products on aarch64.
#include "../core/kernels.h"

namespace kvant {
extern const Kernels generic_kernels;
const Kernels generic_kernels = this_table();
}  // namespace kvant

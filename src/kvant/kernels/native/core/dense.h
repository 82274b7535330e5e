// A calibrated transform of keys and queries (transforms/calibrated.py): rows times a matrix.
#pragma once

#include "values.h"

namespace kvant {
namespace {

// out[r] = x[r] M for rows of `dim` floats; each output is one chain over the inputs, whatever the rows.
inline void multiply_matrix(const float* matrix, int dim, const float* x, int count, float* out, int stride) {
  for (int r = 0; r < count; ++r) std::memset(out + r * stride, 0, sizeof(float) * static_cast<unsigned>(dim));
  weigh(matrix, dim, x, dim, count, 0, dim, out, stride);
}

}  // namespace
}  // namespace kvant

// The orthonormal mixing of transforms/hadamard.py on one vector, and the rotation made of it.
#pragma once

#include "layout.h"
#include "vec.h"

namespace kvant {
namespace {

// a + b in the lower lane of a pair `step` apart, a - b in the upper one.
template <int step>
KVANT_INLINE F16 butterfly(F16 x, U16 lane) {
  const U16 upper = (lane & splat_u32(step)) << (31 - __builtin_ctz(step));
  return swap_lanes<step>(x) + as_float(as_bits(x) ^ upper);
}

// In place; its own inverse. Operations in the order of the numpy reference.
inline void mix(const Mixing& mixing, float* x) {
  const int head_dim = mixing.head_dim, p = mixing.p, m = mixing.m;
  const U16 lane = lanes();
  for (int d = 0; d < head_dim; d += 16) {
    F16 v = load(x + d);
    v = butterfly<1>(v, lane);
    v = butterfly<2>(v, lane);
    v = butterfly<4>(v, lane);
    v = butterfly<8>(v, lane);
    store(x + d, v);
  }
  for (int step = 16; step < p; step *= 2) {
    for (int base = 0; base < head_dim; base += 2 * step) {
      for (int d = base; d < base + step; d += 16) {
        const F16 a = load(x + d), b = load(x + d + step);
        store(x + d, a + b);
        store(x + d + step, a - b);
      }
    }
  }
  const F16 norm = splat(mixing.norm);
  for (int d = 0; d < head_dim; d += 16) store(x + d, load(x + d) * norm);
  if (m == 1) return;
  alignas(64) float rows[kMaxHeadDim];
  std::memcpy(rows, x, sizeof(float) * static_cast<unsigned>(head_dim));
  for (int i = 0; i < m; ++i) {
    for (int d = 0; d < p; d += 16) {
      F16 sum = splat(0);
      for (int j = 0; j < m; ++j) sum = fma(splat(mixing.hartley[i * m + j]), load(rows + j * p + d), sum);
      store(x + i * p + d, sum);
    }
  }
}

inline void times(float* x, const float* factors, int n) {
  for (int d = 0; d < n; d += 16) store(x + d, load(x + d) * load(factors + d));
}

inline void rotate(const Mixing& mixing, float* x, const float* signs) {
  times(x, signs, mixing.head_dim);
  mix(mixing, x);
}

inline void unrotate(const Mixing& mixing, float* x, const float* signs) {
  mix(mixing, x);
  times(x, signs, mixing.head_dim);
}

}  // namespace
}  // namespace kvant

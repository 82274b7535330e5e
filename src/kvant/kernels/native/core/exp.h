// exp and tanh of sixteen floats: the polynomials of Cephes, relative error about 1e-7.
#pragma once

#include "vec.h"

namespace kvant {
namespace {

// 0 below the smallest normal number, exp(88) above 88; NaN stays NaN.
KVANT_INLINE F16 exp(F16 x) {
  const F16 lowest = splat(-87.33654f), highest = splat(88.0f), magic = splat(12582912.0f);
  const Mask vanishes = x < lowest;
  x = select(vanishes, lowest, select(highest < x, highest, x));
  const F16 shifted = fma(x, splat(1.44269504f), magic);  // the integer lies in the low bits
  const F16 n = shifted - magic;
  F16 r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  F16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + splat(1.0f);
  const F16 power = as_float((as_bits(shifted) << 23) + splat_u32(0x3F800000u));
  return select(vanishes, splat(0), p * power);
}

KVANT_INLINE float exp(float x) { return exp(splat(x)).part[0][0]; }

KVANT_INLINE F16 tanh(F16 x) {
  const U16 sign = as_bits(x) & splat_u32(0x80000000u);
  const F16 size = as_float(as_bits(x) ^ sign);
  const F16 large = splat(1.0f) - splat(2.0f) / (exp(size + size) + splat(1.0f));
  const F16 z = x * x;
  F16 p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const F16 small = fma(p * z, x, x);
  return select(size < splat(0.625f), small, as_float(as_bits(large) ^ sign));
}

}  // namespace
}  // namespace kvant

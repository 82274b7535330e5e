// 2^x and tanh of sixteen floats, relative error about 2e-7. Scores are kept in units of log2 so that
// softmax needs no other exponential.
#pragma once

#include "vec.h"

namespace kvant {
namespace {

constexpr float kLog2e = 1.44269504f;

// Never below 2^-126: smaller numbers are not normal, and slow. NaN stays NaN.
KVANT_INLINE F16 exp2(F16 x) {
  x = max(splat(-126.0f), x);
#if defined(__AVX512DQ__)
  F16 r, p = splat(1.867130496e-3f);
  r.part[0] = _mm512_reduce_ps(x.part[0], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  const F16 highest = splat(127.0f), magic = splat(12582912.0f);
  x = select(highest < x, highest, x);
  F16 shifted = x + magic;  // the integer lies in the low bits
  shifted = select(x < shifted - magic, shifted - splat(1.0f), shifted);
  const F16 r = x - (shifted - magic);
  F16 p = splat(1.867130496e-3f);
#endif
  p = fma(p, r, splat(9.017029415e-3f));  // 2^r for 0 <= r < 1, exactly 1 at 0
  p = fma(p, r, splat(5.579991376e-2f));
  p = fma(p, r, splat(2.401644500e-1f));
  p = fma(p, r, splat(6.931513118e-1f));
  p = fma(p, r, splat(1.0f));
#if defined(__AVX512DQ__)
  p.part[0] = _mm512_scalef_ps(p.part[0], x.part[0]);  // by the integer below x
  return p;
#else
  return p * as_float((as_bits(shifted) << 23) + splat_u32(0x3F800000u));
#endif
}

KVANT_INLINE float exp2(float x) { return exp2(splat(x)).part[0][0]; }

KVANT_INLINE F16 tanh(F16 x) {
  const U16 sign = as_bits(x) & splat_u32(0x80000000u);
  const F16 size = as_float(as_bits(x) ^ sign);
  const F16 large = splat(1.0f) - splat(2.0f) / (exp2(size * splat(2 * kLog2e)) + splat(1.0f));
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

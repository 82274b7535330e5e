// Per-token numbers of a tile: bfloat16, or a byte that stands for a power of 2^(1/8).
#pragma once

#include <cmath>

#include "convert.h"
#include "layout.h"
#include "vec.h"

namespace kvant {
namespace {

KVANT_INLINE F16 load_bf16(const std::uint8_t* meta) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(meta));
  F16 r;
  r.part[0] = (FloatV)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
  return r;
#else
  typedef std::uint16_t Half __attribute__((vector_size(kWidth / 2), aligned(1), may_alias));
  F16 r;
  KVANT_PARTS(i) {
    r.part[i] = (FloatV)(__builtin_convertvector(reinterpret_cast<const Half*>(meta)[i], UintV) << 16);
  }
  return r;
#endif
}

// 2^(e/8) by its exponent and one of eight fractions, as byte_scales has them rounded.
KVANT_INLINE F16 load_byte_scales(const Side& side, const std::uint8_t* meta) {
  typedef std::int8_t Quarter __attribute__((vector_size(kWidth / 4), aligned(1), may_alias));
  U16 e;
  KVANT_PARTS(i) {
    e.part[i] = (UintV)__builtin_convertvector(reinterpret_cast<const Quarter*>(meta)[i], IntV);
  }
  const F16 fraction = lookup(load(side.byte_scales), e & splat_u32(7));
  U16 power = e;
  KVANT_PARTS(i) power.part[i] = (UintV)(((IntV)e.part[i] >> 3) << 23);
  const F16 scale = as_float(as_bits(fraction) + power);
  return select(e == splat_u32(static_cast<std::uint32_t>(-128)), splat(0), scale);
}

// The scales of the 16 tokens.
KVANT_INLINE F16 load_scales(const Side& side, const std::uint8_t* meta) {
  return side.byte_scale ? load_byte_scales(side, meta) : load_bf16(meta);
}

// Stores a scale and returns what it is read back as.
inline float store_scale(const Side& side, std::uint8_t* meta, int token, float scale) {
  if (!side.byte_scale) {
    const std::uint16_t raw = to_bf16(scale);
    write_u16(meta + 2 * token, raw);
    return from_bf16(raw);
  }
  std::uint8_t raw = 0x80;  // zero
  if (!(scale < 0x1p-16f)) {
    const double e = __builtin_rint(8 * ::log2(static_cast<double>(scale)));
    raw = static_cast<std::uint8_t>(static_cast<int>(e > 127 ? 127 : e < -127 ? -127 : e));
  }
  meta[token] = raw;
  return side.byte_scales[raw];
}

// Sum of squares in the order of numpy's pairwise summation, so that scales are the same bits.
inline float sum_squares(const float* x, int n) {
  if (n > 128) {
    const int half = n / 2 - n / 2 % 8;
    return sum_squares(x, half) + sum_squares(x + half, n - half);
  }
  float r[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int j = 0; j < 8; ++j) r[j] += x[i + j] * x[i + j];
  }
  return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

}  // namespace
}  // namespace kvant

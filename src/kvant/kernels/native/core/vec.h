// Sixteen lanes of float or uint32, on whatever vector width this file is compiled for.
//
// Everything under core/ that computes lives in an anonymous namespace: each arch/*.cpp gets its own
// copy with internal linkage, so the linker can never put AVX-512 code where generic code is expected.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define KVANT_INLINE inline __attribute__((always_inline))
#define KVANT_LAMBDA_INLINE __attribute__((always_inline))

namespace kvant {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 64;
#elif defined(__AVX2__)
constexpr int kWidth = 32;
#else
constexpr int kWidth = 16;
#endif
constexpr int kParts = 64 / kWidth;

typedef float FloatV __attribute__((vector_size(kWidth)));
typedef std::uint32_t UintV __attribute__((vector_size(kWidth)));
typedef std::int32_t IntV __attribute__((vector_size(kWidth)));

struct F16 {
  FloatV part[kParts];
};
struct U16 {
  UintV part[kParts];
};
#if defined(__AVX512F__)
typedef __mmask16 MaskV;
#else
typedef IntV MaskV;  // -1 or 0 in each lane
#endif
struct Mask {
  MaskV part[kParts];
};

#define KVANT_PARTS(i) _Pragma("GCC unroll 4") for (int i = 0; i < kParts; ++i)

// Unaligned, part by part: copying whole structs would send them through memory.
typedef float FloatU __attribute__((vector_size(kWidth), aligned(1), may_alias));
typedef std::uint32_t UintU __attribute__((vector_size(kWidth), aligned(1), may_alias));

KVANT_INLINE F16 load(const float* from) {
  F16 r;
  KVANT_PARTS(i) r.part[i] = reinterpret_cast<const FloatU*>(from)[i];
  return r;
}
KVANT_INLINE void store(float* to, F16 x) { KVANT_PARTS(i) reinterpret_cast<FloatU*>(to)[i] = x.part[i]; }
KVANT_INLINE U16 load_u32(const void* from) {
  U16 r;
  KVANT_PARTS(i) r.part[i] = reinterpret_cast<const UintU*>(from)[i];
  return r;
}
KVANT_INLINE F16 splat(float x) {
  F16 r;
  KVANT_PARTS(i) r.part[i] = x - FloatV{};  // x - 0 is x, for -0 too
  return r;
}
KVANT_INLINE U16 splat_u32(std::uint32_t x) {
  U16 r;
  KVANT_PARTS(i) r.part[i] = x + UintV{};
  return r;
}

#define KVANT_BINARY(T, op)                            \
  KVANT_INLINE T operator op(T a, T b) {               \
    KVANT_PARTS(i) a.part[i] = a.part[i] op b.part[i]; \
    return a;                                          \
  }
KVANT_BINARY(F16, +)
KVANT_BINARY(F16, -)
KVANT_BINARY(F16, *)
KVANT_BINARY(F16, /)
KVANT_BINARY(U16, +)
KVANT_BINARY(U16, &)
KVANT_BINARY(U16, |)
KVANT_BINARY(U16, ^)
KVANT_BINARY(Mask, &)
KVANT_BINARY(Mask, |)
#undef KVANT_BINARY

KVANT_INLINE U16 operator>>(U16 a, int n) {
  KVANT_PARTS(i) a.part[i] = a.part[i] >> n;
  return a;
}
KVANT_INLINE U16 operator<<(U16 a, int n) {
  KVANT_PARTS(i) a.part[i] = a.part[i] << n;
  return a;
}
#if defined(__AVX512F__)
KVANT_INLINE Mask operator<(F16 a, F16 b) { return {{_mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_LT_OQ)}}; }
KVANT_INLINE Mask operator<(U16 a, U16 b) {
  return {{_mm512_cmplt_epu32_mask((__m512i)a.part[0], (__m512i)b.part[0])}};
}
KVANT_INLINE Mask operator==(U16 a, U16 b) {
  return {{_mm512_cmpeq_epu32_mask((__m512i)a.part[0], (__m512i)b.part[0])}};
}
KVANT_INLINE F16 select(Mask mask, F16 yes, F16 no) {
  no.part[0] = _mm512_mask_mov_ps(no.part[0], mask.part[0], yes.part[0]);
  return no;
}
#else
KVANT_INLINE Mask operator<(F16 a, F16 b) {
  Mask r;
  KVANT_PARTS(i) r.part[i] = (IntV)(a.part[i] < b.part[i]);
  return r;
}
KVANT_INLINE Mask operator<(U16 a, U16 b) {  // below 2^31
  Mask r;
  KVANT_PARTS(i) r.part[i] = (IntV)((IntV)a.part[i] < (IntV)b.part[i]);
  return r;
}
KVANT_INLINE Mask operator==(U16 a, U16 b) {
  Mask r;
  KVANT_PARTS(i) r.part[i] = (IntV)(a.part[i] == b.part[i]);
  return r;
}
KVANT_INLINE F16 select(Mask mask, F16 yes, F16 no) {
  KVANT_PARTS(i) yes.part[i] = mask.part[i] ? yes.part[i] : no.part[i];
  return yes;
}
#endif
// The second operand if either is NaN.
KVANT_INLINE F16 max(F16 a, F16 b) {
#if defined(__AVX512F__)
  b.part[0] = _mm512_max_ps(a.part[0], b.part[0]);
  return b;
#else
  return select(b < a, a, b);
#endif
}

KVANT_INLINE F16 as_float(U16 bits) {
  F16 r;
  KVANT_PARTS(i) r.part[i] = (FloatV)bits.part[i];
  return r;
}
KVANT_INLINE U16 as_bits(F16 x) {
  U16 r;
  KVANT_PARTS(i) r.part[i] = (UintV)x.part[i];
  return r;
}
// Exact for numbers below 2^24.
KVANT_INLINE F16 to_float(U16 x) {
  F16 r;
  KVANT_PARTS(i) r.part[i] = __builtin_convertvector((IntV)x.part[i], FloatV);
  return r;
}

// a * b + c: fused where the machine has it, so every row count and loop shape rounds alike.
KVANT_INLINE F16 fma(F16 a, F16 b, F16 c) {
#if defined(__AVX512F__)
  c.part[0] = _mm512_fmadd_ps(a.part[0], b.part[0], c.part[0]);
#elif defined(__FMA__)
  KVANT_PARTS(i) c.part[i] = _mm256_fmadd_ps(a.part[i], b.part[i], c.part[i]);
#elif defined(__aarch64__)
  KVANT_PARTS(i) c.part[i] = vfmaq_f32(c.part[i], a.part[i], b.part[i]);
#else
  KVANT_PARTS(i) c.part[i] = a.part[i] * b.part[i] + c.part[i];
#endif
  return c;
}

KVANT_INLINE U16 lanes() {
  alignas(64) static const std::uint32_t index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_u32(index);
}

// table[code] in each lane; codes below 16.
KVANT_INLINE F16 lookup(F16 table, U16 code) {
#if defined(__AVX512F__)
  F16 r;
  r.part[0] = __builtin_shuffle(table.part[0], code.part[0]);  // vpermps
  return r;
#elif defined(__AVX2__)
  F16 r;
  KVANT_PARTS(i) {
    const __m256i index = (__m256i)code.part[i];
    const __m256 low = _mm256_permutevar8x32_ps(table.part[0], index);
    const __m256 high = _mm256_permutevar8x32_ps(table.part[1], index);
    r.part[i] = _mm256_blendv_ps(low, high, (__m256)_mm256_slli_epi32(index, 28));
  }
  return r;
#elif defined(__aarch64__)
  uint8x16x4_t bytes;
  F16 r;
  KVANT_PARTS(i) bytes.val[i] = (uint8x16_t)table.part[i];
  KVANT_PARTS(i) r.part[i] = (FloatV)vqtbl4q_u8(bytes, (uint8x16_t)(code.part[i] * 0x04040404u + 0x03020100u));
  return r;
#else
  float values[16], out[16];
  std::uint32_t index[16];
  store(values, table);
  std::memcpy(index, &code, sizeof index);
  for (int i = 0; i < 16; ++i) out[i] = values[index[i]];
  return load(out);
#endif
}

// Lane i gets lane i ^ step.
template <int step>
KVANT_INLINE F16 swap_lanes(F16 x) {
  constexpr int per_part = kWidth / 4;
  F16 r;
  if constexpr (step >= per_part) {
    KVANT_PARTS(i) r.part[i] = x.part[i ^ (step / per_part)];
  } else {
    KVANT_PARTS(i) {
#if defined(__AVX512F__)
      const IntV to = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
      const IntV to = {0, 1, 2, 3, 4, 5, 6, 7};
#else
      const IntV to = {0, 1, 2, 3};
#endif
      r.part[i] = __builtin_shuffle(x.part[i], to ^ step);
    }
  }
  return r;
}

// Sum and maximum over the lanes, in one fixed order.
KVANT_INLINE float sum_lanes(F16 x) {
  x = x + swap_lanes<8>(x);
  x = x + swap_lanes<4>(x);
  x = x + swap_lanes<2>(x);
  x = x + swap_lanes<1>(x);
  return x.part[0][0];
}
KVANT_INLINE float max_lanes(F16 x) {
  x = max(x, swap_lanes<8>(x));
  x = max(x, swap_lanes<4>(x));
  x = max(x, swap_lanes<2>(x));
  x = max(x, swap_lanes<1>(x));
  return x.part[0][0];
}

}  // namespace
}  // namespace kvant

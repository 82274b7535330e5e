// Queries as integers in two terms of a byte, with one float scale a row.
#pragma once

#include "products.h"

namespace kvant {
namespace {

#if KVANT_INTEGER_PRODUCTS

KVANT_INLINE U16 nearest(F16 x) {
  U16 r;
  KVANT_PARTS(i) {
#if defined(__AVX512F__)
    r.part[i] = (UintV)_mm512_cvtps_epi32(x.part[i]);
#elif defined(__AVX2__)
    r.part[i] = (UintV)_mm256_cvtps_epi32(x.part[i]);
#else
    r.part[i] = (UintV)vcvtnq_s32_f32(x.part[i]);
#endif
  }
  return r;
}

// The low byte of each lane.
KVANT_INLINE void store_low_bytes(std::uint8_t* to, U16 x) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)x.part[0]));
#elif defined(__AVX2__)
  const __m256i mask = _mm256_set1_epi32(255);
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256((__m256i)x.part[0], mask),
                                            _mm256_and_si256((__m256i)x.part[1], mask));
  const __m256i bytes = _mm256_packus_epi16(words, words);  // 0-3 8-11 in each half: lanes 0,4 hold them
  const __m256i order = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(order));
#else
  const uint16x8_t low = vuzp1q_u16((uint16x8_t)x.part[0], (uint16x8_t)x.part[1]);
  const uint16x8_t high = vuzp1q_u16((uint16x8_t)x.part[2], (uint16x8_t)x.part[3]);
  vst1q_u8(to, vuzp1q_u8((uint8x16_t)low, (uint8x16_t)high));
#endif
}

// The largest of the bits as unsigned numbers: of non-negative floats the largest, or a NaN.
KVANT_INLINE U16 max_bits(U16 a, U16 b) {
  KVANT_PARTS(i) {
#if defined(__AVX512F__)
    a.part[i] = (UintV)_mm512_max_epu32((__m512i)a.part[i], (__m512i)b.part[i]);
#elif defined(__AVX2__)
    a.part[i] = (UintV)_mm256_max_epu32((__m256i)a.part[i], (__m256i)b.part[i]);
#else
    a.part[i] = vmaxq_u32(a.part[i], b.part[i]);
#endif
  }
  return a;
}
KVANT_INLINE float max_bits_of(U16 x) {
  x = max_bits(x, as_bits(swap_lanes<8>(as_float(x))));
  x = max_bits(x, as_bits(swap_lanes<4>(as_float(x))));
  x = max_bits(x, as_bits(swap_lanes<2>(as_float(x))));
  x = max_bits(x, as_bits(swap_lanes<1>(as_float(x))));
  return as_float(x).part[0][0];
}

// How a query is read by integer products: score = (kBase * high + low products) * scale.
struct QueryTerms {
  float scale;
  float sum;  // of its dims, for formats with a minimum
};

// Terms of `row` (dims beyond head_dim are 0), high then low, `stride` bytes apart. `starts` are the two
// numbers that its products begin with, because planes have an offset.
inline QueryTerms split_query(const float* q, int head_dim, std::uint8_t* terms, int stride, int key_offset,
                              std::int32_t* starts) {
  constexpr float most = kTermBits == 8 ? 127 * 256 : 63 * 128;
  constexpr int half = 1 << (kTermBits - 1);
  U16 peak = splat_u32(0);
  F16 sum = splat(0);
  for (int d = 0; d < head_dim; d += 16) {
    const F16 x = load(q + d);
    peak = max_bits(peak, as_bits(x) & splat_u32(0x7FFFFFFFu));
    sum = sum + x;
  }
  const float top = max_bits_of(peak);
  const float inverse = top < 1e-30f ? 0 : most / top;
  U16 highs = splat_u32(0), lows = splat_u32(0);
  for (int d = 0; d < stride; d += 16) {
    U16 high = splat_u32(0), low = high;
    if (d < head_dim) {
      const U16 x = nearest(load(q + d) * splat(inverse));
      KVANT_PARTS(i) {
        high.part[i] = (UintV)((IntV)(x.part[i] + half) >> kTermBits);
        low.part[i] = x.part[i] - (high.part[i] << kTermBits);
      }
      highs = highs + high;
      lows = lows + low;
    }
    store_low_bytes(terms + d, high + splat_u32(kRowOffset));
    store_low_bytes(terms + stride + d, low + splat_u32(kRowOffset));
  }
  std::int32_t high = 0, low = 0;
  alignas(64) std::int32_t lane[2][16];
  std::memcpy(lane[0], &highs, 64);
  std::memcpy(lane[1], &lows, 64);
  for (int i = 0; i < 16; ++i) {
    high += lane[0][i];
    low += lane[1][i];
  }
  starts[0] = -key_offset * high;
  starts[1] = -key_offset * low;
  return {top / most, sum_lanes(sum)};
}

#endif

}  // namespace
}  // namespace kvant

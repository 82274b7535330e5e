// Queries and weights as integers in two terms of a byte, with one float scale a row.
#pragma once

#include "products.h"
#include "softmax.h"

namespace kvant {
namespace {

#if KVANT_INTEGER_PRODUCTS

KVANT_INLINE U16 nearest(F16 x) {
  U16 r;
  KVANT_PARTS(i) {
#if defined(__AVX512F__)
    r.part[i] = (UintV)_mm512_cvtps_epi32(x.part[i]);
#else
    r.part[i] = (UintV)_mm256_cvtps_epi32(x.part[i]);
#endif
  }
  return r;
}

// The low byte of each lane.
KVANT_INLINE void store_low_bytes(std::uint8_t* to, U16 x) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)x.part[0]));
#else
  const __m256i mask = _mm256_set1_epi32(255);
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256((__m256i)x.part[0], mask),
                                            _mm256_and_si256((__m256i)x.part[1], mask));
  const __m256i bytes = _mm256_packus_epi16(words, words);  // 0-3 8-11 in each half: lanes 0,4 hold them
  const __m256i order = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(order));
#endif
}

// The largest of the bits as unsigned numbers: of non-negative floats the largest, or a NaN.
KVANT_INLINE U16 max_bits(U16 a, U16 b) {
  KVANT_PARTS(i) {
#if defined(__AVX512F__)
    a.part[i] = (UintV)_mm512_max_epu32((__m512i)a.part[i], (__m512i)b.part[i]);
#else
    a.part[i] = (UintV)_mm256_max_epu32((__m256i)a.part[i], (__m256i)b.part[i]);
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
  float sum;                  // of its dims, for formats with a minimum
  std::int32_t high, low;     // what its products have too much because planes are unsigned
};

// Terms of `row` (dims beyond head_dim are 0), high then low, `stride` bytes apart.
inline QueryTerms split_query(const float* q, int head_dim, std::uint8_t* terms, int stride) {
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
  return {top / most, sum_lanes(sum), kKeyOffset * high, kKeyOffset * low};
}

// e^x for x <= 0 and NaN; 0 well below the smallest number.
KVANT_INLINE F16 exp_down(F16 x) {
#if defined(__AVX512F__)
  x.part[0] = _mm512_max_ps(_mm512_set1_ps(-120.0f), x.part[0]);  // the second operand if either is NaN
  const __m512 t = _mm512_mul_ps(x.part[0], _mm512_set1_ps(1.44269504f));
  const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  F16 r;
  r.part[0] = _mm512_fmsub_ps(x.part[0], _mm512_set1_ps(1.44269504f), n);
  F16 p = splat(1.339887440e-3f);
  p = fma(p, r, splat(9.618437357e-3f));
  p = fma(p, r, splat(5.550332548e-2f));
  p = fma(p, r, splat(2.402264791e-1f));
  p = fma(p, r, splat(6.931472028e-1f));
  p = fma(p, r, splat(1.0f));
  p.part[0] = _mm512_scalef_ps(p.part[0], n);
  return p;
#else
  return exp(x);
#endif
}

// What softmax reads of one stretch besides products: numbers of its tokens.
struct Numbers {
  alignas(64) float key_scale[kStretch], key_minimum[kStretch];
  alignas(64) float value_scale[kStretch], value_minimum[kStretch];
  alignas(64) std::int32_t excess[kStretch];  // what all products have too much because rows are unsigned
};

// Scores of a row from its products.
template <bool minimum>
KVANT_INLINE void scores_of(const QueryTerms& query, const std::int32_t* high, const std::int32_t* low,
                            const Numbers& numbers, int first, int last, float* scores) {
  const F16 scale = splat(query.scale), sum = splat(query.sum);
  const U16 much = splat_u32(static_cast<std::uint32_t>(-query.high));
  const U16 many = splat_u32(static_cast<std::uint32_t>(-query.low));
  for (int t = first; t < last; t += 16) {
    U16 first_term = load_u32(high + t) + much, second = load_u32(low + t) + many;
    if (kRowOffset) {
      const U16 excess = load_u32(numbers.excess + t);
      KVANT_PARTS(i) {
        first_term.part[i] -= excess.part[i];
        second.part[i] -= excess.part[i];
      }
    }
    const F16 x = fma(to_float(first_term), splat(kBase), to_float(second));
    const F16 factor = load(numbers.key_scale + t) * scale;
    store(scores + t, minimum ? fma(x, factor, load(numbers.key_minimum + t) * sum) : x * factor);
  }
}

// Like softmax_stretch, and the weights times the values' scales become two terms of bytes over
// [0, kStretch). Returns what a unit of the products is worth. `state` gains the minimum's part.
template <bool minimum>
inline float softmax_terms(float* scores, int from, int to, float softcap, const Numbers& numbers, float* state,
                           int head_dim, std::uint8_t* terms) {
  constexpr float most = kTermBits == 8 ? 65535 : 16383;
  const bool whole = from == 0 && to == kStretch;
  const int first = from / 16 * 16, last = (to + 15) / 16 * 16;
  F16 peak = splat(kNothing);
  for (int t = first; t < last; t += 16) {
    F16 x = load(scores + t);
    if (softcap > 0) x = splat(softcap) * tanh(x / splat(softcap));
    if (!whole) x = select(within(t, from, to), x, splat(kNothing));
    store(scores + t, x);
    peak = max(x, peak);
  }
  const float old = state[0], highest = max_lanes(peak);
  const float top = highest > old ? highest : old;
  F16 sum = splat(0), offset = splat(0);
  U16 most_bits = splat_u32(0);
  for (int t = first; t < last; t += 16) {
    const F16 e = exp_down(load(scores + t) - splat(top));
    sum = sum + e;
    F16 weight = e * load(numbers.value_scale + t);
    if (minimum) {
      F16 low = load(numbers.value_minimum + t);
      if (!whole) low = select(within(t, from, to), low, splat(0));
      offset = fma(e, low, offset);
    }
    if (!whole) weight = select(within(t, from, to), weight, splat(0));
    store(scores + t, weight);
    most_bits = max_bits(most_bits, as_bits(weight));
  }
  const float factor = old == kNothing ? 0.0f : exp(old - top);
  state[0] = top;
  state[1] = state[1] * factor + sum_lanes(sum);
  if (factor != 1.0f) scale_values(state, factor, head_dim);
  if (minimum) {
    const F16 more = splat(sum_lanes(offset));
    for (int d = kStateHead; d < kStateHead + head_dim; d += 16) store(state + d, load(state + d) + more);
  }
  const float heaviest = max_bits_of(most_bits);
  const F16 inverse = splat(heaviest < 1e-33f ? 0 : most / heaviest);
  if (!whole) std::memset(terms, 0, 2 * kStretch);
  for (int t = first; t < last; t += 16) {
    const U16 w = nearest(load(scores + t) * inverse);
    store_low_bytes(terms + t, w >> kTermBits);
    store_low_bytes(terms + kStretch + t, kTermBits == 8 ? w : w & splat_u32(127));
  }
  return heaviest / most;
}

// state += unit * (kBase * high + low products)
KVANT_INLINE void add_products(const std::int32_t* high, const std::int32_t* low, float unit, float* values,
                               int head_dim) {
  for (int d = 0; d < head_dim; d += 16) {
    const F16 x = fma(to_float(load_u32(high + d)), splat(kBase), to_float(load_u32(low + d)));
    store(values + d, fma(x, splat(unit), load(values + d)));
  }
}

#endif

}  // namespace
}  // namespace kvant

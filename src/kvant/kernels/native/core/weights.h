// From scores to weights as integers in two terms of a byte: one stretch of one row.
#pragma once

#include "softmax.h"
#include "terms.h"
#include "tiles.h"

namespace kvant {
namespace {

#if KVANT_INTEGER_PRODUCTS

// Numbers of the tokens of a stretch.
struct Numbers {
  alignas(64) float key_scale[kStretch], key_minimum[kStretch];
  alignas(64) float value_scale[kStretch], value_minimum[kStretch];
  alignas(64) std::int32_t excess[kStretch];  // what all products have too much because rows are unsigned

  // Of the tokens that rows read, zero of all others: value_scale where the largest of theirs is kMost,
  // value_minimum, and that largest one.
  alignas(64) float units[kStretch], offsets[kStretch];
  float top;
  int from, to;  // which tokens

  KVANT_INLINE void forget_part() { from = to = 0; }
  inline void choose_part(int first, int last, bool minimum);
};

// The largest weight of a stretch in units of its terms, with room for rounding.
constexpr float kMost = kTermBits == 8 ? 65500 : 16370;

KVANT_INLINE float units_over(float top) { return top < 1e-33f ? 0 : kMost / top; }

// Rows that read the same tokens follow each other, so this is done seldom.
inline void Numbers::choose_part(int first, int last, bool minimum) {
  if (first == from && last == to) return;
  from = first, to = last;
  U16 largest = splat_u32(0);
  for (int t = 0; t < kStretch; t += 16) {
    const Mask read = within(t, from, to);
    const F16 scale = select(read, load(value_scale + t), splat(0));
    store(units + t, scale);
    largest = max_bits(largest, as_bits(scale));
    if (minimum) store(offsets + t, select(read, load(value_minimum + t), splat(0)));
  }
  top = max_bits_of(largest);
  const F16 over = splat(units_over(top));
  for (int t = 0; t < kStretch; t += 16) store(units + t, load(units + t) * over);
}

// Scores of 16 tokens from t on, of the products of both terms, but for the factor `scale`.
template <bool minimum>
struct ProductScores {
  const Numbers& numbers;
  QueryTerms query;
  const std::int32_t *high, *low;

  KVANT_INLINE float scale() const { return minimum ? 1 : query.scale; }
  KVANT_INLINE F16 operator()(int t) const {
    U16 first = load_u32(high + t), second = load_u32(low + t);
    if (kRowOffset) {
      const U16 excess = load_u32(numbers.excess + t);
      KVANT_PARTS(i) {
        first.part[i] -= excess.part[i];
        second.part[i] -= excess.part[i];
      }
    }
    const F16 x = fma(to_float(first), splat(kBase), to_float(second)) * load(numbers.key_scale + t);
    return minimum ? fma(x, splat(query.scale), load(numbers.key_minimum + t) * splat(query.sum)) : x;
  }
};

struct StoredScores {
  const float* scores;
  KVANT_INLINE float scale() const { return 1; }
  KVANT_INLINE F16 operator()(int t) const { return load(scores + t); }
};

// What products of weight terms are worth: values = factor * values + offset + unit * products.
struct Worth {
  float factor, offset, unit;
};

// Both terms of 64 weights: high from `terms`, low from `terms` + kStretch.
KVANT_INLINE void store_terms(std::uint8_t* terms, const U16* w) {
#if defined(__AVX512F__)
  // Packing leaves dword i of source j at 4 i + j.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_set1_epi16(255);
  const __m512i a = _mm512_packus_epi32((__m512i)w[0].part[0], (__m512i)w[1].part[0]);
  const __m512i b = _mm512_packus_epi32((__m512i)w[2].part[0], (__m512i)w[3].part[0]);
  const __m512i high = _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
  const __m512i low = _mm512_packus_epi16(_mm512_and_si512(a, bytes), _mm512_and_si512(b, bytes));
  _mm512_storeu_si512(terms, _mm512_permutexvar_epi32(order, high));
  _mm512_storeu_si512(terms + kStretch, _mm512_permutexvar_epi32(order, low));
#else
  for (int i = 0; i < 4; ++i) {
    store_low_bytes(terms + 16 * i, w[i] >> kTermBits);
    store_low_bytes(terms + kStretch + 16 * i, kTermBits == 8 ? w[i] : w[i] & splat_u32(127));
  }
#endif
}

constexpr int kVectors = kStretch / 16;

// Weights are relative to the `peak` of their own stretch, so that their terms keep their precision where
// another stretch outweighs it. The state gains their sum; `top` is the value scale that kMost stands for.
// No branch: it would be taken by chance, and what comes after it thrown away.
KVANT_INLINE Worth raise(float* state, float peak, F16 sum, F16 offset, float top) {
  const float highest = peak > state[0] ? peak : state[0];
  const F16 lower = select(lanes() < splat_u32(1), splat(state[0]), splat(peak)) - splat(highest);
  const F16 both = exp2(lower);
  const float factor = both.part[0][0], part = both.part[0][1];
  state[0] = highest;
  state[1] = state[1] * factor + sum_lanes(sum) * part;
  return {factor, sum_lanes(offset) * part, top * (1 / kMost) * part};
}

// Scores of a row, but for their scale.
struct Seen {
  F16 x[kVectors];
  float scale, top;  // and the highest with it

  // Of a row that reads the whole stretch.
  template <class Scores>
  KVANT_INLINE void look(const Scores& scores) {
    look_at([&](int i) KVANT_LAMBDA_INLINE { return scores(16 * i); }, scores.scale());
  }

  // Of one that reads tokens from..to of it, or caps its scores.
  template <class Scores>
  KVANT_INLINE void look(const Scores& scores, int from, int to, float softcap) {
    const F16 factor = splat(scores.scale());
    look_at([&](int i) KVANT_LAMBDA_INLINE {
      F16 score = scores(16 * i) * factor;
      if (softcap > 0) score = capped(score, softcap);
      return select(within(16 * i, from, to), score, splat(kNothing));
    }, 1);
  }

 private:
  template <class Of>
  KVANT_INLINE void look_at(Of of, float factor) {
    F16 even = splat(kNothing), odd = even;  // two chains: each step waits for the one before
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; i += 2) {
      x[i] = of(i);
      x[i + 1] = of(i + 1);
      even = max(x[i], even);
      odd = max(x[i + 1], odd);
    }
    scale = factor;
    top = max_lanes(max(even, odd)) * scale;
  }
};

constexpr int kRowsAwake = 6;  // that take less time than a matrix unit needs to fall asleep

// What rows read of a stretch.
struct Part {
  int from, to;  // empty if to <= from

  KVANT_INLINE bool empty() const { return to <= from; }
  KVANT_INLINE bool whole() const { return from == 0 && to == kStretch; }
};

// Rows, `stride` floats apart. The next row is looked at before one is weighed: else each waits for its
// own maximum.
template <bool minimum, class ScoresOf, class PartOf>
inline void weigh_rows(const ScoresOf& scores_of, const PartOf& part_of, int rows, float softcap, Numbers& numbers,
                       float* states, int stride, std::uint8_t* terms, Worth* worth, bool tiles) {
  Seen next;
  const auto look = [&](int r) KVANT_LAMBDA_INLINE {
    const Part part = part_of(r);
    if (part.empty()) return;
    if (part.whole() && softcap == 0) {
      next.look(scores_of(r));
    } else {
      next.look(scores_of(r), part.from, part.to, softcap);
    }
  };
  look(0);
  for (int r = 0; r < rows; ++r, states += stride, terms += 2 * kStretch) {
    if (tiles && r % kRowsAwake == kRowsAwake - 1) stay_awake();
    const Seen row = next;
    if (r + 1 < rows) look(r + 1);
    const Part part = part_of(r);
    if (part.empty()) {
      worth[r] = {1, 0, 0};
      continue;
    }
    numbers.choose_part(part.from, part.to, minimum);
    const F16 scale = splat(row.scale), top = splat(row.top);
    F16 sum = splat(0), offset = splat(0);
    U16 w[kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      const F16 e = exp2(row.x[i] * scale - top);  // rounded as `top` was: fused, e of huge scores would pass 1
      sum = sum + e;
      if (minimum) offset = fma(e, load(numbers.offsets + 16 * i), offset);
      w[i] = nearest(e * load(numbers.units + 16 * i));
    }
    store_terms(terms, w);
    store_terms(terms + 64, w + 4);
    worth[r] = raise(states, row.top, sum, offset, numbers.top);
  }
}

KVANT_INLINE void add_products(const std::int32_t* high, const std::int32_t* low, Worth worth, float* values,
                               int head_dim) {
  const F16 factor = splat(worth.factor), offset = splat(worth.offset), unit = splat(worth.unit);
  for (int d = 0; d < head_dim; d += 16) {
    const F16 x = fma(to_float(load_u32(high + d)), splat(kBase), to_float(load_u32(low + d)));
    store(values + d, fma(x, unit, fma(load(values + d), factor, offset)));
  }
}

#endif

}  // namespace
}  // namespace kvant

// The running softmax of one row, and how states of consecutive ranges are merged. Scores are in units
// of log2: a weight is 2^score.
#pragma once

#include "calls.h"
#include "exp.h"
#include "vec.h"

namespace kvant {
namespace {

constexpr float kNothing = -__builtin_inff();  // the maximum of a row that has read no token

inline void clear_state(float* state, int floats) {
  std::memset(state, 0, sizeof(float) * static_cast<unsigned>(floats));
  state[0] = kNothing;
}

KVANT_INLINE void scale_values(float* state, float factor, int head_dim) {
  for (int d = 0; d < head_dim; d += 16)
    store(state + kStateHead + d, load(state + kStateHead + d) * splat(factor));
}

// Lanes t.. that lie in [from, to).
KVANT_INLINE Mask within(int t, int from, int to) {
  const U16 token = lanes() + splat_u32(static_cast<std::uint32_t>(t));
  const Mask before = token < splat_u32(static_cast<std::uint32_t>(from));
  Mask r = token < splat_u32(static_cast<std::uint32_t>(to));
  KVANT_PARTS(i) r.part[i] &= ~before.part[i];
  return r;
}

KVANT_INLINE F16 capped(F16 x, float softcap) { return splat(softcap) * tanh(x / splat(softcap)); }

// The new maximum and sum of a state; returns what its values are to be multiplied by.
KVANT_INLINE float raise_state(float* state, float top, float sum) {
  const float factor = state[0] == kNothing ? 0.0f : exp2(state[0] - top);
  state[0] = top;
  state[1] = state[1] * factor + sum;
  return factor;
}

// Scores of tokens from..to of a stretch become weights in place; the state is rescaled to the new
// maximum and gains their sum. Lanes of edge tiles that the row does not read get weight 0.
inline void softmax_stretch(float* scores, int from, int to, float softcap, float* state, int head_dim) {
  F16 peak = splat(kNothing);
  for (int t = from / 16 * 16; t < to; t += 16) {
    F16 x = load(scores + t);
    if (softcap > 0) x = capped(x, softcap);
    x = select(within(t, from, to), x, splat(kNothing));
    store(scores + t, x);
    peak = max(x, peak);
  }
  const float highest = max_lanes(peak), top = highest > state[0] ? highest : state[0];
  F16 sum = splat(0);
  for (int t = from / 16 * 16; t < to; t += 16) {
    const F16 e = exp2(load(scores + t) - splat(top));
    store(scores + t, e);
    sum = sum + e;
  }
  const float factor = raise_state(state, top, sum_lanes(sum));
  if (factor != 1.0f) scale_values(state, factor, head_dim);
}

// total += part, where `part` covers later tokens. A state whose sum is 0 has read nothing.
inline void merge_state(float* total, const float* part, int head_dim) {
  if (part[1] == 0) return;
  if (total[1] == 0) {
    std::memcpy(total, part, sizeof(float) * static_cast<unsigned>(kStateHead + head_dim));
    return;
  }
  const float top = part[0] > total[0] ? part[0] : total[0];
  const float mine = exp2(total[0] - top), theirs = exp2(part[0] - top);
  total[0] = top;
  total[1] = total[1] * mine + part[1] * theirs;
  for (int d = kStateHead; d < kStateHead + head_dim; d += 16) {
    store(total + d, fma(load(total + d), splat(mine), load(part + d) * splat(theirs)));
  }
}

// A score that only enters the denominator.
inline void add_sink(float* state, float sink, int head_dim) {
  const float top = sink > state[0] ? sink : state[0];
  const float factor = exp2(state[0] - top);
  state[0] = top;
  state[1] = state[1] * factor + exp2(sink - top);
  scale_values(state, factor, head_dim);
}

}  // namespace
}  // namespace kvant

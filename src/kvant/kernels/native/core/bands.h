// A stretch by integer products of its codes, which are unpacked once for all rows of the block. The rows
// come in bands, whose sums and terms stay in the first cache.
#pragma once

#include <array>

#include "stretch.h"

namespace kvant {
namespace {

#if KVANT_INTEGER_PRODUCTS

KVANT_INLINE int num_tiles_of(const Stretch& s) { return (s.high - s.low + kTile - 1) / kTile; }

KVANT_INLINE Planes key_planes_of(const Block& block, const Stretch& s) {
  return {block.key_planes + s.low * s.layout.head_dim, kLine, kTile * s.layout.head_dim};
}

// Planes and numbers of a stretch lie where its tokens do, whatever part of it is read.
inline void unpack_keys(Block& block, const Stretch& s) {
  const Layout& layout = s.layout;
  const Codec& key = codec_of(layout.key);
  for (int t = s.low; t < s.high; t += kTile) {
    const std::uint8_t* tile = s.tiles[t / kTile];
    s.prefetch(t, 0, layout.value.codes);
    key.key_planes(layout, tile, block.key_offset, block.key_planes + t * layout.head_dim);
    token_numbers(layout.key, tile + layout.key.meta, block.numbers.key_scale + t, block.numbers.key_minimum + t);
  }
  if (kRowOffset) {
    static const auto offsets = [] {
      std::array<std::uint8_t, kMaxHeadDim> row;
      row.fill(kRowOffset);
      return row;
    }();
    multiply_groups<Operands::query_key, 1>(offsets.data(), 0, key_planes_of(block, s), layout.head_dim / 4,
                                            num_tiles_of(s), nullptr, block.numbers.excess + s.low, 0);
  }
}

inline void unpack_values(Block& block, const Stretch& s) {
  const Layout& layout = s.layout;
  const Codec& value = codec_of(layout.value);
  for (int t = s.low; t < s.high; t += kTile) {
    const std::uint8_t* tile = s.tiles[t / kTile];
    s.prefetch(t, layout.value.codes, layout.tile_bytes);
    value.value_planes(layout, tile, block.value_planes + t * layout.head_dim, 4 * layout.head_dim);
    token_numbers(layout.value, tile + layout.value.meta, block.numbers.value_scale + t,
                  block.numbers.value_minimum + t);
  }
  block.numbers.forget_part();
}

// Products of the rows first..last with the keys, from `sums` on.
inline void multiply_keys(Block& block, const Stretch& s, int first, int last) {
  const int width = padded_dim(s.layout), stride = product_width(s.layout);
  multiply<Operands::query_key>(block.tiles, block.query_terms + 2 * first * width, 2 * (last - first), width,
                                key_planes_of(block, s), s.layout.head_dim / 4, num_tiles_of(s),
                                block.starts + 2 * first, block.sums + s.low, stride);
}

// Calls use(what gives the scores of row first + i, for any i).
template <class Use>
KVANT_INLINE void with_scores(const Block& block, const Stretch& s, int first, Use use) {
  const int stride = product_width(s.layout);
  const auto products = [&](auto minimum) KVANT_LAMBDA_INLINE {
    use([&, sums = block.sums](int i) KVANT_LAMBDA_INLINE {
      return ProductScores<minimum.value != 0>{block.numbers, block.terms[first + i], sums + 2 * i * stride,
                                               sums + (2 * i + 1) * stride};
    });
  };
  if (!block.integer_key) {
    use([&](int i) { return StoredScores{block.scores + (first + i) * kStretch}; });
  } else if (s.layout.key.asymmetric) {
    products(Number<1>{});
  } else {
    products(Number<0>{});
  }
}

inline void store_scores(Block& block, const Stretch& s, int first, int last) {
  with_scores(block, s, first, [&](auto scores_of) {
    for (int r = first; r < last; ++r) {
      const auto scores = scores_of(r - first);
      const F16 scale = splat(scores.scale());
      for (int t = s.low; t < s.high; t += 16) store(block.scores + r * kStretch + t, scores(t) * scale);
    }
  });
}

template <bool minimum>
inline void weigh_band(const AttendCall& call, Block& block, const Stretch& s, int first, int last, float* states,
                       int stride) {
  const auto part = [&](int i) KVANT_LAMBDA_INLINE {
    const Run run = part_of(s.reach, first + i, s.start, kStretch);
    return Part{run.from, run.to};
  };
  with_scores(block, s, first, [&](auto scores_of) {
    weigh_rows<minimum>(scores_of, part, last - first, call.softcap * kLog2e, block.numbers, states + first * stride,
                        stride, block.weight_terms, block.worth, block.tiles);
  });
}

// What the rows first..last read of the values, weighed, is added to their states.
inline void multiply_values(Block& block, const Stretch& s, int first, int last, float* states, int stride) {
  const int head_dim = s.layout.head_dim, sum_stride = product_width(s.layout), fours = 4 * head_dim;
  const int from = block.tiles ? s.low / kUnit * kUnit : s.low;
  multiply<Operands::weight_value>(block.tiles, block.weight_terms + from, 2 * (last - first), kStretch,
                                   {block.value_planes + from * head_dim, fours, kLine},
                                   (s.high - from + kTile - 1) / kTile * 4, head_dim / 16, nullptr, block.sums,
                                   sum_stride);
  for (int r = first; r < last; ++r) {
    const std::int32_t* sums = block.sums + 2 * (r - first) * sum_stride;
    add_products(sums, sums + sum_stride, block.worth[r - first], states + r * stride + kStateHead, head_dim);
  }
}

// Scores of float products are in `block` already; those of float values stay there.
inline void attend_bands(const AttendCall& call, Block& block, const Stretch& s, float* states, int stride) {
  if (block.integer_key) unpack_keys(block, s);
  if (block.integer_value) unpack_values(block, s);
  const auto weigh = s.layout.value.asymmetric ? weigh_band<true> : weigh_band<false>;
  for (int first = s.first; first < s.last; first += kBand) {
    const int last = first + kBand < s.last ? first + kBand : s.last;
    if (block.integer_key) multiply_keys(block, s, first, last);
    if (!block.integer_value) {
      store_scores(block, s, first, last);
      continue;
    }
    weigh(call, block, s, first, last, states, stride);
    multiply_values(block, s, first, last, states, stride);
  }
}
#endif

}  // namespace
}  // namespace kvant

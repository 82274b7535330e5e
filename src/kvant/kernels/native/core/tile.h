// The vectors of one tile and the rotation alone: what tests compare with the numpy reference.
#pragma once

#include "formats.h"
#include "rotation.h"

namespace kvant {
namespace {

inline void decode_tile(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
  const Codec& codec = codec_of(side);
  const int head_dim = layout.head_dim;
  if (!side.is_key) return codec.decode_value(layout, side, tile, out);
  static thread_local float columns[2 * kMaxHeadDim * kTile];
  codec.decode_key(layout, side, tile, columns);
  for (int t = 0; t < kTile; ++t) {
    float* row = out + t * head_dim;
    for (int d = 0; d < head_dim; ++d) row[d] = columns[kTile * d + t];
    if (codec.decode_token) codec.decode_token(layout, side, tile, t, row, row);
  }
}

inline void rotate_rows(const Mixing& mixing, const float* x, float* y, std::int64_t n, const float* signs,
                        bool inverse) {
  alignas(64) float row[kMaxHeadDim];
  for (std::int64_t i = 0; i < n; ++i) {
    load_row(x, Type::f32, i * mixing.head_dim, mixing.head_dim, row);
    inverse ? unrotate(mixing, row, signs) : rotate(mixing, row, signs);
    store_row(y, Type::f32, i * mixing.head_dim, mixing.head_dim, row);
  }
}

}  // namespace
}  // namespace kvant

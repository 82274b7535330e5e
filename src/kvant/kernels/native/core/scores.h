// Scores of one tile: every query row against 16 keys, unpacked once.
#pragma once

#include "calls.h"
#include "vec.h"

namespace kvant {
namespace {

// Each row is one chain of multiply-adds in the order of the dims, whatever the number of rows.
template <int rows>
KVANT_INLINE void dot_rows(const float* keys, int width, const float* queries, int stride, float* scores) {
  F16 sum[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) sum[r] = splat(0);
  for (int d = 0; d < width; ++d) {
    const F16 key = load(keys + 16 * d);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) sum[r] = fma(splat(queries[r * stride + d]), key, sum[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) store(scores + r * kStretch, sum[r]);
}

// As many rows at once as registers hold the sums of.
constexpr int kRowsAtOnce = kWidth == 64 ? 8 : kWidth == 32 ? 4 : 2;

template <int rows = kRowsAtOnce>
inline void dot(const float* keys, int width, const float* queries, int stride, int count, float* scores) {
  for (; count >= rows; count -= rows, queries += rows * stride, scores += rows * kStretch) {
    dot_rows<rows>(keys, width, queries, stride, scores);
  }
  if constexpr (rows > 1) dot<rows - 1>(keys, width, queries, stride, count, scores);
}

// queries [count][stride], scores [count][kStretch] of which 16 are written, room for the tile.
// A format with a faster way (integer dot products on the codes) has its own function instead.
template <class Format>
void score_tile(const Layout& layout, const std::uint8_t* tile, const float* queries, int stride,
                int count, float* scores, float* room) {
  Format::decode_key(layout, layout.key, tile, room);
  dot(room, layout.query_width(), queries, stride, count, scores);
}

}  // namespace
}  // namespace kvant

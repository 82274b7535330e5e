// Weighted values of one tile: added to the running sums of every row that reads it.
#pragma once

#include "calls.h"
#include "vec.h"

namespace kvant {
namespace {

// Rows `first` to `last` read tokens `from` to `to` of the tile; no other token is touched, so what
// lies there (garbage, NaN, another row's future) cannot reach them.
struct Run {
  int first, last;
  int from, to;
};

// Each sum is one chain of multiply-adds in the order of the tokens, whatever the shape of the block.
template <int rows, int columns>
KVANT_INLINE void weigh_block(const float* values, int head_dim, const float* weights, int weight_stride,
                              int from, int to, float* sums, int stride) {
  F16 sum[rows][columns];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) sum[r][c] = load(sums + r * stride + 16 * c);
  }
  for (int t = from; t < to; ++t) {
    F16 value[columns];
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) value[c] = load(values + t * head_dim + 16 * c);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const F16 weight = splat(weights[r * weight_stride + t]);
#pragma GCC unroll 4
      for (int c = 0; c < columns; ++c) sum[r][c] = fma(weight, value[c], sum[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) store(sums + r * stride + 16 * c, sum[r][c]);
  }
}

// As large a block as registers hold.
constexpr int kBlockRows = kWidth == 64 ? 4 : kWidth == 32 ? 2 : 1;
constexpr int kBlockColumns = kWidth == 64 ? 4 : 2;

template <int rows, int columns = kBlockColumns>
KVANT_INLINE void weigh_columns(const float* values, int head_dim, int dims, const float* weights,
                                int weight_stride, int from, int to, float* sums, int stride) {
  for (; dims >= 16 * columns; dims -= 16 * columns, values += 16 * columns, sums += 16 * columns) {
    weigh_block<rows, columns>(values, head_dim, weights, weight_stride, from, to, sums, stride);
  }
  if constexpr (columns > 1) {
    weigh_columns<rows, columns / 2>(values, head_dim, dims, weights, weight_stride, from, to, sums, stride);
  }
}

// sums[r] += weights[r][from..to) times the rows from..to of `values`.
template <int rows = kBlockRows>
inline void weigh(const float* values, int head_dim, const float* weights, int weight_stride, int count,
                  int from, int to, float* sums, int stride) {
  for (; count >= rows; count -= rows, weights += rows * weight_stride, sums += rows * stride) {
    weigh_columns<rows>(values, head_dim, head_dim, weights, weight_stride, from, to, sums, stride);
  }
  if constexpr (rows > 1) {
    weigh<rows - 1>(values, head_dim, weights, weight_stride, count, from, to, sums, stride);
  }
}

// weights [row][kStretch] of this tile, states as in calls.h `stride` floats apart, room for the decoded
// tile.
template <class Format>
void weigh_tile(const Layout& layout, const std::uint8_t* tile, const Run* runs, int num_runs,
                const float* weights, float* states, int stride, float* room) {
  Format::decode_value(layout, layout.value, tile, room);
  for (const Run* run = runs; run < runs + num_runs; ++run) {
    weigh(room, layout.head_dim, weights + run->first * kStretch, kStretch, run->last - run->first, run->from,
          run->to, states + run->first * stride + kStateHead, stride);
  }
}

}  // namespace
}  // namespace kvant

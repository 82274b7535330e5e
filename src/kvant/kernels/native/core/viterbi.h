// The codes of a trellis: formats/viterbi.py in C++, to the bit.
#pragma once

#include "costs.h"
#include "vec.h"

namespace kvant {
namespace {

// A row of distances as the offset of its first byte: 256 for each step of |y|, and 128 more where y is negative,
// because the level of state s ^ 128 is minus that of s. In the order of the ring.
template <int bits>
inline void find_rows(const TrellisTables& table, const float* x, float scale, int head_dim, std::uint32_t* rows) {
  constexpr float limit = metric_of(bits).limit;
  alignas(64) std::uint32_t found[kMaxHeadDim];
  for (int d = 0; d < head_dim; d += 16) {
    F16 y = scale > 0 ? load(x + d) / splat(scale) : splat(0);
    y = y * splat(table.factor);
    y = select(y < splat(limit), y, splat(limit));  // not-a-number is the largest
    y = select(splat(-limit) < y, y, splat(-limit));
    const U16 integer = as_bits(y + splat(0x1.8p23f));  // rounded in the low bits
    U16 row;
    KVANT_PARTS(i) {
      const IntV v = (IntV)(integer.part[i] - 0x4B400000u), minus = v < 0;
      row.part[i] = (UintV)((((v ^ minus) - minus) << 8) | (minus & 128));
    }
    store(reinterpret_cast<float*>(found + d), as_float(row));
  }
  const int planes = head_dim / 4;
  for (int q = 0; q < 4; ++q) {
    for (int z = 0; z < planes; ++z) rows[q * planes + z] = found[4 * z + q];
  }
}

// Codes of `n` vectors in the order of the ring.
template <int bits, int n>
inline void search(const Distances* table, Rows<n> rows, int size, std::uint8_t (*codes)[kMaxHeadDim]) {
  constexpr int most = bits == 2 ? 32 : bits == 3 ? 24 : 16;  // TURN
  alignas(64) std::uint8_t room[n][kMaxHeadDim * Costs<bits, n>::kBackBytes];
  std::uint8_t* back[n];
  for (int v = 0; v < n; ++v) back[v] = room[v];
  const std::uint8_t* distances = table->to;
  const int turn = most < size / 2 ? most : size / 2;
  int j[n];
  Costs<bits, n> around;
  around.forget(distances, rows, size - turn, turn);
  around.origin(distances, rows, turn, back, j);
  Costs<bits, n> ring(j);
  ring.keep(distances, rows, size, back);
  for (int v = 0; v < n; ++v) Costs<bits, n>::trace(back[v], size, j[v], codes[v]);
}

}  // namespace
}  // namespace kvant

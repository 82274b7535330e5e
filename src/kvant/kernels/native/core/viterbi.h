// The codes of a trellis: formats/viterbi.py in C++, to the bit.
#pragma once

#include "costs.h"
#include "vec.h"

namespace kvant {
namespace {

// Lanes q, q + 4, q + 8 and q + 12 to `to` + q * stride.
KVANT_INLINE void store_columns(std::uint32_t* to, int stride, U16 x) {
#if defined(__AVX512F__)
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  x.part[0] = (UintV)_mm512_permutexvar_epi32(order, (__m512i)x.part[0]);
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) std::memcpy(to + q * stride, reinterpret_cast<const char*>(x.part) + 16 * q, 16);
#else
  alignas(64) std::uint32_t lane[16];
  store(reinterpret_cast<float*>(lane), as_float(x));
  for (int q = 0; q < 4; ++q) {
    for (int z = 0; z < 4; ++z) to[q * stride + z] = lane[4 * z + q];
  }
#endif
}

// A row of distances as the offset of its first byte: 256 for each step of |y|, and 128 more where y is negative,
// because the level of state s ^ 128 is minus that of s. In the order of the ring.
template <int bits>
inline void find_rows(const TrellisTables& table, const float* x, float scale, int head_dim, std::uint32_t* rows) {
  constexpr float limit = metric_of(bits).limit;
  const int planes = head_dim / 4;
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
    store_columns(rows + d / 4, planes, row);
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

// Integer products of rows of bytes with planes: exact, so no order or blocking shows in the result.
//
// sums[row][lane] = sum over k of rows[row][k] * planes[k][lane], four k in a dword of either operand.
#pragma once

#include "planes.h"

namespace kvant {
namespace {

#if KVANT_INTEGER_PRODUCTS

// Both operands in two terms, q = kBase * high + low. Where the machine only has products that
// saturate at 16 bits (vpmaddubsw), terms have 7 bits and rows are unsigned: u7 * s8 cannot saturate.
#if defined(__AVX512VNNI__)
constexpr int kTermBits = 8;
constexpr int kRowOffset = 0;  // added to the terms of queries to make them unsigned
#else
constexpr int kTermBits = 7;
constexpr int kRowOffset = 64;
#endif
constexpr float kBase = 1 << kTermBits;

template <int n>
struct Number {
  static constexpr int value = n;
};

struct Planes {
  const std::uint8_t* at;
  int k_stride, n_stride;  // bytes between fours of k, and between groups of 16 lanes
};

template <bool unsigned_planes>
KVANT_INLINE U16 dot4(U16 sum, U16 planes, U16 row) {
#if defined(__AVX512VNNI__)
  const __m512i p = (__m512i)planes.part[0], r = (__m512i)row.part[0];
  sum.part[0] = (UintV)(unsigned_planes ? _mm512_dpbusd_epi32((__m512i)sum.part[0], p, r)
                                        : _mm512_dpbusd_epi32((__m512i)sum.part[0], r, p));
#else
  KVANT_PARTS(i) {
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)row.part[i], (__m256i)planes.part[i]);
    sum.part[i] += (UintV)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
#endif
  return sum;
}

template <bool unsigned_planes, int rows, int groups>
KVANT_INLINE void multiply_block(const std::uint8_t* row, int row_stride, Planes planes, int fours,
                                 std::int32_t* sums, int sum_stride) {
  U16 sum[rows][groups];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < groups; ++n) sum[r][n] = splat_u32(0);
  }
  for (int k = 0; k < fours; ++k) {
    U16 plane[groups];
#pragma GCC unroll 8
    for (int n = 0; n < groups; ++n) plane[n] = load_u32(planes.at + n * planes.n_stride);
    planes.at += planes.k_stride;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      std::uint32_t four;
      std::memcpy(&four, row + r * row_stride + 4 * k, 4);
      const U16 all = splat_u32(four);
#pragma GCC unroll 8
      for (int n = 0; n < groups; ++n) sum[r][n] = dot4<unsigned_planes>(sum[r][n], plane[n], all);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < groups; ++n)
      store(reinterpret_cast<float*>(sums + r * sum_stride + 16 * n), as_float(sum[r][n]));
  }
}

constexpr int kProductRows = kWidth == 64 ? 6 : 2;
constexpr int kProductGroups = kWidth == 64 ? 4 : 2;

template <bool unsigned_planes, int rows, int groups = kProductGroups>
KVANT_INLINE void multiply_groups(const std::uint8_t* row, int row_stride, Planes planes, int fours, int n,
                                  std::int32_t* sums, int sum_stride) {
  for (; n >= groups; n -= groups, planes.at += groups * planes.n_stride, sums += 16 * groups) {
    multiply_block<unsigned_planes, rows, groups>(row, row_stride, planes, fours, sums, sum_stride);
  }
  if constexpr (groups > 1)
    multiply_groups<unsigned_planes, rows, groups / 2>(row, row_stride, planes, fours, n, sums, sum_stride);
}

// `count` rows (an even number: two terms each) by `n` groups of 16 lanes.
template <bool unsigned_planes>
inline void multiply(const std::uint8_t* row, int count, int row_stride, Planes planes, int fours, int n,
                     std::int32_t* sums, int sum_stride) {
  const auto some = [&](auto rows) KVANT_LAMBDA_INLINE {
    multiply_groups<unsigned_planes, rows.value>(row, row_stride, planes, fours, n, sums, sum_stride);
    row += rows.value * row_stride;
    sums += rows.value * sum_stride;
    count -= rows.value;
  };
  if constexpr (kProductRows == 6) {
    while (count == 6 || count >= 10) some(Number<6>{});
    while (count >= 4) some(Number<4>{});
  }
  while (count > 0) some(Number<2>{});
}

#endif

}  // namespace
}  // namespace kvant

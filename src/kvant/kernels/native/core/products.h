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
// They have 7 bits too where both operands are signed (sdot): so a term of a weight is a signed byte.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr int kTermBits = 8;
constexpr int kRowOffset = 0;  // added to the terms of queries to make them unsigned
#elif defined(__ARM_FEATURE_DOTPROD)
constexpr int kTermBits = 7;
constexpr int kRowOffset = 0;
#else
constexpr int kTermBits = 7;
constexpr int kRowOffset = 64;
#endif
constexpr float kBase = 1 << kTermBits;

struct Planes {
  const std::uint8_t* at;
  int k_stride, n_stride;  // bytes between fours of k, and between groups of 16 lanes
};

// What is multiplied: terms of queries (signed, or with kRowOffset) with keys (signed, or with
// kKeyOffset), or terms of weights (unsigned) with values (signed).
enum class Operands { query_key, weight_value };

template <int n>
struct Number {
  static constexpr int value = n;
};

template <Operands operands>
KVANT_INLINE U16 dot4(U16 sum, U16 planes, U16 row) {
  [[maybe_unused]] constexpr bool unsigned_planes = operands == Operands::query_key;
#if defined(__AVX512VNNI__)
  const __m512i p = (__m512i)planes.part[0], r = (__m512i)row.part[0];
  sum.part[0] = (UintV)(unsigned_planes ? _mm512_dpbusd_epi32((__m512i)sum.part[0], p, r)
                                        : _mm512_dpbusd_epi32((__m512i)sum.part[0], r, p));
#elif defined(__AVXVNNI__)
  KVANT_PARTS(i) {
    const __m256i p = (__m256i)planes.part[i], r = (__m256i)row.part[i], s = (__m256i)sum.part[i];
    sum.part[i] = (UintV)(unsigned_planes ? _mm256_dpbusd_avx_epi32(s, p, r) : _mm256_dpbusd_avx_epi32(s, r, p));
  }
#elif defined(__ARM_FEATURE_DOTPROD)
  KVANT_PARTS(i)
    sum.part[i] = (UintV)vdotq_s32((int32x4_t)sum.part[i], (int8x16_t)planes.part[i], (int8x16_t)row.part[i]);
#else
  KVANT_PARTS(i) {
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)row.part[i], (__m256i)planes.part[i]);
    sum.part[i] += (UintV)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
#endif
  return sum;
}

template <Operands operands, int rows, int groups>
KVANT_INLINE void multiply_block(const std::uint8_t* row, int row_stride, Planes planes, int fours,
                                 const std::int32_t* starts, std::int32_t* sums, int sum_stride) {
  U16 sum[rows][groups];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < groups; ++n)
      sum[r][n] = splat_u32(starts ? static_cast<std::uint32_t>(starts[r]) : 0);
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
      for (int n = 0; n < groups; ++n) sum[r][n] = dot4<operands>(sum[r][n], plane[n], all);
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

template <Operands operands, int rows, int groups = kProductGroups>
KVANT_INLINE void multiply_groups(const std::uint8_t* row, int row_stride, Planes planes, int fours, int n,
                                  const std::int32_t* starts, std::int32_t* sums, int sum_stride) {
  for (; n >= groups; n -= groups, planes.at += groups * planes.n_stride, sums += 16 * groups) {
    multiply_block<operands, rows, groups>(row, row_stride, planes, fours, starts, sums, sum_stride);
  }
  if constexpr (groups > 1)
    multiply_groups<operands, rows, groups / 2>(row, row_stride, planes, fours, n, starts, sums, sum_stride);
}

// `count` rows (an even number: two terms each) by `n` groups of 16 lanes; `starts` is added, if any.
template <Operands operands>
inline void multiply_vectors(const std::uint8_t* row, int count, int row_stride, Planes planes, int fours, int n,
                     const std::int32_t* starts, std::int32_t* sums, int sum_stride) {
  const auto some = [&](auto rows) KVANT_LAMBDA_INLINE {
    multiply_groups<operands, rows.value>(row, row_stride, planes, fours, n, starts, sums, sum_stride);
    row += rows.value * row_stride;
    sums += rows.value * sum_stride;
    if (starts) starts += rows.value;
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

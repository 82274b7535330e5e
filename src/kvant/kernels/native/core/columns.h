// Columns of a ring in lines of 64 bytes: formats/columns.py in C++.
//
// A window is the 8 bits that end with an element: those of the dims 4 z to 4 z + 3 of 16 tokens are 64 bytes, found
// by two shifts of the line that the elements end in and the one before it.
#pragma once

#include "packing.h"
#include "vec.h"

namespace kvant {
namespace {

constexpr int kColumns = 4;

// Bits of `a` where the mask is set, of `b` elsewhere.
KVANT_INLINE U16 blend_bits(std::uint32_t mask, U16 a, U16 b) {
#if defined(__AVX512F__)
  a.part[0] = (UintV)_mm512_ternarylogic_epi32(_mm512_set1_epi32(static_cast<int>(mask)), (__m512i)a.part[0],
                                               (__m512i)b.part[0], 0xCA);
  return a;
#else
  return (a & splat_u32(mask)) | (b & splat_u32(~mask));
#endif
}

// What each column has, for the next one: bytes of a dword for keys, dwords of a quarter for values.
template <bool key>
KVANT_INLINE U16 next_column(U16 x) {
  if constexpr (key) return x << 8 | x >> 24;
  KVANT_PARTS(i) {
#if defined(__AVX512F__)
    const UintV from = {3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14};
#elif defined(__AVX2__)
    const UintV from = {3, 0, 1, 2, 7, 4, 5, 6};
#else
    const UintV from = {3, 0, 1, 2};
#endif
    x.part[i] = __builtin_shuffle(x.part[i], from);
  }
  return x;
}

// Half a line, in the high bits of the bytes it stands for.
template <bool key>
inline U16 load_half(const std::uint8_t* half) {
  std::uint32_t lanes[kTile];
  for (int i = 0; i < kTile; ++i) {
    if constexpr (key) {
      const std::uint32_t two = std::uint32_t{half[2 * i]} | std::uint32_t{half[2 * i + 1]} << 8;
      lanes[i] = (two << 4 & 0xF0F0) | (two & 0xF0F0) << 16;
    } else {
      std::uint32_t four;  // of columns i % 2 and i % 2 + 2
      std::memcpy(&four, half + i / 4 * 8 + i % 2 * 4, 4);
      lanes[i] = (i % 4 < 2 ? four << 4 : four) & 0xF0F0F0F0;
    }
  }
  return load_u32(lanes);
}

// Calls use(z, windows) for the planes of a tile in their order.
template <int bits, bool key, class Use>
KVANT_INLINE void for_windows(const std::uint8_t* lines, int head_dim, Use use) {
  constexpr int at_once = bits == 3 ? 8 : 4;  // planes, after which elements end with a line again
  constexpr int lines_at_once = at_once * bits / 8;
  const int planes = head_dim / kColumns, whole = planes * bits / 8;
  const auto some = [&](int z, int count, const U16* line) KVANT_LAMBDA_INLINE {
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) {
      const int end = bits * (i + 1), shift = -end & 7;
      const U16 now = line[(end + 7) / 8], before = line[(end - 1) / 8];  // line[0] is the one before all
      use(z + i, shift ? blend_bits(0x01010101u * (0xFFu >> shift), now >> shift, before << (8 - shift)) : now);
    }
  };
  U16 line[lines_at_once + 1];
  line[0] = load_u32(lines + (whole - 1) * kLine);
  U16 half = splat_u32(0);
  const bool has_half = bits == 3 && planes % 8;
  if (has_half) {
    half = load_half<key>(lines + whole * kLine);
    line[0] = blend_bits(0x0F0F0F0F, half >> 4, line[0] << 4);
  }
  line[0] = next_column<key>(line[0]);
  int z = 0;
#pragma GCC unroll 2
  for (; z + at_once <= planes; z += at_once, lines += lines_at_once * kLine) {
#pragma GCC unroll 3
    for (int i = 0; i < lines_at_once; ++i) line[i + 1] = load_u32(lines + i * kLine);
    some(z, at_once, line);
    line[0] = line[lines_at_once];
  }
  if constexpr (bits == 3) {
    if (!has_half) return;
    line[1] = load_u32(lines);
    line[2] = half;
    some(z, 4, line);
  }
}

// Stores the ring of one token, head_dim * bits / 8 bytes, the first element in the highest bits.
template <int bits>
inline void store_ring(std::uint8_t* lines, int head_dim, bool is_key, int token, const std::uint8_t* ring) {
  const int column_bits = head_dim / kColumns * bits, whole = column_bits / 8;
  const int place = is_key ? kColumns * token : 16 * (token / 4) + token % 4, apart = is_key ? 1 : 4;
  for (int q = 0; q < kColumns; ++q) {
    const std::uint8_t* from = ring + q * column_bits / 8;
    const int split = q * column_bits % 8;  // 0, or 4 where a column begins within a byte
    for (int k = 0; k < whole; ++k)
      lines[k * kLine + place + q * apart] =
          static_cast<std::uint8_t>(split ? from[k] << 4 | from[k + 1] >> 4 : from[k]);
  }
  if (column_bits % 8 == 0) return;
  std::uint8_t* half = lines + whole * kLine + (is_key ? 2 * token : 8 * (token / 4) + token % 4);
  for (int q = 0; q < 2; ++q) {
    const auto last = [&](int column) {
      const std::uint8_t byte = ring[((column + 1) * column_bits - 4) / 8];
      return (column + 1) * column_bits % 8 ? byte >> 4 : byte & 15;
    };
    half[q * apart] = static_cast<std::uint8_t>(last(q) | last(q + 2) << 4);
  }
}

}  // namespace
}  // namespace kvant

// Code lines to planes of one integer a byte: what integer products read.
//
// A key plane holds 4 dims of 16 tokens, a value plane 4 tokens of 16 dims (packing.h). Each line is
// read once, whatever the number of query rows.
#pragma once

#include "packing.h"
#include "scales.h"

namespace kvant {
namespace {

#if defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
#define KVANT_INTEGER_PRODUCTS 1

typedef std::uint8_t ByteV __attribute__((vector_size(kWidth)));
typedef std::uint16_t WordV __attribute__((vector_size(kWidth)));
typedef std::uint8_t ByteU __attribute__((vector_size(kWidth), aligned(1), may_alias));

// Keys are unsigned where the machine multiplies unsigned planes by signed queries.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr int kKeyOffset = 128;
#else
constexpr int kKeyOffset = 0;
#endif

struct Bytes {
  ByteV part[kParts];
};

KVANT_INLINE Bytes load_bytes(const std::uint8_t* from) {
  Bytes r;
  KVANT_PARTS(i) r.part[i] = reinterpret_cast<const ByteU*>(from)[i];
  return r;
}
KVANT_INLINE void store_bytes(std::uint8_t* to, Bytes x) {
  KVANT_PARTS(i) reinterpret_cast<ByteU*>(to)[i] = x.part[i];
}
KVANT_INLINE Bytes operator^(Bytes a, std::uint8_t mask) {
  KVANT_PARTS(i) a.part[i] = a.part[i] ^ mask;
  return a;
}
// Lower bits of a byte: from its upper bits. Upper bits: anything.
KVANT_INLINE Bytes down(Bytes a, int n) {
  KVANT_PARTS(i) a.part[i] = (ByteV)((WordV)a.part[i] >> n);
  return a;
}
// Bits of `a` where mask is set, of `b` elsewhere.
KVANT_INLINE Bytes blend(std::uint8_t mask, Bytes a, Bytes b) {
  KVANT_PARTS(i) a.part[i] = (a.part[i] & mask) | (b.part[i] & (std::uint8_t)~mask);
  return a;
}

// table[code & 15] for a table of 16 bytes.
struct Table {
  ByteV part;
};
KVANT_INLINE Table table_of(const std::int8_t* integers, std::uint8_t offset) {
#if defined(__AVX512F__)
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(integers));
  return {(ByteV)_mm512_broadcast_i32x4(sixteen) + offset};
#elif defined(__AVX2__)
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(integers));
  return {(ByteV)_mm256_broadcastsi128_si256(sixteen) + offset};
#else
  return {(ByteV)vld1q_s8(integers) + offset};
#endif
}
KVANT_INLINE Bytes lookup(const Table& table, Bytes code) {
#if defined(__AVX512VBMI__)
  code.part[0] = (ByteV)_mm512_permutexvar_epi8((__m512i)code.part[0], (__m512i)table.part);
#elif defined(__AVX512BW__)
  code.part[0] = (ByteV)_mm512_shuffle_epi8((__m512i)table.part, (__m512i)(code.part[0] & 15));
#elif defined(__AVX2__)
  KVANT_PARTS(i) {
    code.part[i] = (ByteV)_mm256_shuffle_epi8((__m256i)table.part, (__m256i)(code.part[i] & 15));
  }
#else
  KVANT_PARTS(i) code.part[i] = vqtbl1q_u8(table.part, code.part[i] & 15);
#endif
  return code;
}

// Calls use(plane, bytes) for each of `planes` planes.
template <int bits, class Use>
KVANT_INLINE void for_planes(const std::uint8_t* lines, int planes, const Table& table, Use use) {
  constexpr int per_line = bits == 3 ? 2 : 8 / bits;
  if constexpr (bits == 3) {
#pragma GCC unroll 2
    for (int z = 0; z < planes; z += 8, lines += 3 * kLine) {
      const bool whole = z + 8 <= planes;
      Bytes line[3];
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        if (i == 2 && !whole) break;
        line[i] = load_bytes(lines + i * kLine);
        use(z + 2 * i, lookup(table, line[i]));
        use(z + 2 * i + 1, lookup(table, down(line[i], 3)));
      }
      if (!whole) break;
      use(z + 6, lookup(table, blend(4, down(line[1], 4), down(line[0], 6))));
      use(z + 7, lookup(table, blend(4, down(line[1], 5), down(line[2], 6))));
    }
  } else {
#pragma GCC unroll 16
    for (int z = 0; z < planes; z += per_line, lines += kLine) {
      const Bytes line = load_bytes(lines);
      if constexpr (bits == 8) {
        use(z, line);
      } else {
#pragma GCC unroll 4
        for (int i = 0; i < per_line; ++i) use(z + i, lookup(table, i ? down(line, bits * i) : line));
      }
    }
  }
}

// The keys of a tile plus `offset` (0 or 128): plane z at 64 z.
template <int bits>
void key_planes(const Layout& layout, const std::uint8_t* tile, std::uint8_t offset, std::uint8_t* planes) {
  const std::uint8_t flip = 0x80 ^ offset;  // codes of 8 bits have an offset of 128
  const Table table = table_of(layout.key.integers, offset);
  const auto keep = [&](int z, Bytes x) KVANT_LAMBDA_INLINE {
    store_bytes(planes + z * kLine, bits == 8 ? x ^ flip : x);
  };
  const std::uint8_t* lines = tile + layout.key.codes;
  int dims = layout.head_dim;
  for (; dims >= 64; dims -= 64, lines += 2 * bits * kLine, planes += 16 * kLine)
    for_planes<bits>(lines, 16, table, keep);
  for (; dims > 0 && bits != 3; dims -= 16, lines += bits * kLine / 2, planes += 4 * kLine)
    for_planes<bits>(lines, 4, table, keep);
  if (dims > 0) for_planes<bits>(lines, dims / 4, table, keep);
}

template <int bits, int groups>
KVANT_INLINE void unit_planes(const std::uint8_t* lines, const Table& table,
                              std::uint8_t* planes, int stride) {
  for_planes<bits>(lines, 4 * groups, table, [&](int z, Bytes x) KVANT_LAMBDA_INLINE {
    store_bytes(planes + z / groups * stride + z % groups * kLine, bits == 8 ? x ^ 0x80 : x);
  });
}

// The values of a tile: 4 tokens of 16 dims at 64 * (d / 16), token groups `stride` bytes apart.
template <int bits>
void value_planes(const Layout& layout, const std::uint8_t* tile, std::uint8_t* planes,
                  int stride) {
  const Table table = table_of(layout.value.integers, 0);
  const std::uint8_t* lines = tile + layout.value.codes;
  int dims = layout.head_dim;
  for (; dims >= 64; dims -= 64, lines += 2 * bits * kLine, planes += 4 * kLine)
    unit_planes<bits, 4>(lines, table, planes, stride);
  if (dims == 48) unit_planes<bits, 3>(lines, table, planes, stride);
  if (dims == 32) unit_planes<bits, 2>(lines, table, planes, stride);
  if (dims == 16) unit_planes<bits, 1>(lines, table, planes, stride);
}

// Scale and minimum of the 16 tokens as the integers want them: value = scale * integer + minimum.
KVANT_INLINE void token_numbers(const Side& side, const std::uint8_t* meta, float* scale, float* minimum) {
  const F16 raw = load_scales(side, meta);
  store(scale, raw * splat(side.step));
  if (!side.asymmetric) return;
  store(minimum, fma(raw, splat(side.lift), load_bf16(meta + 2 * kTile)));
}

#else
#define KVANT_INTEGER_PRODUCTS 0
#endif

}  // namespace
}  // namespace kvant

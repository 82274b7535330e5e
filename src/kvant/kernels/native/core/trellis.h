// trellis: windows of a ring of codes name the levels, times the rms of the vector.
#pragma once

#include "columns.h"
#include "scales.h"
#include "viterbi.h"

namespace kvant {
namespace {

typedef std::uint8_t WindowV __attribute__((vector_size(kWidth)));
typedef std::int8_t SignedV __attribute__((vector_size(kWidth)));

// The 128 integers of a trellis plus an offset, in registers. Windows from 128 on have minus what those 128 before
// have (modulo 256, so an offset may be 0 or 128).
struct Levels {
#if defined(__AVX512VBMI__)
  __m512i low, high;
  Levels(const std::int8_t* integers, std::uint8_t offset) {
    const __m512i add = _mm512_set1_epi8(static_cast<char>(offset));
    low = _mm512_add_epi8(_mm512_loadu_si512(integers), add);
    high = _mm512_add_epi8(_mm512_loadu_si512(integers + 64), add);
  }
  KVANT_INLINE U16 of(U16 windows) const {
    const __m512i w = (__m512i)windows.part[0], level = _mm512_permutex2var_epi8(low, w, high);
    windows.part[0] = (UintV)_mm512_mask_sub_epi8(level, _mm512_movepi8_mask(w), _mm512_setzero_si512(), level);
    return windows;
  }
#else
#if defined(__AVX2__)
  WindowV change[8];  // of 16 entries against the 16 before
  Levels(const std::int8_t* integers, std::uint8_t offset) {
    for (int i = 7; i > 0; --i) change[i] = sixteen(integers + 16 * i) ^ sixteen(integers + 16 * i - 16);
    change[0] = sixteen(integers) + offset;  // 0 or 128: no change between entries
  }
  static KVANT_INLINE WindowV sixteen(const std::int8_t* from) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
#if defined(__AVX512BW__)
    return (WindowV)_mm512_broadcast_i32x4(entries);
#else
    return (WindowV)_mm256_broadcastsi128_si256(entries);
#endif
  }
  // A shuffle gives zero for a negative index, so what changes beyond the entry asked for is left out.
  KVANT_INLINE WindowV look_up(WindowV index) const {
    WindowV level = {};
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
#if defined(__AVX512BW__)
      level ^= (WindowV)_mm512_shuffle_epi8((__m512i)change[i], (__m512i)index);
#else
      level ^= (WindowV)_mm256_shuffle_epi8((__m256i)change[i], (__m256i)index);
#endif
      index -= 16;
    }
    return level;
  }
#elif defined(__aarch64__)
  uint8x16x4_t low, high;
  Levels(const std::int8_t* integers, std::uint8_t offset) {
    for (int i = 0; i < 4; ++i) {
      low.val[i] = vreinterpretq_u8_s8(vld1q_s8(integers + 16 * i)) + offset;
      high.val[i] = vreinterpretq_u8_s8(vld1q_s8(integers + 64 + 16 * i)) + offset;
    }
  }
  KVANT_INLINE WindowV look_up(WindowV index) const {
    return (WindowV)vqtbx4q_u8(vqtbl4q_u8(low, (uint8x16_t)index), high, (uint8x16_t)(index - 64));
  }
#else
  std::uint8_t table[kStates / 2];
  Levels(const std::int8_t* integers, std::uint8_t offset) {
    for (int i = 0; i < kStates / 2; ++i) table[i] = static_cast<std::uint8_t>(integers[i] + offset);
  }
  WindowV look_up(WindowV index) const {
    for (int i = 0; i < kWidth; ++i) index[i] = table[index[i]];
    return index;
  }
#endif
  KVANT_INLINE U16 of(U16 windows) const {
    KVANT_PARTS(i) {
      const WindowV w = (WindowV)windows.part[i], minus = (WindowV)((SignedV)w < 0);
      windows.part[i] = (UintV)((look_up(w & 127) ^ minus) - minus);
    }
    return windows;
  }
#endif
};

// The signed bytes k of all dwords.
KVANT_INLINE F16 signed_bytes(U16 x, int k) {
  F16 r;
  KVANT_PARTS(i) r.part[i] = __builtin_convertvector((IntV)(x.part[i] << (24 - 8 * k)) >> 24, FloatV);
  return r;
}

// Quarters of four planes to where value planes have them: 4 tokens of 16 dims for each group of tokens.
KVANT_INLINE void store_values(std::uint8_t* to, int stride, const U16* x) {
#if defined(__AVX512F__)
  const __m512i a = (__m512i)x[0].part[0], b = (__m512i)x[1].part[0];
  const __m512i c = (__m512i)x[2].part[0], d = (__m512i)x[3].part[0];
  const __m512i ab = _mm512_shuffle_i32x4(a, b, 0x44), ab2 = _mm512_shuffle_i32x4(a, b, 0xEE);
  const __m512i cd = _mm512_shuffle_i32x4(c, d, 0x44), cd2 = _mm512_shuffle_i32x4(c, d, 0xEE);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(ab, cd, 0x88));
  _mm512_storeu_si512(to + stride, _mm512_shuffle_i32x4(ab, cd, 0xDD));
  _mm512_storeu_si512(to + 2 * stride, _mm512_shuffle_i32x4(ab2, cd2, 0x88));
  _mm512_storeu_si512(to + 3 * stride, _mm512_shuffle_i32x4(ab2, cd2, 0xDD));
#else
  for (int i = 0; i < 4; ++i) {
    for (int g = 0; g < 4; ++g)
      std::memcpy(to + g * stride + 16 * i, reinterpret_cast<const std::uint8_t*>(x[i].part) + 16 * g, 16);
  }
#endif
}

template <int bits>
struct Trellis {
  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const F16 scale = load_scales(side, tile + side.meta), step = splat(side.step);
    const Levels levels(side.trellis.integers, 0);
    for_windows<bits, true>(tile + side.codes, layout.head_dim, [&](int z, U16 windows) KVANT_LAMBDA_INLINE {
      const U16 integers = levels.of(windows);
      for (int q = 0; q < kColumns; ++q) store(out + 16 * (4 * z + q), signed_bytes(integers, q) * step * scale);
    });
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    alignas(64) float scale[kTile], spread[4][kTile], four[kTile];
    store(scale, load_scales(side, tile + side.meta));
    for (int t = 0; t < kTile; ++t) spread[t % 4][t / 4 * 4] = spread[t % 4][t / 4 * 4 + 1] =
        spread[t % 4][t / 4 * 4 + 2] = spread[t % 4][t / 4 * 4 + 3] = scale[t];
    const F16 step = splat(side.step);
    const Levels levels(side.trellis.integers, 0);
    const int head_dim = layout.head_dim;
    for_windows<bits, false>(tile + side.codes, head_dim, [&](int z, U16 windows) KVANT_LAMBDA_INLINE {
      const U16 integers = levels.of(windows);
      for (int k = 0; k < 4; ++k) {
        store(four, signed_bytes(integers, k) * step * load(spread[k]));
        for (int g = 0; g < 4; ++g) std::memcpy(out + (4 * g + k) * head_dim + 4 * z, four + 4 * g, 16);
      }
    });
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    const Spot spot = {tile, token};
    encode_some<1>(layout, side, x, &spot);
  }

  static void encode_together(const Layout& layout, const Side& side, const float* x, const Spot* spots) {
    encode_some<kTogether>(layout, side, x, spots);
  }

  template <int n>
  static void encode_some(const Layout& layout, const Side& side, const float* x, const Spot* spots) {
    const int head_dim = layout.head_dim;
    alignas(64) std::uint32_t found[n][kMaxHeadDim];
    alignas(64) std::uint8_t codes[n][kMaxHeadDim];
    Rows<n> rows;
    for (int v = 0; v < n; ++v, x += head_dim) {
      const float rms = __builtin_sqrtf(sum_squares(x, head_dim) / static_cast<float>(head_dim));
      const float scale = store_scale(side, spots[v].tile + side.meta, spots[v].token, rms);
      find_rows<bits>(side.trellis, x, scale, head_dim, found[v]);
      rows.of[v] = found[v];
    }
    search<bits, n>(side.trellis.distances.data(), rows, head_dim, codes);
    for (int v = 0; v < n; ++v) store_codes(side, head_dim, codes[v], spots[v]);
  }

  static void store_codes(const Side& side, int head_dim, const std::uint8_t* codes, Spot spot) {
    alignas(64) std::uint8_t ring[kMaxHeadDim / 2];
    for (int t = 0, r = 0; t < head_dim; t += 8, r += bits) {
      std::uint64_t x;  // the first in the lowest byte: neighbours, then pairs, then fours go together
      std::memcpy(&x, codes + t, 8);
      x = (x << bits | x >> 8) & 0x00FF00FF00FF00FFu;
      x = (x << 2 * bits | x >> 16) & 0x0000FFFF0000FFFFu;
      const std::uint32_t eight = static_cast<std::uint32_t>(x << 4 * bits | x >> 32);
      for (int i = 0; i < bits; ++i) ring[r + i] = static_cast<std::uint8_t>(eight >> 8 * (bits - 1 - i));
    }
    store_ring<bits>(spot.tile + side.codes, head_dim, side.is_key, spot.token, ring);
  }

  // As key_planes and value_planes of planes.h.
  static void key_planes(const Layout& layout, const std::uint8_t* tile, std::uint8_t offset, std::uint8_t* planes) {
    const Levels levels(layout.key.trellis.integers, offset);
    for_windows<bits, true>(tile + layout.key.codes, layout.head_dim, [&](int z, U16 windows) KVANT_LAMBDA_INLINE {
      const U16 integers = levels.of(windows);
      KVANT_PARTS(i) reinterpret_cast<UintU*>(planes + z * kLine)[i] = integers.part[i];
    });
  }

  static void value_planes(const Layout& layout, const std::uint8_t* tile, std::uint8_t* planes, int stride) {
    const Levels levels(layout.value.trellis.integers, 0);
    U16 four[4];
    for_windows<bits, false>(tile + layout.value.codes, layout.head_dim, [&](int z, U16 windows) KVANT_LAMBDA_INLINE {
      four[z % 4] = levels.of(windows);
      if (z % 4 == 3) store_values(planes + z / 4 * kLine, stride, four);
    });
  }
};

}  // namespace
}  // namespace kvant

// Planes of 64 codes in lines of 64 bytes: formats/packing.py in C++.
//
// Four codes of a plane share a dword. A dword of a key plane is 4 dims of one token, a dword of a
// value plane is 4 tokens of one dim, so 16 lanes hold 16 tokens or 16 dims and need no shuffle.
#pragma once

#include <cstdint>

#include "layout.h"
#include "vec.h"

namespace kvant {
namespace {

constexpr int kLine = 64;

// The codes of plane z, each in the low bits of its byte.
template <int bits>
KVANT_INLINE U16 load_plane(const std::uint8_t* lines, int z) {
  if constexpr (bits == 8) {
    return load_u32(lines + z * kLine);
  } else if constexpr (bits == 3) {
    const std::uint8_t* base = lines + z / 8 * 3 * kLine;
    const int r = z % 8;
    if (r < 6) return (load_u32(base + r / 2 * kLine) >> 3 * (r % 2)) & splat_u32(0x07070707);
    const U16 low = (load_u32(base + (r == 6 ? 0 : 2) * kLine) >> 6) & splat_u32(0x03030303);
    const U16 high = (load_u32(base + kLine) >> r) & splat_u32(0x01010101);
    return low | high << 2;
  } else {
    constexpr int per_line = 8 / bits;
    constexpr std::uint32_t mask = 0x01010101u * ((1u << bits) - 1);
    return (load_u32(lines + z / per_line * kLine) >> bits * (z % per_line)) & splat_u32(mask);
  }
}

// Code k of each dword of a plane.
KVANT_INLINE U16 code_of(U16 plane, int k) { return (plane >> 8 * k) & splat_u32(0xFF); }

KVANT_INLINE void put(std::uint8_t& byte, int field, int code) {
  byte = static_cast<std::uint8_t>((byte & ~field) | code);
}

// Writes `n` codes of plane z to every `stride`-th byte from `first`; other codes keep their bits.
template <int bits>
inline void store_plane(std::uint8_t* lines, int head_dim, int z, int first, int stride, int n,
                        const std::uint8_t* codes) {
  for (int i = 0; i < n; ++i) {
    const int byte = first + stride * i, code = codes[i];
    if constexpr (bits == 8) {
      lines[z * kLine + byte] = codes[i];
    } else if constexpr (bits == 3) {
      std::uint8_t* base = lines + z / 8 * 3 * kLine + byte;
      const int r = z % 8;
      if (r < 6) {
        // Four planes left over at the end fill two lines but for the top bits, which stay zero.
        const int spare = z / 8 * 8 + 8 > head_dim / 4 ? 0xC0 : 0;
        put(base[r / 2 * kLine], 7 << 3 * (r % 2) | spare, code << 3 * (r % 2));
      } else {
        put(base[(r == 6 ? 0 : 2) * kLine], 0xC0, (code & 3) << 6);
        put(base[kLine], 1 << r, (code >> 2) << r);
      }
    } else {
      constexpr int per_line = 8 / bits;
      const int up = bits * (z % per_line);
      put(lines[z / per_line * kLine + byte], ((1 << bits) - 1) << up, code << up);
    }
  }
}

// Stores the codes of one token.
template <int bits>
inline void pack_token(std::uint8_t* lines, int head_dim, bool is_key, int token, const std::uint8_t* codes) {
  if (is_key) {
    for (int z = 0; z < head_dim / 4; ++z)
      store_plane<bits>(lines, head_dim, z, 4 * token, 1, 4, codes + 4 * z);
    return;
  }
  for (int unit = 0; unit < head_dim; unit += 64) {
    const int width = head_dim - unit < 64 ? head_dim - unit : 64;
    const int first = unit / 4 + width / 16 * (token / 4);
    for (int j = 0; j < width / 16; ++j) {
      store_plane<bits>(lines, head_dim, first + j, token % 4, 4, 16, codes + unit + 16 * j);
    }
  }
}

// Calls use(dim, codes of 16 tokens) for every dim of a key tile.
template <int bits, class Use>
KVANT_INLINE void for_key_dims(const std::uint8_t* lines, int head_dim, Use use) {
  for (int z = 0; z < head_dim / 4; ++z) {
    const U16 plane = load_plane<bits>(lines, z);
    for (int k = 0; k < 4; ++k) use(4 * z + k, code_of(plane, k));
  }
}

// Calls use(token, dim, codes of 16 dims from there) for every token of a value tile.
template <int bits, class Use>
KVANT_INLINE void for_value_dims(const std::uint8_t* lines, int head_dim, Use use) {
  for (int unit = 0; unit < head_dim; unit += 64) {
    const int width = head_dim - unit < 64 ? head_dim - unit : 64;
    for (int z = 0; z < width / 4; ++z) {
      const int token = z / (width / 16) * 4, dim = unit + z % (width / 16) * 16;
      const U16 plane = load_plane<bits>(lines, unit / 4 + z);
      for (int k = 0; k < 4; ++k) use(token + k, dim, code_of(plane, k));
    }
  }
}

}  // namespace
}  // namespace kvant

// polar: angles of nested pairs, 46 bits for a block of 16 values, then a bfloat16 radius for each.
#pragma once

#include <cmath>

#include "convert.h"
#include "layout.h"

namespace kvant {
namespace {

struct Polar {
  static int angle_bytes(int head_dim) { return (head_dim / kPolarBlock * kPolarBits + 7) / 8; }
  static int token_bytes(int head_dim) { return angle_bytes(head_dim) + head_dim / kPolarBlock * 2; }

  static void decode_token(const Layout& layout, const Side& side, const std::uint8_t* tile, int token,
                           float* out) {
    const int head_dim = layout.head_dim;
    const std::uint8_t* from = tile + side.codes + token * token_bytes(head_dim);
    const std::uint8_t* radii = from + angle_bytes(head_dim);
    const PolarTables& table = side.polar;
    for (int block = 0; block < head_dim / kPolarBlock; ++block) {
      const int bit = block * kPolarBits;
      std::uint64_t angles;
      std::memcpy(&angles, from + bit / 8, 8);  // never past the token: the radii follow
      angles >>= bit % 8;
      float radius[kPolarBlock] = {from_bf16(read_u16(radii + 2 * block))};
      // One radius becomes two at each level, in place from the back.
      for (int level = 2, count = 1, shift = 44; level >= 0; --level, count *= 2, shift -= 2 * count) {
        for (int i = count - 1; i >= 0; --i) {
          const int code = static_cast<int>(angles >> (shift + 2 * i)) & 3;
          const float r = radius[i];
          radius[2 * i] = r * table.cos[level][code];
          radius[2 * i + 1] = r * table.sin[level][code];
        }
      }
      for (int i = 0; i < 8; ++i) {
        const int code = static_cast<int>(angles >> 4 * i) & 15;
        out[block * kPolarBlock + 2 * i] = radius[i] * table.cos_first[code];
        out[block * kPolarBlock + 2 * i + 1] = radius[i] * table.sin_first[code];
      }
    }
  }

  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    alignas(64) float x[kMaxHeadDim];
    for (int t = 0; t < kTile; ++t) {
      decode_token(layout, side, tile, t, x);
      for (int d = 0; d < layout.head_dim; ++d) out[16 * d + t] = x[d];
    }
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    for (int t = 0; t < kTile; ++t) decode_token(layout, side, tile, t, out + t * layout.head_dim);
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    const int head_dim = layout.head_dim;
    std::uint8_t* to = tile + side.codes + token * token_bytes(head_dim);
    std::uint8_t* radii = to + angle_bytes(head_dim);
    std::memset(to, 0, static_cast<unsigned>(angle_bytes(head_dim)));
    for (int block = 0; block < head_dim / kPolarBlock; ++block) {
      float radius[kPolarBlock];
      std::memcpy(radius, x + block * kPolarBlock, sizeof radius);
      std::uint64_t angles = 0;
      for (int level = 0, count = 8, shift = 0; level < 4; ++level, count /= 2) {
        const int width = level == 0 ? 4 : 2;
        for (int i = 0; i < count; ++i) {
          const float a = radius[2 * i], b = radius[2 * i + 1];
          const std::uint64_t code = level == 0 ? first_code(a, b) : nested_code(side.polar, level, a, b);
          angles |= code << shift;
          shift += width;
          radius[i] = __builtin_sqrtf(a * a + b * b);
        }
      }
      write_u16(radii + 2 * block, to_bf16(radius[0]));
      const int bit = block * kPolarBits;
      angles <<= bit % 8;
      for (std::uint8_t* byte = to + bit / 8; angles; ++byte, angles >>= 8) *byte |= angles & 0xFF;
    }
  }

  static std::uint64_t first_code(float a, float b) {
    const float sixteenth = __builtin_floorf(::atan2f(b, a) * 2.5464790894703255f);  // 8 / pi
    return is_nan(sixteenth) ? 0 : static_cast<std::uint64_t>(static_cast<int>(sixteenth) & 15);
  }

  static std::uint64_t nested_code(const PolarTables& table, int level, float a, float b) {
    const float angle = ::atan2f(b, a);
    std::uint64_t code = 0;
    for (float edge : table.edges[level - 1]) code += !(angle <= edge);
    return code;
  }
};

}  // namespace
}  // namespace kvant

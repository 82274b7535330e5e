// bf16: token after token, (16, D) little-endian.
#pragma once

#include "convert.h"
#include "layout.h"

namespace kvant {
namespace {

struct BF16 {
  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const int head_dim = layout.head_dim;
    const std::uint8_t* codes = tile + side.codes;
    for (int d = 0; d < head_dim; d += 2) {
      alignas(64) std::uint32_t pairs[kTile];
      for (int t = 0; t < kTile; ++t) std::memcpy(pairs + t, codes + 2 * (t * head_dim + d), 4);
      const U16 both = load_u32(pairs);
      store(out + 16 * d, as_float(both << 16));
      store(out + 16 * d + 16, as_float(both & splat_u32(0xFFFF0000u)));
    }
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const std::uint8_t* codes = tile + side.codes;
    for (int i = 0; i < kTile * layout.head_dim; ++i) out[i] = from_bf16(read_u16(codes + 2 * i));
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    std::uint8_t* codes = tile + side.codes + 2 * token * layout.head_dim;
    for (int d = 0; d < layout.head_dim; ++d) write_u16(codes + 2 * d, to_bf16(x[d]));
  }
};

}  // namespace
}  // namespace kvant

// residual: a codebook key, one sign per dim of the sketched rest, and the norm of the rest.
//
// A score is q.base + c |r| sum_i sign_i (S q)_i, so the query is sketched once and a decoded tile
// has 2 D rows: the base's values, then the signs times |r|.
#pragma once

#include "codebook.h"
#include "rotation.h"

namespace kvant {
namespace {

template <int bits>
struct Residual {
  using Base = Codebook<bits>;

  static const std::uint8_t* signs_of(const Layout& layout, const Side& side, const std::uint8_t* tile) {
    return tile + side.codes + side.code_bytes - kTile * layout.head_dim / 8;
  }
  static int norm_offset(const Side& side) { return side.meta + kTile * (side.byte_scale ? 1 : 2); }

  static void sketch(const Layout& layout, const Side& side, float* x) {
    times(x, side.signs, layout.head_dim);
    mix(layout.mixing, x);
    times(x, side.signs + layout.head_dim, layout.head_dim);
    mix(layout.mixing, x);
  }
  static void unsketch(const Layout& layout, const Side& side, float* x) {
    mix(layout.mixing, x);
    times(x, side.signs + layout.head_dim, layout.head_dim);
    mix(layout.mixing, x);
    times(x, side.signs, layout.head_dim);
  }

  // Appends c S q to a query.
  static void prepare(const Layout& layout, const Side& side, float* query) {
    float* second = query + layout.head_dim;
    std::memcpy(second, query, sizeof(float) * static_cast<unsigned>(layout.head_dim));
    sketch(layout, side, second);
    const F16 weight = splat(side.weight);
    for (int d = 0; d < layout.head_dim; d += 16) store(second + d, load(second + d) * weight);
  }

  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    Base::decode_key(layout, side, tile, out);
    const int head_dim = layout.head_dim;
    const std::uint8_t* signs = signs_of(layout, side, tile);
    const U16 norm = as_bits(load_bf16(tile + norm_offset(side)));
    out += 16 * head_dim;
    for (int d = 0; d < head_dim; d += 8) {
      alignas(64) std::uint32_t bytes[kTile];
      for (int t = 0; t < kTile; ++t) bytes[t] = signs[(t * head_dim + d) / 8];
      const U16 eight = load_u32(bytes);
      for (int i = 0; i < 8; ++i) {
        store(out + 16 * (d + i), as_float(norm ^ ((eight << (31 - i)) & splat_u32(0x80000000u))));
      }
    }
  }

  // One token as a vector: base + c |r| S' signs.
  static void decode_token(const Layout& layout, const Side& side, const std::uint8_t* tile, int token,
                           const float* base, float* out) {
    const int head_dim = layout.head_dim;
    const std::uint8_t* signs = signs_of(layout, side, tile) + token * head_dim / 8;
    const float weight = side.weight * from_bf16(read_u16(tile + norm_offset(side) + 2 * token));
    alignas(64) float rest[kMaxHeadDim];
    for (int d = 0; d < head_dim; ++d) rest[d] = (signs[d / 8] >> (d % 8) & 1) ? -1.0f : 1.0f;
    unsketch(layout, side, rest);
    for (int d = 0; d < head_dim; ++d) out[d] = base[d] + weight * rest[d];
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    const int head_dim = layout.head_dim;
    alignas(64) std::uint8_t codes[kMaxHeadDim];
    const float scale = Base::choose(layout, side, x, tile, token, codes);
    pack_token<bits>(tile + side.codes, head_dim, side.is_key, token, codes);
    alignas(64) float rest[kMaxHeadDim];
    for (int d = 0; d < head_dim; ++d) rest[d] = x[d] - side.levels[codes[d]] * scale;
    write_u16(tile + norm_offset(side) + 2 * token, to_bf16(__builtin_sqrtf(sum_squares(rest, head_dim))));
    sketch(layout, side, rest);
    std::uint8_t* signs = const_cast<std::uint8_t*>(signs_of(layout, side, tile)) + token * head_dim / 8;
    for (int d = 0; d < head_dim; d += 8) {
      int byte = 0;
      for (int i = 0; i < 8; ++i) byte |= (rest[d + i] < 0) << i;
      signs[d / 8] = static_cast<std::uint8_t>(byte);
    }
  }
};

}  // namespace
}  // namespace kvant

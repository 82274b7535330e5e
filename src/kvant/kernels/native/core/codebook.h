// codebook: levels of the normal density times the rms of the vector.
#pragma once

#include "packing.h"
#include "scales.h"

namespace kvant {
namespace {

template <int bits>
struct Codebook {
  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const F16 scale = load_scales(side, tile + side.meta), levels = load(side.levels);
    for_key_dims<bits>(tile + side.codes, layout.head_dim, [&](int d, U16 code) KVANT_LAMBDA_INLINE {
      store(out + 16 * d, lookup(levels, code) * scale);
    });
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    alignas(64) float scale[kTile];
    store(scale, load_scales(side, tile + side.meta));
    const F16 levels = load(side.levels);
    const int head_dim = layout.head_dim;
    for_value_dims<bits>(tile + side.codes, head_dim, [&](int t, int d, U16 code) KVANT_LAMBDA_INLINE {
      store(out + t * head_dim + d, lookup(levels, code) * splat(scale[t]));
    });
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    alignas(64) std::uint8_t codes[kMaxHeadDim];
    choose(layout, side, x, tile, token, codes);
    pack_token<bits>(tile + side.codes, layout.head_dim, side.is_key, token, codes);
  }

  // Stores the scale, writes the nearest codes and returns the scale as stored.
  static float choose(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token,
                      std::uint8_t* codes) {
    const int head_dim = layout.head_dim;
    const float rms = __builtin_sqrtf(sum_squares(x, head_dim) / static_cast<float>(head_dim));
    const float scale = store_scale(side, tile + side.meta, token, rms);
    for (int d = 0; d < head_dim; ++d) {
      const float y = scale > 0 ? x[d] / scale : 0.0f;
      int code = 0;
      for (int i = 0; i < (1 << bits) - 1; ++i) code += !(y <= side.edges[i]);  // NaN sorts last
      codes[d] = static_cast<std::uint8_t>(code);
    }
    return scale;
  }
};

}  // namespace
}  // namespace kvant

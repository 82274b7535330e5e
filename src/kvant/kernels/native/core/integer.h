// int8 and int4: scale * (code - 2^(b-1)), or minimum + scale * code.
#pragma once

#include "packing.h"
#include "scales.h"

namespace kvant {
namespace {

template <int bits, bool asymmetric>
struct Integer {
  static constexpr int kMiddle = asymmetric ? 0 : 1 << (bits - 1);
  static constexpr int kLow = asymmetric ? 0 : 1;
  static constexpr int kHigh = (1 << bits) - 1;
  static constexpr int kSteps = asymmetric ? kHigh : kMiddle - 1;

  static KVANT_INLINE F16 value(U16 code, F16 scale, F16 minimum) {
    const F16 x = to_float(code);
    if constexpr (asymmetric) return x * scale + minimum;
    return (x - splat(kMiddle)) * scale;
  }

  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const F16 scale = load_bf16(tile + side.meta);
    const F16 minimum = asymmetric ? load_bf16(tile + side.meta + 2 * kTile) : scale;
    for_key_dims<bits>(tile + side.codes, layout.head_dim, [&](int d, U16 code) KVANT_LAMBDA_INLINE {
      store(out + 16 * d, value(code, scale, minimum));
    });
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    alignas(64) float scale[kTile], minimum[kTile] = {};
    store(scale, load_bf16(tile + side.meta));
    if (asymmetric) store(minimum, load_bf16(tile + side.meta + 2 * kTile));
    const int head_dim = layout.head_dim;
    for_value_dims<bits>(tile + side.codes, head_dim, [&](int t, int d, U16 code) KVANT_LAMBDA_INLINE {
      store(out + t * head_dim + d, value(code, splat(scale[t]), splat(minimum[t])));
    });
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    const int head_dim = layout.head_dim;
    std::uint8_t* meta = tile + side.meta + 2 * token;
    float minimum = 0, reach = 0;
    if constexpr (asymmetric) {
      float smallest = x[0];
      for (int d = 1; d < head_dim; ++d) smallest = x[d] < smallest || is_nan(x[d]) ? x[d] : smallest;
      const std::uint16_t raw = to_bf16_down(smallest);
      write_u16(meta + 2 * kTile, raw);
      minimum = from_bf16(raw);
    }
    bool bad = false;
    for (int d = 0; d < head_dim; ++d) {
      const float y = asymmetric ? x[d] - minimum : __builtin_fabsf(x[d]);
      reach = y > reach ? y : reach;
      bad |= is_nan(y);
    }
    const std::uint16_t raw = to_bf16_up(bad ? __builtin_nanf("") : reach / kSteps);
    write_u16(meta, raw);
    const float scale = from_bf16(raw);
    alignas(64) std::uint8_t codes[kMaxHeadDim];
    for (int d = 0; d < head_dim; ++d) codes[d] = code_of_value(x[d] - minimum, scale);
    pack_token<bits>(tile + side.codes, head_dim, side.is_key, token, codes);
  }

  static KVANT_INLINE std::uint8_t code_of_value(float x, float scale) {
    float q = scale > 0 ? x / scale : 0.0f;
    q = is_nan(q) ? 0.0f : q;
    q = q < kLow - kMiddle ? kLow - kMiddle : q;
    q = q > kHigh - kMiddle ? kHigh - kMiddle : q;
    q = (q + 12582912.0f) - 12582912.0f;  // to the nearest integer, ties to even
    return static_cast<std::uint8_t>(static_cast<int>(q) + kMiddle);
  }
};

}  // namespace
}  // namespace kvant

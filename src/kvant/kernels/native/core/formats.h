// The formats by kind and width: where a side of a layout finds its functions.
//
// To add a format: its struct in a file here, a case below. A faster path of one instruction set for
// one format (scores or weighted values on the codes themselves) replaces a pointer here.
#pragma once

#include "bf16.h"
#include "codebook.h"
#include "integer.h"
#include "planes.h"
#include "polar.h"
#include "residual.h"
#include "scores.h"
#include "trellis.h"
#include "values.h"

namespace kvant {
namespace {

struct Codec {
  void (*encode)(const Layout&, const Side&, const float* x, std::uint8_t* tile, int token);
  // kTogether rows of head_dim floats, faster than one by one; null for most.
  void (*encode_together)(const Layout&, const Side&, const float* x, const Spot* spots);
  // [query_width][16] and [16][head_dim]
  void (*decode_key)(const Layout&, const Side&, const std::uint8_t* tile, float* out);
  void (*decode_value)(const Layout&, const Side&, const std::uint8_t* tile, float* out);
  // A key that is not simply a row of decode_key; null for most.
  void (*decode_token)(const Layout&, const Side&, const std::uint8_t* tile, int token, const float* base,
                       float* out);
  // Completes a query of head_dim floats to query_width; null where they are equal.
  void (*prepare)(const Layout&, const Side&, float* query);
  void (*scores)(const Layout&, const std::uint8_t* tile, const float* queries, int stride, int count,
                 float* scores, float* room);
  void (*weigh)(const Layout&, const std::uint8_t* tile, const Run* runs, int num_runs, const float* weights,
                float* states, int stride, float* room);
  // Codes as integers of a byte; null where a format (or this instruction set) has none.
  void (*key_planes)(const Layout&, const std::uint8_t* tile, std::uint8_t offset, std::uint8_t* planes);
  void (*value_planes)(const Layout&, const std::uint8_t* tile, std::uint8_t* planes,
                       int stride);
};

template <class F>
const Codec& simple() {
  static constexpr Codec codec = {F::encode, nullptr, F::decode_key, F::decode_value, nullptr, nullptr,
                                  score_tile<F>, weigh_tile<F>, nullptr, nullptr};
  return codec;
}

template <class F, int bits>
const Codec& integers() {
#if KVANT_INTEGER_PRODUCTS
  static constexpr Codec codec = {F::encode, nullptr, F::decode_key, F::decode_value, nullptr, nullptr,
                                  score_tile<F>, weigh_tile<F>, key_planes<bits>, value_planes<bits>};
  return codec;
#else
  return simple<F>();
#endif
}

template <int bits>
const Codec& trellis() {
#if KVANT_INTEGER_PRODUCTS
  using F = Trellis<bits>;
  static constexpr Codec codec = {F::encode, kTogether > 1 ? F::encode_together : nullptr, F::decode_key,
                                  F::decode_value, nullptr, nullptr, score_tile<F>,
                                  weigh_tile<F>, F::key_planes, F::value_planes};
  return codec;
#else
  return simple<Trellis<bits>>();
#endif
}

template <int bits>
const Codec& residual() {
  using F = Residual<bits>;
  static constexpr Codec codec = {F::encode, nullptr, F::decode_key, nullptr, F::decode_token,
                                  F::prepare, score_tile<F>, nullptr, nullptr, nullptr};
  return codec;
}

// The layout's constructor has refused every other combination.
inline const Codec& codec_of(const Side& side) {
  switch (side.kind) {
    case Kind::integer:
      if (side.bits == 8) return side.asymmetric ? integers<Integer<8, true>, 8>() : integers<Integer<8, false>, 8>();
      return side.asymmetric ? integers<Integer<4, true>, 4>() : integers<Integer<4, false>, 4>();
    case Kind::codebook:
      return side.bits == 4   ? integers<Codebook<4>, 4>()
             : side.bits == 3 ? integers<Codebook<3>, 3>()
                              : integers<Codebook<2>, 2>();
    case Kind::residual:
      return side.bits == 4 ? residual<4>() : side.bits == 3 ? residual<3>() : residual<2>();
    case Kind::trellis:
      return side.bits == 4 ? trellis<4>() : side.bits == 3 ? trellis<3>() : trellis<2>();
    case Kind::polar:
      return simple<Polar>();
    case Kind::bf16:
      break;
  }
  return simple<BF16>();
}

}  // namespace
}  // namespace kvant

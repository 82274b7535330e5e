// The formats by kind and width: where a side of a layout finds its functions.
//
// To add a format: its struct in a file here, a case below. A faster path of one instruction set for
// one format (scores or weighted values on the codes themselves) replaces a pointer here.
#pragma once

#include "bf16.h"
#include "codebook.h"
#include "integer.h"
#include "polar.h"
#include "residual.h"
#include "scores.h"
#include "values.h"

namespace kvant {
namespace {

struct Codec {
  void (*encode)(const Layout&, const Side&, const float* x, std::uint8_t* tile, int token);
  // [query_width][16] and [16][head_dim]
  void (*decode_key)(const Layout&, const Side&, const std::uint8_t* tile, float* out);
  void (*decode_value)(const Layout&, const Side&, const std::uint8_t* tile, float* out);
  // A key that is not simply a row of decode_key; null for most.
  void (*decode_token)(const Layout&, const Side&, const std::uint8_t* tile, int token, const float* base,
                       float* out);
  // Completes a query of head_dim floats to query_width; null where they are equal.
  void (*prepare)(const Layout&, const Side&, float* query);
  void (*scores)(const Layout&, const std::uint8_t* tile, const float* queries, int count, float* scores,
                 float* room);
  void (*weigh)(const Layout&, const std::uint8_t* tile, const Run* runs, int num_runs, const float* weights,
                float* states, int stride, float* room);
};

template <class F>
const Codec& simple() {
  static constexpr Codec codec = {F::encode, F::decode_key, F::decode_value, nullptr,
                                  nullptr,   score_tile<F>, weigh_tile<F>};
  return codec;
}

template <int bits>
const Codec& residual() {
  using F = Residual<bits>;
  static constexpr Codec codec = {F::encode,  F::decode_key, nullptr, F::decode_token,
                                  F::prepare, score_tile<F>, nullptr};
  return codec;
}

// The layout's constructor has refused every other combination.
inline const Codec& codec_of(const Side& side) {
  switch (side.kind) {
    case Kind::integer:
      if (side.bits == 8) return side.asymmetric ? simple<Integer<8, true>>() : simple<Integer<8, false>>();
      return side.asymmetric ? simple<Integer<4, true>>() : simple<Integer<4, false>>();
    case Kind::codebook:
      return side.bits == 4   ? simple<Codebook<4>>()
             : side.bits == 3 ? simple<Codebook<3>>()
                              : simple<Codebook<2>>();
    case Kind::residual:
      return side.bits == 4 ? residual<4>() : side.bits == 3 ? residual<3>() : residual<2>();
    case Kind::polar:
      return simple<Polar>();
    case Kind::bf16:
      break;
  }
  return simple<BF16>();
}

}  // namespace
}  // namespace kvant

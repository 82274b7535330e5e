// Encode: rotate new keys and values, choose codes, write them into their pages.
#pragma once

#include "calls.h"
#include "convert.h"
#include "formats.h"
#include "rotation.h"

namespace kvant {
namespace {

// Tokens of one tile may share bytes, so one tile of one head is written by one thread, in the order
// of the tokens: every thread looks at all slots and takes those whose tile is its own.
inline void encode(const EncodeCall& call, int thread, int threads) {
  const Layout& layout = *call.layout;
  const Codec &key = codec_of(layout.key), &value = codec_of(layout.value);
  const int head_dim = layout.head_dim, tiles = layout.block_size / kTile;
  for (std::int64_t i = 0; i < call.num_tokens; ++i) {
    const std::int64_t slot = call.slots[i];
    if (slot < 0) continue;
    const std::int64_t block = slot / layout.block_size;
    const int offset = static_cast<int>(slot % layout.block_size), token = offset % kTile;
    for (int head = 0; head < layout.num_kv_heads; ++head) {
      if ((slot / kTile + head) % threads != thread) continue;
      std::uint8_t* tile = call.pages + block * call.page_stride +
                           static_cast<std::int64_t>(head * tiles + offset / kTile) * layout.tile_bytes;
      alignas(64) float x[kMaxHeadDim];
      load_row(call.key, call.type, i * call.key_stride + head * head_dim, head_dim, x);
      if (call.key_signs) rotate(layout.mixing, x, call.key_signs + head * head_dim);
      key.encode(layout, layout.key, x, tile, token);
      load_row(call.value, call.type, i * call.value_stride + head * head_dim, head_dim, x);
      if (call.value_signs) rotate(layout.mixing, x, call.value_signs + head * head_dim);
      value.encode(layout, layout.value, x, tile, token);
    }
  }
}

}  // namespace
}  // namespace kvant

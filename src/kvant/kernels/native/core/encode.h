// Encode: transform new keys and values, choose codes, write them into their pages.
#pragma once

#include "calls.h"
#include "convert.h"
#include "dense.h"
#include "formats.h"
#include "rotation.h"

namespace kvant {
namespace {

// Where a token of one head is stored.
struct Place {
  Spot codes;
  std::uint8_t* exact;  // null = only its codes
};

inline void store_exact(const EncodeCall& call, bool is_key, const float* x, const Place& place) {
  if (!place.exact) return;
  const Layout& layout = *call.exact.layout;
  const Side& side = is_key ? layout.key : layout.value;
  codec_of(side).encode(layout, side, x, place.exact, place.codes.token);
}

// Rows of head_dim floats.
inline void store_sides(const EncodeCall& call, bool is_key, const float* x, const Place* places, int count) {
  const Layout& layout = *call.layout;
  const Side& side = is_key ? layout.key : layout.value;
  const Codec& codec = codec_of(side);
  const int head_dim = layout.head_dim;
  for (int r = 0; r < count; ++r) store_exact(call, is_key, x + r * head_dim, places[r]);
  int r = 0;
  for (; codec.encode_together && r + kTogether <= count; r += kTogether) {
    Spot spots[kTogether];
    for (int v = 0; v < kTogether; ++v) spots[v] = places[r + v].codes;
    codec.encode_together(layout, side, x + r * head_dim, spots);
  }
  for (; r < count; ++r) codec.encode(layout, side, x + r * head_dim, places[r].codes.tile, places[r].codes.token);
}

// Vectors wait here for others of their head: a matrix is read once for all of them.
class Transformed {
 public:
  Transformed(const EncodeCall& call, bool is_key, int head)
      : call_(call), is_key_(is_key), dim_(call.layout->head_dim),
        mean_((is_key ? call.key_mean : call.value_mean) + head * dim_),
        matrix_((is_key ? call.key_matrix : call.value_matrix) + static_cast<std::int64_t>(head) * dim_ * dim_) {}

  void add(const float* x, const Place& place) {
    for (int d = 0; d < dim_; d += 16) store(rows_ + count_ * dim_ + d, load(x + d) - load(mean_ + d));
    places_[count_++] = place;
    if (count_ == kBlockRows) flush();
  }

  void flush() {
    alignas(64) float stored[kBlockRows * kMaxHeadDim];
    multiply_matrix(matrix_, dim_, rows_, count_, stored, dim_);
    store_sides(call_, is_key_, stored, places_, count_);
    count_ = 0;
  }

 private:
  const EncodeCall& call_;
  bool is_key_;
  int dim_, count_ = 0;
  const float *mean_, *matrix_;
  Place places_[kBlockRows];
  alignas(64) float rows_[kBlockRows * kMaxHeadDim];
};

// Tokens of one tile may share bytes, so one tile of one head is written by one thread, in the order
// of the tokens: every thread looks at all slots and takes those whose tile is its own.
template <class Use>
KVANT_INLINE void for_tokens(const EncodeCall& call, int head, int thread, int threads, Use use) {
  const Layout& layout = *call.layout;
  const int tiles = layout.block_size / kTile;
  for (std::int64_t i = 0; i < call.num_tokens; ++i) {
    const std::int64_t slot = call.slots[i];
    if (slot < 0 || (slot / kTile + head) % threads != thread) continue;
    const std::int64_t block = slot / layout.block_size;
    const int offset = static_cast<int>(slot % layout.block_size);
    const std::int32_t page = call.exact.layout ? call.exact_pages[i] : kNoPage;
    std::uint8_t* tile = call.pages + block * call.page_stride +
                         static_cast<std::int64_t>(head * tiles + offset / kTile) * layout.tile_bytes;
    use(i, Place{{tile, offset % kTile}, page == kNoPage ? nullptr : call.exact.tile(page, head)});
  }
}

inline void encode_side(const EncodeCall& call, bool is_key, int head, int thread, int threads) {
  const Layout& layout = *call.layout;
  const int head_dim = layout.head_dim;
  const void* from = is_key ? call.key : call.value;
  const std::int64_t stride = is_key ? call.key_stride : call.value_stride;
  const float* signs = is_key ? call.key_signs : call.value_signs;
  alignas(64) float x[kMaxHeadDim];
  const auto fetch = [&](std::int64_t i) { load_row(from, call.type, i * stride + head * head_dim, head_dim, x); };
  if (is_key ? call.key_matrix : call.value_matrix) {
    Transformed batch(call, is_key, head);
    for_tokens(call, head, thread, threads, [&](std::int64_t i, const Place& place) {
      fetch(i);
      batch.add(x, place);
    });
    return batch.flush();
  }
  for_tokens(call, head, thread, threads, [&](std::int64_t i, const Place& place) {
    fetch(i);
    if (signs) rotate(layout.mixing, x, signs + head * head_dim);
    store_sides(call, is_key, x, &place, 1);
  });
}

inline void encode(const EncodeCall& call, int thread, int threads) {
  for (int head = 0; head < call.layout->num_kv_heads; ++head) {
    encode_side(call, true, head, thread, threads);
    encode_side(call, false, head, thread, threads);
  }
}

}  // namespace
}  // namespace kvant

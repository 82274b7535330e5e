// The arguments of the kernels, and the table of functions that each instruction set fills.
#pragma once

#include <cstdint>

#include "layout.h"

namespace kvant {

constexpr int kRows = 128;     // query rows (tokens x heads of a group) that share a decoded tile
constexpr int kStretch = 128;  // tokens between two looks at the running maximum
constexpr int kRange = 1024;   // tokens of one partial result

// Tokens stored in 16 bits beside their codes, in pages of one tile of all heads. Page n >= 0 lives from
// step to step; page n < 0 is page ~n of the step at hand.
struct ExactPages {
  const Layout* layout = nullptr;  // bf16; null = there are none
  std::uint8_t *kept = nullptr, *staged = nullptr;
  std::int64_t num_kept = 0, num_staged = 0;

  std::uint8_t* tile(std::int32_t page, int head) const {
    return (page < 0 ? staged + ~page * layout->page_bytes : kept + page * layout->page_bytes) +
           static_cast<std::int64_t>(head) * layout->tile_bytes;
  }
  bool has(std::int32_t page) const { return page < 0 ? ~page < num_staged : page < num_kept; }
};
constexpr std::int32_t kNoPage = INT32_MIN;

struct EncodeCall {
  const Layout* layout;
  std::uint8_t* pages;
  std::int64_t page_stride;  // bytes between pages: page_bytes, or more where vLLM pads
  const void* key;
  const void* value;
  std::int64_t key_stride, value_stride;  // elements between tokens
  Type type;
  const std::int64_t* slots;
  std::int64_t num_tokens;
  const float* key_signs;  // [KV head][head_dim], null = no rotation
  const float* value_signs;
  const float* key_mean;    // [KV head][head_dim], with key_matrix
  const float* key_matrix;  // [KV head][head_dim][head_dim]: (k - mean) M is stored; null = none
  const float* value_mean;  // the same of values
  const float* value_matrix;
  ExactPages exact;
  const std::int32_t* exact_pages;  // [token], kNoPage = only its codes are stored
};

struct AttendCall {
  const Layout* layout;
  const std::uint8_t* pages;
  std::int64_t page_stride;
  const void* query;
  void* out;
  std::int64_t query_stride, out_stride;  // elements between tokens
  Type type;
  const std::int32_t* block_table;
  std::int64_t block_table_stride;
  int num_q_heads;
  int group;  // query heads of one KV head
  float scale;
  int window;          // 0 = none
  float softcap;       // 0 = none
  const float* sinks;  // [query head], null = none
  const float* key_signs;
  const float* value_signs;
  const float* key_query;  // [KV head][head_dim][head_dim]: q N reads keys that were stored as (k - mean) M
  const float* value_mean;    // [KV head][head_dim], with value_output
  const float* value_output;  // [KV head][head_dim][head_dim]: o M^-1 + mean is the output; null = none
  ExactPages exact;
  int exact_window;                 // a query reads so many positions up to its own in 16 bits
  const std::int32_t* exact_tiles;  // [sequence][exact_stride] pages: of the sinks, then of the window
  std::int64_t exact_stride;
  const std::int32_t* exact_first;  // [sequence] position of the first tile after those of the sinks
  const std::int32_t* exact_from;   // [sequence] older positions are not there, whatever the window
  const std::int32_t* exact_sinks;  // [sequence] leading positions that are read in 16 bits
  int sink_tiles;
  bool precise;  // float products of decoded values instead of integer products of the codes
};

// One sequence as planned. Its rows are (query token, head of the group), token by token.
struct Sequence {
  std::int64_t first_item;   // work items before this sequence
  std::int64_t first_block;  // row blocks (of all KV heads) before this sequence
  std::int64_t partials;     // row states before this sequence
  std::int64_t first_token;  // row of `query` and `out`
  std::int32_t index;        // row of the block table
  std::int32_t position;     // of its first query token
  std::int32_t rows;         // of one KV head
  std::int32_t blocks;       // of one KV head
  std::int32_t first_range;  // the first one that any row reads
  std::int32_t ranges;
  bool split;  // ranges are items of their own, merged afterwards
};

// The running softmax of one row: maximum, sum, padding, then head_dim weighted values.
constexpr int kStateHead = 16;
inline int state_floats(const Layout& layout) { return kStateHead + layout.head_dim; }

// Sizes in the scratch of one thread, in floats; every part starts on a cache line.
constexpr int kTermRows = 2 * kRows + 16;  // two terms a row, and what a matrix unit reads beyond the last
constexpr int kBand = 16;  // rows at a time, so that their sums and terms stay in the first cache
constexpr int kUnit = 64;  // dims are padded to this many where products of codes are taken
inline int padded_dim(const Layout& layout) { return (layout.head_dim + kUnit - 1) / kUnit * kUnit; }
inline int plane_bytes(const Layout& layout) { return kStretch * padded_dim(layout); }
inline int product_width(const Layout& layout) {
  return layout.head_dim > kStretch ? padded_dim(layout) : kStretch;
}
inline std::int64_t scratch_floats(const Layout& layout) {
  const std::int64_t row = layout.query_width() + kStretch + 2 * state_floats(layout);
  const std::int64_t term_row = 1 + padded_dim(layout) / 4, band_row = product_width(layout) + kStretch / 4;
  return kRows * row + kTermRows * term_row + 2 * kBand * band_row + kTile * layout.query_width() +
         2 * plane_bytes(layout) / 4 + 64;
}

struct Kernels {
  // Encodes the tokens whose tile belongs to `thread`.
  void (*encode)(const EncodeCall& call, int thread, int threads);
  // One row block over all its context: from queries to outputs.
  void (*attend)(const AttendCall& call, const Sequence& seq, int head, int block, float* scratch);
  // One row block over one range: states of its rows, `stride` states apart.
  void (*attend_range)(const AttendCall& call, const Sequence& seq, int head, int block, int range,
                       float* states, int stride, float* scratch);
  // The outputs of a row block from the states of its ranges.
  void (*merge)(const AttendCall& call, const Sequence& seq, int head, int block, const float* states,
                float* scratch);
  void (*decode_tile)(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out);
  void (*rotate)(const Mixing& mixing, const float* x, float* y, std::int64_t n, const float* signs,
                 bool inverse);
  std::uint32_t (*read_pages)(const std::uint8_t* pages, std::int64_t page_stride, std::int64_t page_bytes,
                              const std::int32_t* order, std::int64_t first, std::int64_t last);
};

}  // namespace kvant

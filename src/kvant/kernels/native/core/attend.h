// Attention of a block of query rows over the packed pages of one KV head.
//
// Context is cut at absolute multiples of kStretch (one softmax step) and of kRange (one partial
// state), and every sum runs in the order of dims or tokens. So the result of a row depends on
// nothing but the row: not on its block, the batch, the chunk it came in or the number of threads.
//
// Within a stretch come the sinks and then the recent window, both read from 16-bit tiles by float
// products, around the tokens between them, which are read from their codes.
#pragma once

#include "bands.h"
#include "floats.h"

namespace kvant {
namespace {

// Adds the tokens of one stretch that are read from their codes to `states`.
inline void attend_codes(const AttendCall& call, Block& block, int start, const std::uint8_t* const* tiles,
                         int num_tiles, float* states, int stride) {
  Stretch s = {*call.layout, block.codes, start, 0, 0, 0, 0, tiles, num_tiles};
  if (!s.narrow(block.count)) return;
  if (!block.integer_key) score_floats(call, block, s);
#if KVANT_INTEGER_PRODUCTS
  if (block.integer_key || block.integer_value) attend_bands(call, block, s, states, stride);
#endif
  if (!block.integer_value) weigh_floats(call, block, s, states, stride);
}

// And those that are read in 16 bits: `pages` names the page of the tile at `first` and of those after it.
inline void attend_exact(const AttendCall& call, Block& block, const Reach& reach, int start, int first,
                         const std::int32_t* pages, float* states, int stride) {
  const std::uint8_t* tiles[kStretchTiles];
  Stretch s = {*call.exact.layout, reach, start, 0, 0, 0, 0, tiles, 0};
  if (!s.narrow(block.count)) return;
  for (int t = s.low; t < s.high; t += kTile)
    tiles[t / kTile] = call.exact.tile(pages[(start + t - first) / kTile], block.head);
  score_floats(call, block, s);
  weigh_floats(call, block, s, states, stride);
}

inline void attend_stretch(const AttendCall& call, const Sequence& seq, Block& block, int start,
                           const std::uint8_t* const* tiles, int num_tiles, float* states, int stride) {
  if (!call.exact.layout) return attend_codes(call, block, start, tiles, num_tiles, states, stride);
  const std::int32_t* pages = call.exact_tiles + seq.index * call.exact_stride;
  attend_exact(call, block, block.sinks, start, 0, pages, states, stride);
  attend_codes(call, block, start, tiles, num_tiles, states, stride);
  attend_exact(call, block, block.recent, start, call.exact_first[seq.index], pages + call.sink_tiles, states,
               stride);
}

// The states of one range, `stride` floats apart.
inline void range_states(const AttendCall& call, const Sequence& seq, Block& block, int range,
                         float* states, int stride) {
  for (int r = 0; r < block.count; ++r) clear_state(states + r * stride, state_floats(*call.layout));
  const int last = block.end, stop = (range + 1) * kRange;
  const int end = last < stop ? last : stop;
  const int oldest = block.oldest > range * kRange ? block.oldest : range * kRange;
  const int begin = oldest / kStretch * kStretch, unread = (oldest - begin) / kTile;
  const std::uint8_t* tiles[(kRange + kStretch) / kTile];
  const int known = last < stop + kStretch ? last : stop + kStretch;
  const int count = unread + find_tiles(call, seq, block.head, begin + unread * kTile, known, tiles + unread);
  for (int start = begin, i = 0; start < end; start += kStretch, i += kStretchTiles)
    attend_stretch(call, seq, block, start, tiles + i, count - i, states, stride);
}

inline void store_outputs(const AttendCall& call, const Sequence& seq, const Block& block) {
  const Layout& layout = *call.layout;
  const int head_dim = layout.head_dim, stride = state_floats(layout);
  float* raw = block.states;  // free again
  for (int r = 0; r < block.count; ++r) {
    float *state = block.totals + r * stride, *out = state + kStateHead;
    if (call.sinks)
      add_sink(state, call.sinks[block.head * call.group + (block.first + r) % call.group] * kLog2e, head_dim);
    for (int d = 0; d < head_dim; d += 16) store(out + d, load(out + d) / splat(state[1]));
    if (call.value_output) std::memcpy(raw + r * head_dim, out, sizeof(float) * static_cast<unsigned>(head_dim));
  }
  if (call.value_output)
    multiply_matrix(call.value_output + static_cast<std::int64_t>(block.head) * head_dim * head_dim, head_dim, raw,
                    block.count, block.totals + kStateHead, stride);
  for (int r = 0; r < block.count; ++r) {
    float* out = block.totals + r * stride + kStateHead;
    if (call.value_output)
      for (int d = 0; d < head_dim; d += 16)
        store(out + d, load(out + d) + load(call.value_mean + block.head * head_dim + d));
    if (call.value_signs) unrotate(layout.mixing, out, call.value_signs + block.head * head_dim);
    store_row(call.out, call.type, row_offset(call, seq, block, r, call.out_stride), head_dim, out);
  }
}

inline void clear_totals(const AttendCall& call, const Block& block) {
  const int stride = state_floats(*call.layout);
  for (int r = 0; r < block.count; ++r) clear_state(block.totals + r * stride, stride);
}

inline void attend(const AttendCall& call, const Sequence& seq, int head, int index, float* scratch) {
  Block block(call, seq, head, index, scratch);
  const Tiles tiles(block.tiles);
  const int head_dim = call.layout->head_dim, stride = state_floats(*call.layout);
  load_queries(call, seq, block);
  clear_totals(call, block);
  const int last = (block.end - 1) / kRange;
  for (int range = block.oldest / kRange; range <= last; ++range) {
    range_states(call, seq, block, range, block.states, stride);
    for (int r = 0; r < block.count; ++r) {
      merge_state(block.totals + r * stride, block.states + r * stride, head_dim);
    }
  }
  store_outputs(call, seq, block);
}

inline void attend_range(const AttendCall& call, const Sequence& seq, int head, int index, int range,
                         float* states, int stride, float* scratch) {
  Block block(call, seq, head, index, scratch);
  const Tiles tiles(block.tiles);
  load_queries(call, seq, block);
  range_states(call, seq, block, range, states, stride);
}

// states [row][range of the sequence]
inline void merge(const AttendCall& call, const Sequence& seq, int head, int index, const float* states,
                  float* scratch) {
  const Block block(call, seq, head, index, scratch);
  const int head_dim = call.layout->head_dim, stride = state_floats(*call.layout);
  clear_totals(call, block);
  for (int r = 0; r < block.count; ++r) {
    for (int range = 0; range < seq.ranges; ++range) {
      merge_state(block.totals + r * stride,
                  states + static_cast<std::int64_t>(r * seq.ranges + range) * stride, head_dim);
    }
  }
  store_outputs(call, seq, block);
}

}  // namespace
}  // namespace kvant

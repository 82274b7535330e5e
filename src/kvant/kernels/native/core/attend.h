// Attention of a block of query rows over the packed pages of one KV head.
//
// Context is cut at absolute multiples of kStretch (one softmax step) and of kRange (one partial
// state), and every sum runs in the order of dims or tokens. So the result of a row depends on
// nothing but the row: not on its block, the batch, the chunk it came in or the number of threads.
#pragma once

#include "calls.h"
#include "convert.h"
#include "formats.h"
#include "rotation.h"
#include "softmax.h"

namespace kvant {
namespace {

// The rows of one item, and its scratch.
struct Block {
  int head, first, count;      // rows of the KV head: token first / group, head first % group
  int from[kRows], to[kRows];  // positions each row reads; neither ever falls from row to row
  float *queries, *scores, *states, *totals, *room;

  Block(const AttendCall& call, const Sequence& seq, int kv_head, int block, float* scratch)
      : head(kv_head), first(block * kRows), count(seq.rows - first < kRows ? seq.rows - first : kRows) {
    for (int r = 0; r < count; ++r) {
      const int position = seq.position + (first + r) / call.group;
      to[r] = position + 1;
      from[r] = call.window > 0 && to[r] > call.window ? to[r] - call.window : 0;
    }
    const int stride = state_floats(*call.layout);
    queries = scratch;
    scores = queries + kRows * call.layout->query_width();
    states = scores + kRows * kStretch;
    totals = states + kRows * stride;
    room = totals + kRows * stride;
  }
};

// Element offset of a row in `query` or `out`.
inline std::int64_t row_offset(const AttendCall& call, const Sequence& seq, const Block& block, int row,
                               std::int64_t stride) {
  const int r = block.first + row;
  return (seq.first_token + r / call.group) * stride +
         static_cast<std::int64_t>(block.head * call.group + r % call.group) * call.layout->head_dim;
}

inline void load_queries(const AttendCall& call, const Sequence& seq, const Block& block) {
  const Layout& layout = *call.layout;
  const Codec& key = codec_of(layout.key);
  const int head_dim = layout.head_dim;
  for (int r = 0; r < block.count; ++r) {
    float* q = block.queries + r * layout.query_width();
    load_row(call.query, call.type, row_offset(call, seq, block, r, call.query_stride), head_dim, q);
    if (call.key_signs) rotate(layout.mixing, q, call.key_signs + block.head * head_dim);
    for (int d = 0; d < head_dim; d += 16) store(q + d, load(q + d) * splat(call.scale));
    if (key.prepare) key.prepare(layout, layout.key, q);
  }
}

// The part of a row's tokens that lies in [start, start + size), relative to start; empty if to <= from.
KVANT_INLINE Run part_of(const Block& block, int row, int start, int size) {
  const int from = block.from[row] - start, to = block.to[row] - start;
  return {row, row + 1, from > 0 ? from : 0, to < size ? to : size};
}

// Rows [a, b) read some token of [start, start + size).
KVANT_INLINE void active_rows(const Block& block, int start, int size, int& a, int& b) {
  while (a < b && block.to[a] <= start) ++a;
  while (b > a && block.from[b - 1] >= start + size) --b;
}

inline const std::uint8_t* tile_at(const AttendCall& call, const Sequence& seq, int head, int position) {
  const Layout& layout = *call.layout;
  const std::int64_t block =
      call.block_table[seq.index * call.block_table_stride + position / layout.block_size];
  const int tile = head * (layout.block_size / kTile) + position % layout.block_size / kTile;
  return call.pages + block * call.page_stride + static_cast<std::int64_t>(tile) * layout.tile_bytes;
}

// Adds the tokens of one stretch to `states`.
inline void attend_stretch(const AttendCall& call, const Sequence& seq, const Block& block, int start,
                           float* states, int stride) {
  const Layout& layout = *call.layout;
  const Codec &key = codec_of(layout.key), &value = codec_of(layout.value);
  int first = 0, last = block.count;
  active_rows(block, start, kStretch, first, last);
  if (first == last) return;
  const int low = part_of(block, first, start, kStretch).from / kTile * kTile;
  const int high = part_of(block, last - 1, start, kStretch).to;
  for (int t = low; t < high; t += kTile) {
    int a = first, b = last;
    active_rows(block, start + t, kTile, a, b);
    key.scores(layout, tile_at(call, seq, block.head, start + t), block.queries + a * layout.query_width(),
               b - a, block.scores + a * kStretch + t, block.room);
  }
  for (int r = first; r < last; ++r) {
    const Run part = part_of(block, r, start, kStretch);
    softmax_stretch(block.scores + r * kStretch, part.from, part.to, call.softcap, states + r * stride,
                    layout.head_dim);
  }
  for (int t = low; t < high; t += kTile) {
    int a = first, b = last, num_runs = 0;
    active_rows(block, start + t, kTile, a, b);
    Run runs[kRows];
    for (int r = a; r < b; ++r) {  // rows that read the same tokens of the tile go together
      const Run run = part_of(block, r, start + t, kTile);
      if (num_runs && runs[num_runs - 1].from == run.from && runs[num_runs - 1].to == run.to) {
        runs[num_runs - 1].last = r + 1;
      } else {
        runs[num_runs++] = run;
      }
    }
    value.weigh(layout, tile_at(call, seq, block.head, start + t), runs, num_runs, block.scores + t, states,
                stride, block.room);
  }
}

// The states of one range, `stride` floats apart.
inline void range_states(const AttendCall& call, const Sequence& seq, const Block& block, int range,
                         float* states, int stride) {
  for (int r = 0; r < block.count; ++r) clear_state(states + r * stride, state_floats(*call.layout));
  const int end =
      block.to[block.count - 1] < (range + 1) * kRange ? block.to[block.count - 1] : (range + 1) * kRange;
  const int begin = block.from[0] > range * kRange ? block.from[0] / kStretch * kStretch : range * kRange;
  for (int start = begin; start < end; start += kStretch)
    attend_stretch(call, seq, block, start, states, stride);
}

inline void store_outputs(const AttendCall& call, const Sequence& seq, const Block& block) {
  const Layout& layout = *call.layout;
  const int head_dim = layout.head_dim, stride = state_floats(layout);
  for (int r = 0; r < block.count; ++r) {
    float *state = block.totals + r * stride, *out = state + kStateHead;
    if (call.sinks)
      add_sink(state, call.sinks[block.head * call.group + (block.first + r) % call.group], head_dim);
    for (int d = 0; d < head_dim; d += 16) store(out + d, load(out + d) / splat(state[1]));
    if (call.value_signs) unrotate(layout.mixing, out, call.value_signs + block.head * head_dim);
    store_row(call.out, call.type, row_offset(call, seq, block, r, call.out_stride), head_dim, out);
  }
}

inline void clear_totals(const AttendCall& call, const Block& block) {
  const int stride = state_floats(*call.layout);
  for (int r = 0; r < block.count; ++r) clear_state(block.totals + r * stride, stride);
}

inline void attend(const AttendCall& call, const Sequence& seq, int head, int index, float* scratch) {
  const Block block(call, seq, head, index, scratch);
  const int head_dim = call.layout->head_dim, stride = state_floats(*call.layout);
  load_queries(call, seq, block);
  clear_totals(call, block);
  const int last = (block.to[block.count - 1] - 1) / kRange;
  for (int range = block.from[0] / kRange; range <= last; ++range) {
    range_states(call, seq, block, range, block.states, stride);
    for (int r = 0; r < block.count; ++r) {
      merge_state(block.totals + r * stride, block.states + r * stride, head_dim);
    }
  }
  store_outputs(call, seq, block);
}

inline void attend_range(const AttendCall& call, const Sequence& seq, int head, int index, int range,
                         float* states, int stride, float* scratch) {
  const Block block(call, seq, head, index, scratch);
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

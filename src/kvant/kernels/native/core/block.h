// The query rows of one work item: what each reads, and the scratch they share.
#pragma once

#include "convert.h"
#include "dense.h"
#include "formats.h"
#include "rotation.h"
#include "weights.h"

namespace kvant {
namespace {

// Positions each row reads in one way; neither end ever falls from row to row. Empty if to <= from.
struct Reach {
  int from[kRows], to[kRows];
};

// The rows of one item, and its scratch.
struct Block {
  int head, first, count;      // rows of the KV head: token first / group, head first % group
  int oldest, end;             // positions that any row reads
  Reach sinks, codes, recent;  // and how: the first and the last in 16 bits
  float *queries, *scores, *states, *totals, *room;
  bool integer_key, integer_value;  // products of the codes themselves
  bool tiles;                       // and those on a matrix unit
  std::uint8_t *query_terms, *weight_terms, *key_planes, *value_planes;
  std::int32_t *sums, *starts;
#if KVANT_INTEGER_PRODUCTS
  std::uint8_t key_offset;
  QueryTerms terms[kRows];
  Worth worth[kBand];
  Numbers numbers;
#endif

  Block(const AttendCall& call, const Sequence& seq, int kv_head, int block, float* scratch)
      : head(kv_head), first(block * kRows), count(seq.rows - first < kRows ? seq.rows - first : kRows) {
    set_reach(call, seq);
    const int stride = state_floats(*call.layout);
    queries = scratch;
    scores = queries + kRows * call.layout->query_width();
    states = scores + kRows * kStretch;
    totals = states + kRows * stride;
    starts = reinterpret_cast<std::int32_t*>(totals + kRows * stride);
    sums = starts + kTermRows;
    query_terms = reinterpret_cast<std::uint8_t*>(sums + 2 * kBand * product_width(*call.layout));
    weight_terms = query_terms + kTermRows * padded_dim(*call.layout);
    key_planes = weight_terms + 2 * kBand * kStretch;
    value_planes = key_planes + plane_bytes(*call.layout);
    room = reinterpret_cast<float*>(value_planes + plane_bytes(*call.layout));
    integer_key = !call.precise && codec_of(call.layout->key).key_planes;
    integer_value = !call.precise && codec_of(call.layout->value).value_planes;
    tiles = (integer_key || integer_value) && use_tiles(2 * count);
#if KVANT_INTEGER_PRODUCTS
    key_offset = tiles ? 0 : kKeyOffset;
#endif
  }

  void set_reach(const AttendCall& call, const Sequence& seq) {
    const bool exact = call.exact.layout;
    const int leading = exact ? call.exact_sinks[seq.index] : 0;
    const int present = exact ? call.exact_from[seq.index] : 0;
    for (int r = 0; r < count; ++r) {
      const int to = seq.position + (first + r) / call.group + 1;
      const int from = call.window > 0 && to > call.window ? to - call.window : 0;
      const int after = from > leading ? from : leading;
      int near = exact ? to - call.exact_window : to;
      if (near < present) near = present;
      if (near < after) near = after;
      if (near > to) near = to;
      sinks.from[r] = from;
      sinks.to[r] = leading < to ? leading : to;
      codes.from[r] = after;
      codes.to[r] = near;
      recent.from[r] = near;
      recent.to[r] = to;
    }
    oldest = sinks.from[0];
    end = recent.to[count - 1];
  }
};

// Element offset of a row in `query` or `out`.
inline std::int64_t row_offset(const AttendCall& call, const Sequence& seq, const Block& block, int row,
                               std::int64_t stride) {
  const int r = block.first + row;
  return (seq.first_token + r / call.group) * stride +
         static_cast<std::int64_t>(block.head * call.group + r % call.group) * call.layout->head_dim;
}

inline void load_queries(const AttendCall& call, const Sequence& seq, Block& block) {
  const Layout& layout = *call.layout;
  const Codec& key = codec_of(layout.key);
  const int head_dim = layout.head_dim;
  if (call.key_query) {
    float* raw = block.states;  // free as yet
    for (int r = 0; r < block.count; ++r)
      load_row(call.query, call.type, row_offset(call, seq, block, r, call.query_stride), head_dim, raw + r * head_dim);
    multiply_matrix(call.key_query + static_cast<std::int64_t>(block.head) * head_dim * head_dim, head_dim, raw,
                    block.count, block.queries, layout.query_width());
  }
  for (int r = 0; r < block.count; ++r) {
    float* q = block.queries + r * layout.query_width();
    if (!call.key_query)
      load_row(call.query, call.type, row_offset(call, seq, block, r, call.query_stride), head_dim, q);
    if (call.key_signs) rotate(layout.mixing, q, call.key_signs + block.head * head_dim);
    for (int d = 0; d < head_dim; d += 16) store(q + d, load(q + d) * splat(call.scale * kLog2e));
    if (key.prepare) key.prepare(layout, layout.key, q);
#if KVANT_INTEGER_PRODUCTS
    const int width = padded_dim(layout);
    if (block.integer_key)
      block.terms[r] = split_query(q, head_dim, block.query_terms + 2 * r * width, width,
                                   block.key_offset, block.starts + 2 * r);
#endif
  }
}

}  // namespace
}  // namespace kvant

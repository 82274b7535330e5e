// Attention of a block of query rows over the packed pages of one KV head.
//
// Context is cut at absolute multiples of kStretch (one softmax step) and of kRange (one partial
// state), and every sum runs in the order of dims or tokens. So the result of a row depends on
// nothing but the row: not on its block, the batch, the chunk it came in or the number of threads.
//
// Within a stretch come the sinks and then the recent window, both read from 16-bit tiles by float
// products, around the tokens between them, which are read from their codes.
#pragma once

#include <array>

#include "calls.h"
#include "convert.h"
#include "dense.h"
#include "formats.h"
#include "rotation.h"
#include "softmax.h"
#include "tiles.h"
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

// The part of a row's tokens that lies in [start, start + size), relative to start; empty if to <= from.
KVANT_INLINE Run part_of(const Reach& reach, int row, int start, int size) {
  const int from = reach.from[row] - start, to = reach.to[row] - start;
  return {row, row + 1, from > 0 ? from : 0, to < size ? to : size};
}

// Rows before a and from b on read no token of [start, start + size).
KVANT_INLINE void active_rows(const Reach& reach, int start, int size, int& a, int& b) {
  while (a < b && (reach.to[a] <= start || reach.to[a] <= reach.from[a])) ++a;
  while (b > a && (reach.from[b - 1] >= start + size || reach.to[b - 1] <= reach.from[b - 1])) --b;
}

// Addresses of the tiles from `position` on, as many as start before `end`.
inline int find_tiles(const AttendCall& call, const Sequence& seq, int head, int position, int end,
                      const std::uint8_t** tiles) {
  const Layout& layout = *call.layout;
  const std::int32_t* block = call.block_table + seq.index * call.block_table_stride;
  const int first = position / layout.block_size;
  block += first;
  int offset = position - first * layout.block_size, count = 0;
  const std::int64_t of_head = static_cast<std::int64_t>(head) * (layout.block_size / kTile) * layout.tile_bytes;
  for (; position < end; position += kTile, offset += kTile, ++count) {
    if (offset == layout.block_size) {
      offset = 0;
      ++block;
    }
    tiles[count] = call.pages + *block * call.page_stride + of_head +
                   static_cast<std::int64_t>(offset / kTile) * layout.tile_bytes;
  }
  return count;
}

constexpr int kStretchTiles = kStretch / kTile;

// The part of one stretch that some row of the block reads, one way.
struct Stretch {
  const Layout& layout;
  const Reach& reach;
  int start, first, last;           // position, and rows
  int low, high;                    // tokens from start, low at a tile's border
  const std::uint8_t* const* tiles;  // from start on
  int num_tiles;                    // known at `tiles`: those of this stretch and of the next

  // False if there is none.
  bool narrow(int rows) {
    if (reach.to[rows - 1] <= start || reach.from[0] >= start + kStretch) return false;  // most, of 16-bit tiles
    first = 0, last = rows;
    active_rows(reach, start, kStretch, first, last);
    if (first == last) return false;
    low = part_of(reach, first, start, kStretch).from / kTile * kTile;
    high = part_of(reach, last - 1, start, kStretch).to;
    return true;
  }

  // Asks for a part of the tile a stretch later. To the second level: the first one holds planes.
  KVANT_INLINE void prefetch(int t, int from, int to) const {
    const int i = t / kTile + kStretchTiles;
    if (i >= num_tiles) return;
    for (const std::uint8_t* line = tiles[i] + from; line < tiles[i] + to; line += kLine)
      __builtin_prefetch(line, 0, 2);
  }
};

#if KVANT_INTEGER_PRODUCTS
KVANT_INLINE int num_tiles_of(const Stretch& s) { return (s.high - s.low + kTile - 1) / kTile; }

KVANT_INLINE Planes key_planes_of(const Block& block, const Stretch& s) {
  return {block.key_planes + s.low * s.layout.head_dim, kLine, kTile * s.layout.head_dim};
}

// Planes and numbers of a stretch lie where its tokens do, whatever part of it is read.
inline void unpack_keys(Block& block, const Stretch& s) {
  const Layout& layout = s.layout;
  const Codec& key = codec_of(layout.key);
  for (int t = s.low; t < s.high; t += kTile) {
    const std::uint8_t* tile = s.tiles[t / kTile];
    s.prefetch(t, 0, layout.value.codes);
    key.key_planes(layout, tile, block.key_offset, block.key_planes + t * layout.head_dim);
    token_numbers(layout.key, tile + layout.key.meta, block.numbers.key_scale + t, block.numbers.key_minimum + t);
  }
  if (kRowOffset) {
    static const auto offsets = [] {
      std::array<std::uint8_t, kMaxHeadDim> row;
      row.fill(kRowOffset);
      return row;
    }();
    multiply_groups<Operands::query_key, 1>(offsets.data(), 0, key_planes_of(block, s), layout.head_dim / 4,
                                            num_tiles_of(s), nullptr, block.numbers.excess + s.low, 0);
  }
}

inline void unpack_values(Block& block, const Stretch& s) {
  const Layout& layout = s.layout;
  const Codec& value = codec_of(layout.value);
  for (int t = s.low; t < s.high; t += kTile) {
    const std::uint8_t* tile = s.tiles[t / kTile];
    s.prefetch(t, layout.value.codes, layout.tile_bytes);
    value.value_planes(layout, tile, block.value_planes + t * layout.head_dim, 4 * layout.head_dim);
    token_numbers(layout.value, tile + layout.value.meta, block.numbers.value_scale + t,
                  block.numbers.value_minimum + t);
  }
  prepare_values(block.numbers);
}

// Products of the rows first..last with the keys, from `sums` on.
inline void multiply_keys(Block& block, const Stretch& s, int first, int last) {
  const int width = padded_dim(s.layout), stride = product_width(s.layout);
  multiply<Operands::query_key>(block.tiles, block.query_terms + 2 * first * width, 2 * (last - first), width,
                                key_planes_of(block, s), s.layout.head_dim / 4, num_tiles_of(s),
                                block.starts + 2 * first, block.sums + s.low, stride);
}

// Calls use(what gives the scores of row first + i, for any i).
template <class Use>
KVANT_INLINE void with_scores(const Block& block, const Stretch& s, int first, Use use) {
  const int stride = product_width(s.layout);
  const std::int32_t* sums = block.sums;
  if (!block.integer_key) {
    use([&](int i) { return StoredScores{block.scores + (first + i) * kStretch}; });
  } else if (s.layout.key.asymmetric) {
    use([&, sums](int i) {
      return ProductScores<true>{block.numbers, block.terms[first + i], sums + 2 * i * stride, sums + (2 * i + 1) * stride};
    });
  } else {
    use([&, sums](int i) {
      return ProductScores<false>{block.numbers, block.terms[first + i], sums + 2 * i * stride, sums + (2 * i + 1) * stride};
    });
  }
}

inline void store_scores(Block& block, const Stretch& s, int first, int last) {
  with_scores(block, s, first, [&](auto scores_of) {
    for (int r = first; r < last; ++r)
      for (int t = s.low; t < s.high; t += 16) store(block.scores + r * kStretch + t, scores_of(r - first)(t));
  });
}

template <bool minimum>
inline void weigh_band(const AttendCall& call, Block& block, const Stretch& s, int first, int last, float* states,
                       int stride) {
  const auto whole = [&](int r) {
    return call.softcap == 0 && s.reach.from[r] <= s.start && s.reach.to[r] >= s.start + kStretch;
  };
  with_scores(block, s, first, [&](auto scores_of) {
    const auto weigh = [&](int r) {
      const Run part = part_of(s.reach, r, s.start, kStretch);
      if (part.to <= part.from) return Worth{1, 0, 0};
      return weigh_part<minimum>(scores_of(r - first), part.from, part.to, call.softcap * kLog2e, block.numbers,
                                 states + r * stride, block.weight_terms + 2 * (r - first) * kStretch);
    };
    int r = first;
    for (; r < last && !whole(r); ++r) block.worth[r - first] = weigh(r);
    const int begin = r;  // rows that read the whole stretch stand together
    while (r < last && whole(r)) ++r;
    if (begin < r)
      weigh_whole<minimum>([&](int i) { return scores_of(begin - first + i); }, r - begin, block.numbers,
                           states + begin * stride, stride, block.weight_terms + 2 * (begin - first) * kStretch,
                           block.worth + (begin - first), block.tiles);
    for (; r < last; ++r) block.worth[r - first] = weigh(r);
  });
}

// What the rows first..last read of the values, weighed, is added to their states.
inline void multiply_values(Block& block, const Stretch& s, int first, int last, float* states, int stride) {
  const int head_dim = s.layout.head_dim, sum_stride = product_width(s.layout), fours = 4 * head_dim;
  const int from = block.tiles ? s.low / kUnit * kUnit : s.low;
  multiply<Operands::weight_value>(block.tiles, block.weight_terms + from, 2 * (last - first), kStretch,
                                   {block.value_planes + from * head_dim, fours, kLine},
                                   (s.high - from + kTile - 1) / kTile * 4, head_dim / 16, nullptr, block.sums,
                                   sum_stride);
  for (int r = first; r < last; ++r) {
    const std::int32_t* sums = block.sums + 2 * (r - first) * sum_stride;
    add_products(sums, sums + sum_stride, block.worth[r - first], states + r * stride + kStateHead, head_dim);
  }
}
#endif

inline void score_floats(const AttendCall& call, Block& block, const Stretch& s) {
  const int stride = call.layout->query_width();
  for (int t = s.low; t < s.high; t += kTile) {
    int a = s.first, b = s.last;
    active_rows(s.reach, s.start + t, kTile, a, b);
    codec_of(s.layout.key).scores(s.layout, s.tiles[t / kTile], block.queries + a * stride, stride, b - a,
                                  block.scores + a * kStretch + t, block.room);
  }
}

inline void weigh_floats(const AttendCall& call, Block& block, const Stretch& s, float* states, int stride) {
  for (int r = s.first; r < s.last; ++r) {
    const Run part = part_of(s.reach, r, s.start, kStretch);
    if (part.to > part.from)
      softmax_stretch(block.scores + r * kStretch, part.from, part.to, call.softcap * kLog2e, states + r * stride,
                      s.layout.head_dim);
  }
  for (int t = s.low; t < s.high; t += kTile) {
    int a = s.first, b = s.last, num_runs = 0;
    active_rows(s.reach, s.start + t, kTile, a, b);
    Run runs[kRows];
    for (int r = a; r < b; ++r) {  // rows that read the same tokens of the tile go together
      const Run run = part_of(s.reach, r, s.start + t, kTile);
      if (num_runs && runs[num_runs - 1].from == run.from && runs[num_runs - 1].to == run.to) {
        runs[num_runs - 1].last = r + 1;
      } else {
        runs[num_runs++] = run;
      }
    }
    codec_of(s.layout.value).weigh(s.layout, s.tiles[t / kTile], runs, num_runs, block.scores + t, states, stride,
                                   block.room);
  }
}

// Adds the tokens of one stretch that are read from their codes to `states`.
inline void attend_codes(const AttendCall& call, Block& block, int start, const std::uint8_t* const* tiles,
                         int num_tiles, float* states, int stride) {
  Stretch s = {*call.layout, block.codes, start, 0, 0, 0, 0, tiles, num_tiles};
  if (!s.narrow(block.count)) return;
#if KVANT_INTEGER_PRODUCTS
  block.integer_key ? unpack_keys(block, s) : score_floats(call, block, s);
  if (block.integer_value) unpack_values(block, s);
  for (int first = s.first; first < s.last; first += kBand) {
    const int last = first + kBand < s.last ? first + kBand : s.last;
    if (block.integer_key) multiply_keys(block, s, first, last);
    if (block.integer_value) {
      (s.layout.value.asymmetric ? weigh_band<true> : weigh_band<false>)(call, block, s, first, last, states, stride);
      multiply_values(block, s, first, last, states, stride);
    } else if (block.integer_key) {
      store_scores(block, s, first, last);
    }
  }
  if (block.integer_value) return;
#else
  score_floats(call, block, s);
#endif
  weigh_floats(call, block, s, states, stride);
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

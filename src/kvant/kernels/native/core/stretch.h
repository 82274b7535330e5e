// One stretch of a context as the rows of a block read it: from codes, or in 16 bits.
#pragma once

#include "block.h"

namespace kvant {
namespace {

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

}  // namespace
}  // namespace kvant

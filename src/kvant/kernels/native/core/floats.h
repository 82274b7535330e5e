// A stretch by float products of decoded tiles: of keys, of values, or of both.
#pragma once

#include "stretch.h"

namespace kvant {
namespace {

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

}  // namespace
}  // namespace kvant

// Builds a Layout from what Python says and recomputes it: the two must agree to the byte.
#pragma once

#include <vector>

#include "../core/layout.h"

namespace kvant {

// One side as Python describes it (formats/*.py).
struct SideSpec {
  int kind = 0;
  int bits = 0;
  bool asymmetric = false;
  bool byte_scale = false;
  std::vector<double> levels;  // of the codes; for polar the 3 x 4 centres in radians
  double step = 1;             // the levels of a codebook are integers times this
  std::vector<double> signs;   // the two diagonals of the jl sketch, 2 * head_dim
  double weight = 0;           // its factor c
  int code_bytes = 0;
  int meta_bytes = 0;
};

Mixing make_mixing(int head_dim);

// Throws std::invalid_argument that names the field.
Layout make_layout(const SideSpec& key, const SideSpec& value, int head_dim, int num_kv_heads, int block_size,
                   int value_codes, int key_meta, int value_meta, int tile_bytes);

}  // namespace kvant

// What a page is made of, as plain data: shared by the host code and every instruction set.
#pragma once

#include <cstdint>
#include <vector>

namespace kvant {

constexpr int kTile = 16;  // tokens in a tile, and lanes of a vector
constexpr int kMaxHeadDim = 512;
constexpr int kMaxColumns = 31;  // largest odd factor of a head_dim: 496 = 31 * 16
constexpr int kPolarBlock = 16;  // values that share a radius
constexpr int kPolarBits = 46;   // angle bits of such a block

enum class Kind : int { bf16 = 0, integer = 1, codebook = 2, residual = 3, polar = 4, trellis = 5 };
enum class Type : int { f32 = 0, bf16 = 1, f16 = 2 };

// The orthonormal mixing of transforms/hadamard.py: D = m * p, Walsh-Hadamard over p, Hartley over m.
struct Mixing {
  int head_dim = 0;
  int m = 1;
  int p = 0;
  float norm = 1;  // 1 / sqrt(p)
  float hartley[kMaxColumns * kMaxColumns] = {};
};

// Angles of the polar format: cosines and sines of their centres, and the edges between them.
struct PolarTables {
  float cos_first[16], sin_first[16];
  float cos[3][4], sin[3][4];
  float edges[3][3];
};

constexpr int kStates = 256;  // of a trellis

// How values are compared with the levels of a trellis: METRICS of formats/viterbi.py.
struct Metric {
  int up, down, shift, limit;
};
constexpr Metric metric_of(int bits) {
  return bits == 2 ? Metric{2, 1, 5, 63} : bits == 3 ? Metric{1, 1, 4, 127} : Metric{1, 2, 4, 254};
}

// Of one value to the levels of all states.
struct alignas(64) Distances {
  std::uint8_t to[kStates];
};

// A trellis: the level of state s + 128 is minus that of s.
struct TrellisTables {
  std::int8_t integers[kStates / 2] = {};
  float factor = 0;                  // from units of the scale to rows of distances
  std::vector<Distances> distances;  // of the values 0 to limit
};

// How one side (keys or values) of a tile is stored. Offsets are from the start of the tile.
struct Side {
  Kind kind = Kind::bf16;
  int bits = 0;
  bool asymmetric = false;
  bool byte_scale = false;
  bool is_key = false;
  int codes = 0;
  int meta = 0;
  int code_bytes = 0;
  int meta_bytes = 0;                 // per token
  float levels[16] = {};              // values of the codes in units of the scale
  float step = 1;                     // a value is scale * step * integer (+ minimum)
  std::int8_t integers[16] = {};      // of the codes of up to 4 bits, repeated to 16 entries
  float lift = 0;                     // what the integers of 8-bit codes from 0 to 255 lack
  float edges[15] = {};               // decision thresholds between them
  float byte_scales[256] = {};        // what a one-byte scale stands for
  float signs[2 * kMaxHeadDim] = {};  // the two diagonals of the jl sketch
  float weight = 0;                   // its factor c
  PolarTables polar = {};
  TrellisTables trellis = {};
};

// Where one vector is stored.
struct Spot {
  std::uint8_t* tile;
  int token;
};

struct Layout {
  Side key, value;
  Mixing mixing;
  int head_dim = 0;
  int num_kv_heads = 0;
  int block_size = 0;
  int tile_bytes = 0;
  std::int64_t page_bytes = 0;

  // Floats of a query as the kernels read it: a residual key is read by the query and its sketch.
  int query_width() const { return key.kind == Kind::residual ? 2 * head_dim : head_dim; }
};

}  // namespace kvant

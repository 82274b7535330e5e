#include "layout.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace kvant {
namespace {

constexpr double kPi = 3.14159265358979323846;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

void agree(const std::string& field, long long python, long long here) {
  if (python != here) {
    refuse(field + ": Python says " + std::to_string(python) + ", the native kernels compute " +
           std::to_string(here) + "; rebuild them (make setup) so that both are of one version");
  }
}

int code_lines(int bits, int head_dim) {
  const int planes = head_dim / 4;
  return bits == 3 ? planes / 8 * 3 + planes % 8 / 2 : planes * bits / 8;
}

int code_bytes(const SideSpec& spec, int head_dim) {
  switch (static_cast<Kind>(spec.kind)) {
    case Kind::bf16:
      return kTile * head_dim * 2;
    case Kind::integer:
    case Kind::codebook:
      return 64 * code_lines(spec.bits, head_dim);
    case Kind::residual:
      return 64 * code_lines(spec.bits, head_dim) + kTile * head_dim / 8;
    case Kind::trellis:
      return kTile * head_dim * spec.bits / 8;
    case Kind::polar:
      break;
  }
  const int blocks = head_dim / kPolarBlock;
  return kTile * ((blocks * kPolarBits + 7) / 8 + 2 * blocks);
}

int meta_bytes(const SideSpec& spec) {
  const int scale = spec.byte_scale ? 1 : 2;
  switch (static_cast<Kind>(spec.kind)) {
    case Kind::integer:
      return spec.asymmetric ? 4 : 2;
    case Kind::codebook:
    case Kind::trellis:
      return scale;
    case Kind::residual:
      return scale + 2;
    default:
      return 0;
  }
}

bool width_exists(Kind kind, int bits) {
  switch (kind) {
    case Kind::bf16:
      return bits == 16;
    case Kind::integer:
      return bits == 8 || bits == 4;
    case Kind::codebook:
    case Kind::residual:
    case Kind::trellis:
      return bits >= 2 && bits <= 4;
    case Kind::polar:
      return bits == 4;
  }
  return false;
}

std::int8_t integer_of(const std::string& name, float level, float step) {
  const float integer = std::nearbyint(level / step);
  if (!(std::fabs(integer) <= 127) || integer * step != level) {
    refuse(name + ".step: level " + std::to_string(level) + " is no integer of 8 bits times " +
           std::to_string(step));
  }
  return static_cast<std::int8_t>(integer);
}

// The integers that kernels multiply: what a code stands for is scale * step * integer (+ minimum).
void set_integers(const std::string& name, const SideSpec& spec, Side& side) {
  const int codes = 1 << spec.bits;
  if (side.kind == Kind::integer) {
    if (spec.bits == 8) side.lift = spec.asymmetric ? 128 : 0;
    for (int i = 0; i < 16 && spec.bits == 4; ++i)
      side.integers[i] = static_cast<std::int8_t>(spec.asymmetric ? i : i - 8);
    return;
  }
  side.step = static_cast<float>(spec.step);
  for (int i = 0; i < 16; ++i) {
    side.integers[i] = integer_of(name, side.levels[i % codes], side.step);
  }
}

PolarTables make_polar(const std::vector<double>& centres) {
  PolarTables table;
  for (int code = 0; code < 16; ++code) {
    table.cos_first[code] = static_cast<float>(std::cos((code + 0.5) * (kPi / 8)));
    table.sin_first[code] = static_cast<float>(std::sin((code + 0.5) * (kPi / 8)));
  }
  for (int level = 0; level < 3; ++level) {
    const double* centre = centres.data() + 4 * level;
    for (int code = 0; code < 4; ++code) {
      table.cos[level][code] = static_cast<float>(std::cos(centre[code]));
      table.sin[level][code] = static_cast<float>(std::sin(centre[code]));
    }
    for (int i = 0; i < 3; ++i) table.edges[level][i] = static_cast<float>((centre[i] + centre[i + 1]) / 2);
  }
  return table;
}

TrellisTables make_trellis(const std::string& name, const SideSpec& spec) {
  TrellisTables table;
  const float step = static_cast<float>(spec.step);
  for (int s = 0; s < kStates; ++s) {
    const float level = static_cast<float>(spec.levels[static_cast<std::size_t>(s)]);
    const std::int8_t integer = integer_of(name, level, step);
    if (s < kStates / 2) {
      table.integers[s] = integer;
    } else if (integer != -table.integers[s - kStates / 2]) {
      refuse(name + ".levels: the level of state " + std::to_string(s) + " is not minus that of state " +
             std::to_string(s - kStates / 2));
    }
  }
  const Metric metric = metric_of(spec.bits);
  table.factor = static_cast<float>(static_cast<double>(metric.down) / metric.up / spec.step);
  for (int value = 0; value <= metric.limit; ++value) {
    Distances row;
    for (int s = 0; s < kStates; ++s) {
      const int level = s < kStates / 2 ? table.integers[s] : -table.integers[s - kStates / 2];
      const int apart = metric.up * value - metric.down * level;
      const int distance = (apart * apart + (1 << (metric.shift - 1))) >> metric.shift;
      row.to[s] = static_cast<std::uint8_t>(distance < 255 ? distance : 255);
    }
    table.distances.push_back(row);
  }
  return table;
}

void set_byte_scales(Side& side) {
  for (int byte = 0; byte < 256; ++byte) {
    const double e = byte < 128 ? byte : byte - 256;
    side.byte_scales[byte] = byte == 0x80 ? 0.0f : static_cast<float>(std::exp2(e / 8));
  }
}

Side make_side(const std::string& name, const SideSpec& spec, int head_dim, bool is_key) {
  Side side;
  side.kind = static_cast<Kind>(spec.kind);
  side.bits = spec.bits;
  side.asymmetric = spec.asymmetric;
  side.byte_scale = spec.byte_scale;
  side.is_key = is_key;
  if (spec.kind < 0 || spec.kind > static_cast<int>(Kind::trellis)) {
    refuse(name + ".kind: " + std::to_string(spec.kind) + " is no family of formats (0 to 5)");
  }
  if (!width_exists(side.kind, spec.bits)) {
    refuse(name + ".bits: " + std::to_string(spec.bits) + " does not exist for kind " +
           std::to_string(spec.kind));
  }
  if (side.kind == Kind::residual && !is_key) refuse(name + ".kind: a jl residual is for keys only");
  if (spec.asymmetric && side.kind != Kind::integer) refuse(name + ".asymmetric: for integers only");
  const bool table = side.kind == Kind::codebook || side.kind == Kind::residual;
  const bool trellis = side.kind == Kind::trellis;
  if (spec.byte_scale && !table && !trellis) refuse(name + ".byte_scale: for codebooks and trellises only");
  if (trellis && !spec.byte_scale) refuse(name + ".byte_scale: a trellis has no other scale");
  agree(name + ".code_bytes", spec.code_bytes, code_bytes(spec, head_dim));
  agree(name + ".meta_bytes", spec.meta_bytes, meta_bytes(spec));
  side.code_bytes = spec.code_bytes;
  side.meta_bytes = spec.meta_bytes;

  const std::size_t levels = table                       ? std::size_t{1} << spec.bits
                             : trellis                   ? std::size_t{kStates}
                             : side.kind == Kind::polar ? 12
                                                        : 0;
  agree(name + ".levels", static_cast<long long>(spec.levels.size()), static_cast<long long>(levels));
  if (table) {
    for (std::size_t i = 0; i < levels; ++i) side.levels[i] = static_cast<float>(spec.levels[i]);
    for (std::size_t i = 0; i + 1 < levels; ++i) {
      if (!(side.levels[i] < side.levels[i + 1])) refuse(name + ".levels: must ascend");
      side.edges[i] = (side.levels[i + 1] + side.levels[i]) / 2;
    }
  }
  if (table || trellis) set_byte_scales(side);
  if (table || side.kind == Kind::integer) set_integers(name, spec, side);
  if (side.kind == Kind::polar) side.polar = make_polar(spec.levels);
  if (trellis) {
    side.step = static_cast<float>(spec.step);
    side.trellis = make_trellis(name, spec);
  }

  const int signs = side.kind == Kind::residual ? 2 * head_dim : 0;
  agree(name + ".signs", static_cast<long long>(spec.signs.size()), signs);
  for (int i = 0; i < signs; ++i) {
    side.signs[i] = static_cast<float>(spec.signs[static_cast<std::size_t>(i)]);
    if (side.signs[i] != 1.0f && side.signs[i] != -1.0f) refuse(name + ".signs: must be 1 or -1");
  }
  if (side.kind == Kind::residual && !(spec.weight > 0)) refuse(name + ".weight: must be positive");
  side.weight = static_cast<float>(spec.weight);
  return side;
}

}  // namespace

Mixing make_mixing(int head_dim) {
  if (head_dim % 16 || head_dim < 16 || head_dim > kMaxHeadDim) {
    refuse("head_dim: " + std::to_string(head_dim) + " is not a multiple of 16 from 16 to 512");
  }
  Mixing mixing;
  mixing.head_dim = head_dim;
  mixing.p = head_dim & -head_dim;
  mixing.m = head_dim / mixing.p;
  mixing.norm = static_cast<float>(1 / std::sqrt(static_cast<double>(mixing.p)));
  const int m = mixing.m;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < m; ++j) {
      const double angle = 2 * kPi * (i * j % m) / m;
      mixing.hartley[i * m + j] =
          static_cast<float>((std::cos(angle) + std::sin(angle)) / std::sqrt(static_cast<double>(m)));
    }
  }
  return mixing;
}

Layout make_layout(const SideSpec& key, const SideSpec& value, int head_dim, int num_kv_heads, int block_size,
                   int value_codes, int key_meta, int value_meta, int tile_bytes) {
  Layout layout;
  layout.mixing = make_mixing(head_dim);
  if (num_kv_heads <= 0) refuse("num_kv_heads: " + std::to_string(num_kv_heads) + " is not positive");
  if (block_size <= 0 || block_size % kTile) {
    refuse("block_size: " + std::to_string(block_size) + " is not a positive multiple of 16");
  }
  layout.head_dim = head_dim;
  layout.num_kv_heads = num_kv_heads;
  layout.block_size = block_size;
  layout.key = make_side("key", key, head_dim, true);
  layout.value = make_side("value", value, head_dim, false);

  layout.value.codes = layout.key.code_bytes;
  layout.key.meta = layout.value.codes + layout.value.code_bytes;
  layout.value.meta = layout.key.meta + kTile * layout.key.meta_bytes;
  layout.tile_bytes = layout.value.meta + kTile * layout.value.meta_bytes;
  agree("value_codes", value_codes, layout.value.codes);
  agree("key_meta", key_meta, layout.key.meta);
  agree("value_meta", value_meta, layout.value.meta);
  agree("tile_bytes", tile_bytes, layout.tile_bytes);
  layout.page_bytes = static_cast<std::int64_t>(num_kv_heads) * (block_size / kTile) * layout.tile_bytes;
  return layout;
}

}  // namespace kvant

// Integer products on AMX tiles: 16 rows by 16 lanes by 64 k in one instruction, and as exact.
//
// Reads 64 k and 16 rows at a time: rows and planes have that much room, and either operand is zero where
// the other is not meant. Both are signed, or the rows are unsigned weights.
#pragma once

#include "products.h"

namespace kvant {
namespace {

#if defined(__AMX_INT8__)

constexpr int kTileRows = 16;

// Measured: fewer rows (two terms each) are faster on vectors.
constexpr bool use_tiles(int rows) { return rows >= kTileRows / 2; }

// The shape of all tiles while it lives: 16 rows of 64 bytes.
class Tiles {
 public:
  explicit Tiles(bool used) : used_(used) {
    if (!used) return;
    struct alignas(64) Config {
      std::uint8_t palette, start, reserved[14];
      std::uint16_t row_bytes[16];
      std::uint8_t rows[16];
    } config = {};
    config.palette = 1;
    for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = kTileRows;
    _tile_loadconfig(&config);
  }
  ~Tiles() {
    if (used_) _tile_release();
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  bool used_;
};

// The unit goes to sleep when it has had nothing to do for some 900 cycles, and takes as many to wake up
// (measured). To be called more often than that, between products.
KVANT_INLINE void stay_awake() { _tile_dpbusd(0, 2, 4); }

// Tiles are named by literals: 0 and 1 hold sums, 2 and 3 rows, 4 to 7 planes, which stay while rows pass.
#define KVANT_PRODUCT(sum, row, plane)             \
  if constexpr (operands == Operands::query_key) { \
    _tile_dpbssd(sum, row, plane);                 \
  } else {                                         \
    _tile_dpbusd(sum, row, plane);                 \
  }
#define KVANT_ROWS(tile, k) _tile_loadd(tile, rows + 64 * (k), row_stride)
#define KVANT_PLANES(tile, k, n) \
  _tile_loadd(tile, planes.at + 16 * (k)*planes.k_stride + (n)*planes.n_stride, planes.k_stride)
#define KVANT_STORE(sum, n) _tile_stored(sum, out + 16 * (n), 4L * sum_stride)

// `steps` times 64 k by as many groups of lanes as four tiles of planes hold.
template <Operands operands, int steps>
KVANT_INLINE void multiply_resident(const std::uint8_t* rows, int count, int row_stride, Planes planes,
                                    std::int32_t* out, int sum_stride) {
  if constexpr (steps == 1) {
    KVANT_PLANES(4, 0, 0);
    KVANT_PLANES(5, 0, 1);
    KVANT_PLANES(6, 0, 2);
    KVANT_PLANES(7, 0, 3);
  } else if constexpr (steps == 2) {
    KVANT_PLANES(4, 0, 0);
    KVANT_PLANES(5, 1, 0);
    KVANT_PLANES(6, 0, 1);
    KVANT_PLANES(7, 1, 1);
  } else {
    KVANT_PLANES(4, 0, 0);
    KVANT_PLANES(5, 1, 0);
    KVANT_PLANES(6, 2, 0);
    KVANT_PLANES(7, 3, 0);
  }
  for (; count > 0; count -= kTileRows, rows += kTileRows * row_stride, out += kTileRows * sum_stride) {
    KVANT_ROWS(2, 0);
    _tile_zero(0);
    if constexpr (steps == 1) {
      _tile_zero(1);
      KVANT_PRODUCT(0, 2, 4);
      KVANT_PRODUCT(1, 2, 5);
      KVANT_STORE(0, 0);
      _tile_zero(0);
      KVANT_PRODUCT(0, 2, 6);
      KVANT_STORE(1, 1);
      _tile_zero(1);
      KVANT_PRODUCT(1, 2, 7);
      KVANT_STORE(0, 2);
      KVANT_STORE(1, 3);
    } else if constexpr (steps == 2) {
      KVANT_ROWS(3, 1);
      _tile_zero(1);
      KVANT_PRODUCT(0, 2, 4);
      KVANT_PRODUCT(1, 2, 6);
      KVANT_PRODUCT(0, 3, 5);
      KVANT_PRODUCT(1, 3, 7);
      KVANT_STORE(0, 0);
      KVANT_STORE(1, 1);
    } else {
      KVANT_ROWS(3, 1);
      KVANT_PRODUCT(0, 2, 4);
      KVANT_PRODUCT(0, 3, 5);
      KVANT_ROWS(2, 2);
      KVANT_ROWS(3, 3);
      KVANT_PRODUCT(0, 2, 6);
      KVANT_PRODUCT(0, 3, 7);
      KVANT_STORE(0, 0);
    }
  }
}

// One group of lanes, any number of k.
template <Operands operands>
KVANT_INLINE void multiply_lanes(const std::uint8_t* rows, int count, int row_stride, Planes planes, int steps,
                                 std::int32_t* out, int sum_stride) {
  for (; count > 0; count -= kTileRows, rows += kTileRows * row_stride, out += kTileRows * sum_stride) {
    _tile_zero(0);
    for (int k = 0; k < steps; ++k) {
      KVANT_ROWS(2, k);
      KVANT_PLANES(4, k, 0);
      KVANT_PRODUCT(0, 2, 4);
    }
    KVANT_STORE(0, 0);
  }
}
#undef KVANT_PRODUCT
#undef KVANT_ROWS
#undef KVANT_PLANES
#undef KVANT_STORE

// As `multiply_vectors`, while a Tiles lives.
template <Operands operands>
inline void multiply_tiles(const std::uint8_t* rows, int count, int row_stride, Planes planes, int fours, int n,
                           std::int32_t* sums, int sum_stride) {
  asm volatile("" ::: "memory");  // the loads do not tell the compiler that they read memory
  const int steps = (fours + 15) / 16;
  const auto resident = [&](auto of) KVANT_LAMBDA_INLINE {
    constexpr int groups = 4 / of.value;
    for (; n >= groups; n -= groups, planes.at += groups * planes.n_stride, sums += 16 * groups)
      multiply_resident<operands, of.value>(rows, count, row_stride, planes, sums, sum_stride);
  };
  if (steps == 1) resident(Number<1>{});
  if (steps == 2) resident(Number<2>{});
  if (steps == 4) resident(Number<4>{});
  for (; n > 0; --n, planes.at += planes.n_stride, sums += 16)
    multiply_lanes<operands>(rows, count, row_stride, planes, steps, sums, sum_stride);
}

#else

constexpr bool use_tiles(int) { return false; }
struct Tiles {
  explicit Tiles(bool) {}
};
inline void stay_awake() {}

#endif

#if KVANT_INTEGER_PRODUCTS

template <Operands operands>
inline void multiply([[maybe_unused]] bool tiles, const std::uint8_t* rows, int count, int row_stride, Planes planes,
                     int fours, int n, const std::int32_t* starts, std::int32_t* sums, int sum_stride) {
#if defined(__AMX_INT8__)
  if (tiles) return multiply_tiles<operands>(rows, count, row_stride, planes, fours, n, sums, sum_stride);
#endif
  multiply_vectors<operands>(rows, count, row_stride, planes, fours, n, starts, sums, sum_stride);
}
#endif

}  // namespace
}  // namespace kvant

// bfloat16, float16 and float32, by bits: the same result on every machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "layout.h"
#include "vec.h"

namespace kvant {
namespace {

KVANT_INLINE std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
KVANT_INLINE float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
KVANT_INLINE bool is_nan(float x) { return x != x; }
KVANT_INLINE bool is_finite(float x) { return (bits_of(x) & 0x7F800000u) != 0x7F800000u; }

KVANT_INLINE float from_bf16(std::uint16_t raw) { return float_of(std::uint32_t{raw} << 16); }

// To nearest, ties to even; NaN stays NaN.
KVANT_INLINE std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(is_nan(x) ? 0x7FC0u : rounded);
}
// A non-negative number up, so that what it scales still fits.
KVANT_INLINE std::uint16_t to_bf16_up(float x) {
  return is_finite(x) ? static_cast<std::uint16_t>((bits_of(x) + 0xFFFFu) >> 16) : to_bf16(x);
}
// Towards minus infinity.
KVANT_INLINE std::uint16_t to_bf16_down(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t down = (bits >> 31) ? (bits + 0xFFFFu) >> 16 : bits >> 16;
  return is_finite(x) ? static_cast<std::uint16_t>(down) : to_bf16(x);
}

KVANT_INLINE float from_f16(std::uint16_t raw) {
  const std::uint32_t sign = std::uint32_t{raw & 0x8000u} << 16;
  const std::uint32_t rest = raw & 0x7FFFu;
  // The exponent is moved by a multiplication, which normalises subnormals as well.
  const float magnitude = float_of(rest << 13) * 0x1p112f;
  const std::uint32_t special = 0x7F800000u | (rest << 13);  // infinity and NaN
  return float_of(sign | (rest >= 0x7C00u ? special : bits_of(magnitude)));
}

KVANT_INLINE std::uint16_t to_f16(float x) {
  const std::uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (rest >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // 65520 and above
  if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded mantissa in the low bits
    return static_cast<std::uint16_t>(sign | (bits_of(float_of(rest) + 0.5f) - 0x3F000000u));
  }
  return static_cast<std::uint16_t>(sign | ((rest - 0x38000000u + 0xFFFu + ((rest >> 13) & 1u)) >> 13));
}

KVANT_INLINE std::uint16_t read_u16(const std::uint8_t* from) {
  std::uint16_t raw;
  std::memcpy(&raw, from, 2);
  return raw;
}
KVANT_INLINE void write_u16(std::uint8_t* to, std::uint16_t raw) { std::memcpy(to, &raw, 2); }

// Rows of `n`. Restricted: else the compiler has to expect that bytes written change what is still to be read.
inline void from_bf16_row(const std::uint8_t* __restrict from, int n, float* __restrict out) {
  for (int i = 0; i < n; ++i) out[i] = from_bf16(read_u16(from + 2 * i));
}
inline void to_bf16_row(const float* __restrict x, int n, std::uint8_t* __restrict to) {
  for (int i = 0; i < n; ++i) write_u16(to + 2 * i, to_bf16(x[i]));
}

// `n` elements at element `offset` of an array of that type, to float32.
inline void load_row(const void* base, Type type, std::int64_t offset, int n, float* out) {
  if (type == Type::f32) {
    std::memcpy(out, static_cast<const float*>(base) + offset, sizeof(float) * static_cast<unsigned>(n));
    return;
  }
  const std::uint8_t* from = static_cast<const std::uint8_t*>(base) + 2 * offset;
  if (type == Type::bf16) return from_bf16_row(from, n, out);
  for (int i = 0; i < n; ++i) out[i] = from_f16(read_u16(from + 2 * i));
}

inline void store_row(void* base, Type type, std::int64_t offset, int n, const float* x) {
  if (type == Type::f32) {
    std::memcpy(static_cast<float*>(base) + offset, x, sizeof(float) * static_cast<unsigned>(n));
    return;
  }
  std::uint8_t* to = static_cast<std::uint8_t*>(base) + 2 * offset;
  if (type == Type::bf16) return to_bf16_row(x, n, to);
  for (int i = 0; i < n; ++i) write_u16(to + 2 * i, to_f16(x[i]));
}

}  // namespace
}  // namespace kvant

// bf16: token after token, (16, D) little-endian.
#pragma once

#include "convert.h"
#include "layout.h"

namespace kvant {
namespace {

#if defined(__AVX512F__)
// Column j of sixteen rows of sixteen dwords, `stride` bytes apart, to use(j, column).
template <class Use>
KVANT_INLINE void for_columns(const std::uint8_t* rows, int stride, Use use) {
  __m512i a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(rows + i * stride);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {  // in each quarter: two rows of two columns
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // four rows of column i % 4 of the quarter
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {  // quarters side by side
    const __m512i even = _mm512_shuffle_i32x4(a[j], a[j + 4], 0x88), odd = _mm512_shuffle_i32x4(a[j], a[j + 4], 0xDD);
    const __m512i even2 = _mm512_shuffle_i32x4(a[j + 8], a[j + 12], 0x88);
    const __m512i odd2 = _mm512_shuffle_i32x4(a[j + 8], a[j + 12], 0xDD);
    use(j, U16{(UintV)_mm512_shuffle_i32x4(even, even2, 0x88)});
    use(j + 4, U16{(UintV)_mm512_shuffle_i32x4(odd, odd2, 0x88)});
    use(j + 8, U16{(UintV)_mm512_shuffle_i32x4(even, even2, 0xDD)});
    use(j + 12, U16{(UintV)_mm512_shuffle_i32x4(odd, odd2, 0xDD)});
  }
}
#endif

struct BF16 {
  static void decode_key(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    const int head_dim = layout.head_dim;
    const std::uint8_t* codes = tile + side.codes;
    const auto keep = [&](int d, U16 both) KVANT_LAMBDA_INLINE {
      store(out + 16 * d, as_float(both << 16));
      store(out + 16 * d + 16, as_float(both & splat_u32(0xFFFF0000u)));
    };
    int d = 0;
#if defined(__AVX512F__)
    for (; d + 32 <= head_dim; d += 32)
      for_columns(codes + 2 * d, 2 * head_dim, [&](int j, U16 both) KVANT_LAMBDA_INLINE { keep(d + 2 * j, both); });
#endif
    for (; d < head_dim; d += 2) {
      alignas(64) std::uint32_t pairs[kTile];
      for (int t = 0; t < kTile; ++t) std::memcpy(pairs + t, codes + 2 * (t * head_dim + d), 4);
      keep(d, load_u32(pairs));
    }
  }

  static void decode_value(const Layout& layout, const Side& side, const std::uint8_t* tile, float* out) {
    from_bf16_row(tile + side.codes, kTile * layout.head_dim, out);
  }

  static void encode(const Layout& layout, const Side& side, const float* x, std::uint8_t* tile, int token) {
    to_bf16_row(x, layout.head_dim, tile + side.codes + 2 * token * layout.head_dim);
  }
};

}  // namespace
}  // namespace kvant

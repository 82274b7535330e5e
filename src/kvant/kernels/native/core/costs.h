// The costs of a Viterbi search over 256 states, a byte each: one step after another (formats/viterbi.py).
//
// Between steps there is one cost for each j = state % 2^(8 - bits), the smallest of its 2^bits states x * count + j.
// A step gives state j * 2^bits + c the cost of j and a distance.
//
// `n` vectors are searched side by side.
//
//   forget   steps of which nothing is asked but the costs
//   origin   the j before `steps` steps on the best path to their end, of each vector
//   keep     remembers the way into `back`, kBackBytes a step; then
//   trace    the codes of the way to j
#pragma once

#include "layout.h"
#include "vec.h"

namespace kvant {
namespace {

constexpr int kRenorm = 4;  // steps; the number of steps of every run is a multiple of it

// Of each vector, the row of distances of every element.
template <int n>
struct Rows {
  const std::uint32_t* of[n];
};

#if defined(__AVX512VBMI__)

constexpr int kTogether = 2;  // searches whose steps do not wait for each other

template <int bits, int n>
class Costs {
 public:
  static constexpr int count = kStates >> bits;
  static constexpr int kBackBytes = count + count / kRenorm;

  Costs() {
    for (int v = 0; v < n; ++v) cost_[v] = floor_[v] = _mm512_setzero_si512();
  }
  explicit Costs(const int* start) : Costs() {
    const __m512i j = index([](int lane) { return lane % count; });
    for (int v = 0; v < n; ++v)
      cost_[v] = _mm512_movm_epi8(_mm512_cmpneq_epi8_mask(j, _mm512_set1_epi8(static_cast<char>(start[v]))));
  }

  KVANT_INLINE void forget(const std::uint8_t* distances, Rows<n> rows, int first, int steps) {
    run<false>(distances, rows, first, steps, [](int, const __m512i*) {});
  }

  KVANT_INLINE void origin(const std::uint8_t* distances, Rows<n> rows, int steps, std::uint8_t* const*, int* origins) {
    __m512i before[n];
    for (int v = 0; v < n; ++v) before[v] = index([](int lane) { return lane % count; });
    run<true>(distances, rows, 0, steps, [&](int v, const __m512i* from) KVANT_LAMBDA_INLINE {
#pragma GCC unroll 4
      for (int i = 0; i < kRenorm; ++i) before[v] = _mm512_permutexvar_epi8(from[i], before[v]);
    });
    for (int v = 0; v < n; ++v) {
      alignas(64) std::uint8_t of[64];
      _mm512_store_si512(of, before[v]);
      origins[v] = of[best(v)];
    }
  }

  // Four steps, and what they are together: a way is traced in jumps, whose steps do not wait for each other.
  KVANT_INLINE void keep(const std::uint8_t* distances, Rows<n> rows, int steps, std::uint8_t* const* back) {
    std::uint8_t* to[n];
    for (int v = 0; v < n; ++v) to[v] = back[v];
    run<true>(distances, rows, 0, steps, [&](int v, const __m512i* from) KVANT_LAMBDA_INLINE {
#pragma GCC unroll 4
      for (int i = 0; i < kRenorm; ++i) store(to[v] + i * count, from[i]);
      const __m512i two = _mm512_permutexvar_epi8(from[1], from[0]), last = _mm512_permutexvar_epi8(from[3], from[2]);
      store(to[v] + kRenorm * count, _mm512_permutexvar_epi8(last, two));
      to[v] += kRenorm * kBackBytes;
    });
  }

  static void trace(const std::uint8_t* back, int steps, int j, std::uint8_t* codes) {
    constexpr int mask = (1 << bits) - 1;
    for (int t = steps - kRenorm; t >= 0; t -= kRenorm) {
      const std::uint8_t* group = back + t * kBackBytes;
      const int j3 = group[3 * count + j], j2 = group[2 * count + j3], j1 = group[count + j2];
      const int four = (j1 & mask) | (j2 & mask) << 8 | (j3 & mask) << 16 | (j & mask) << 24;
      std::memcpy(codes + t, &four, 4);
      j = group[kRenorm * count + j];
    }
  }

 private:
  // Calls use(v, the ways of kRenorm steps).
  template <bool track, class Use>
  KVANT_INLINE void run(const std::uint8_t* distances, Rows<n> rows, int first, int steps, Use use) {
    __m512i spread[4], from[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      spread[i] = index([&](int lane) { return (64 * i + lane) >> bits; });
      from[i] = index([&](int lane) { return (64 * i + lane) / count << (8 - 2 * bits) | lane % count >> bits; });
    }
    for (int t = first; t < first + steps; t += kRenorm) {
      __m512i ways[n][kRenorm];
#pragma GCC unroll 2
      for (int v = 0; v < n; ++v) {
        cost_[v] = _mm512_sub_epi8(cost_[v], floor_[v]);
        floor_[v] = smallest(v);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kRenorm; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < n; ++v) step<track>(cost_[v], distances, rows.of[v][t + i], spread, from, ways[v][i]);
      }
#pragma GCC unroll 2
      for (int v = 0; v < n; ++v) use(v, ways[v]);
    }
  }

  static KVANT_INLINE void store(std::uint8_t* to, __m512i x) {
    if constexpr (bits == 2) _mm512_storeu_si512(to, x);
    if constexpr (bits == 3) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(x));
    if constexpr (bits == 4) _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(x));
  }

  int best(int v) const { return __builtin_ctzll(_mm512_cmpeq_epi8_mask(cost_[v], smallest(v))); }

  template <class Of>
  static KVANT_INLINE __m512i index(Of of) {
    alignas(64) std::uint8_t lanes[64];
    for (int lane = 0; lane < 64; ++lane) lanes[lane] = static_cast<std::uint8_t>(of(lane));
    return _mm512_load_si512(lanes);
  }

  template <bool keep>
  static KVANT_INLINE void step(__m512i& cost, const std::uint8_t* distances, std::uint32_t row, const __m512i* spread,
                                const __m512i* from, __m512i& best) {
    const std::uint8_t *low = distances + row, *high = distances + (row ^ 128);
    const __m512i s0 = state(cost, spread[0], low), s1 = state(cost, spread[1], low + 64);
    const __m512i s2 = state(cost, spread[2], high), s3 = state(cost, spread[3], high + 64);
    const __m512i a = _mm512_min_epu8(s0, s1), b = _mm512_min_epu8(s2, s3);
    cost = _mm512_min_epu8(a, b);
    if constexpr (keep) {
      const __m512i x = _mm512_mask_mov_epi8(from[0], _mm512_cmplt_epu8_mask(s1, s0), from[1]);
      const __m512i y = _mm512_mask_mov_epi8(from[2], _mm512_cmplt_epu8_mask(s3, s2), from[3]);
      best = _mm512_mask_mov_epi8(x, _mm512_cmplt_epu8_mask(b, a), y);
    }
    if constexpr (bits >= 3) halve<keep, 0x4E>(cost, best);  // halves of the register have every second x
    if constexpr (bits == 4) halve<keep, 0xB1>(cost, best);
  }

  static KVANT_INLINE __m512i state(__m512i cost, __m512i spread, const std::uint8_t* distance) {
    return _mm512_adds_epu8(_mm512_permutexvar_epi8(spread, cost), _mm512_loadu_si512(distance));
  }

  template <bool keep, int order>
  static KVANT_INLINE void halve(__m512i& cost, __m512i& best) {
    const __m512i other = _mm512_shuffle_i32x4(cost, cost, order);
    if constexpr (keep)
      best = _mm512_mask_mov_epi8(best, _mm512_cmplt_epu8_mask(other, cost), _mm512_shuffle_i32x4(best, best, order));
    cost = _mm512_min_epu8(cost, other);
  }

  // In all lanes.
  KVANT_INLINE __m512i smallest(int v) const {
    const __m512i cost = cost_[v];
    const __m256i half = bits == 2 ? _mm256_min_epu8(_mm512_castsi512_si256(cost), _mm512_extracti64x4_epi64(cost, 1))
                                   : _mm512_castsi512_si256(cost);
    const __m128i quarter = bits < 4 ? _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1))
                                     : _mm256_castsi256_si128(half);
    const __m128i pairs = _mm_min_epu8(quarter, _mm_srli_epi16(quarter, 8));
    return _mm512_broadcastb_epi8(_mm_minpos_epu16(pairs));
  }

  __m512i cost_[n], floor_[n];  // a cost in lanes j, j + count, j + 2 count, ...
};

#else

template <int width>
struct Lanes;
#define KVANT_LANES(width)                                                                         \
  template <>                                                                                      \
  struct Lanes<width> {                                                                            \
    typedef std::uint8_t V __attribute__((vector_size(width)));                                    \
    typedef std::uint8_t Unaligned __attribute__((vector_size(width), aligned(1), may_alias));     \
  };
KVANT_LANES(16)
KVANT_LANES(32)
KVANT_LANES(64)
#undef KVANT_LANES

// In vectors of the machine's width, or of the number of costs where that is smaller.
constexpr int kTogether = 1;

template <int bits, int n>
class Costs {
  static_assert(n == 1);

 public:
  static constexpr int count = kStates >> bits, fan = 1 << bits;

  Costs() = default;
  explicit Costs(const int* start) {
    for (int j = 0; j < count; ++j) cost_[j] = j == *start ? 0 : 255;
  }

  static constexpr int kBackBytes = count;  // for each j the best one before it

  void forget(const std::uint8_t* distances, Rows<1> rows, int first, int steps) {
    run<false>(distances, *rows.of + first, steps, nullptr);
  }

  void origin(const std::uint8_t* distances, Rows<1> rows, int steps, std::uint8_t* const* back, int* origins) {
    run<true>(distances, *rows.of, steps, *back);
    *origins = best();
    for (int t = steps - 1; t >= 0; --t) *origins = (*back)[t * count + *origins];
  }

  void keep(const std::uint8_t* distances, Rows<1> rows, int steps, std::uint8_t* const* back) {
    run<true>(distances, *rows.of, steps, *back);
  }

  static void trace(const std::uint8_t* back, int steps, int j, std::uint8_t* codes) {
    for (int t = steps - 1; t >= 0; --t) {
      codes[t] = static_cast<std::uint8_t>(j & (fan - 1));
      j = back[t * count + j];
    }
  }

 private:
  template <bool keep>
  void run(const std::uint8_t* distances, const std::uint32_t* rows, int steps, std::uint8_t* back) {
    for (int t = 0; t < steps; ++t, back += keep ? count : 0) {
      if (t % kRenorm == 0) {
        for (int j = 0; j < count; ++j) cost_[j] = static_cast<std::uint8_t>(cost_[j] - floor_);
        floor_ = cost_[best()];
      }
      step<keep>(distances + rows[t], distances + (rows[t] ^ 128), back);
    }
  }

  int best() const {
    int j = 0;
    for (int i = 1; i < count; ++i) j = cost_[i] < cost_[j] ? i : j;
    return j;
  }

  static constexpr int width = kWidth < count ? kWidth : count, parts = count / width;
  using V = typename Lanes<width>::V;
  using Unaligned = typename Lanes<width>::Unaligned;

  template <bool keep>
  void step(const std::uint8_t* low, const std::uint8_t* high, std::uint8_t* back) {
    V smallest[parts], from[parts];
#pragma GCC unroll 16
    for (int i = 0; i < fan; ++i) {
      const int x = ranked(i), first = x * count;
#pragma GCC unroll 4
      for (int p = 0; p < parts; ++p) {
        const int s = first + p * width;
        const V distance = *reinterpret_cast<const Unaligned*>((s < kStates / 2 ? low : high - kStates / 2) + s);
        const V state = add(spread(cost_ + (s >> bits)), distance);
        const std::uint8_t high_bits = static_cast<std::uint8_t>(x << (8 - 2 * bits));
        const V leaves = V{} + high_bits;
        if (i == 0) {
          smallest[p] = state, from[p] = leaves;
          continue;
        }
        const V before = smallest[p];
        smallest[p] = state < before ? state : before;
        if (keep) from[p] = smallest[p] == before ? from[p] : leaves;
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < parts; ++p) {
      *reinterpret_cast<Unaligned*>(cost_ + p * width) = smallest[p];
      if (keep) *reinterpret_cast<Unaligned*>(back + p * width) = from[p] | every(p * width);
    }
  }

  // (first + lane) / 2^bits in each lane.
  static KVANT_INLINE V every(int first) {
    V r;
    for (int lane = 0; lane < width; ++lane) r[lane] = static_cast<std::uint8_t>((first + lane) >> bits);
    return r;
  }

  // Each of the costs from there on to the lanes of 2^bits states.
  static KVANT_INLINE V spread(const std::uint8_t* cost) {
    if constexpr (bits == 4) return V{} + *cost;
#if defined(__AVX2__) || defined(__aarch64__)
    const V pattern = every(0);
#if defined(__aarch64__)
    return (V)vqtbl1q_u8(vld1q_u8(cost), (uint8x16_t)pattern);
#else
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cost));
#if defined(__AVX512BW__)
    if constexpr (width == 64)
      return (V)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), (__m512i)pattern);
#endif
    if constexpr (width == 32) return (V)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), (__m256i)pattern);
#endif
#else
    constexpr std::uint64_t every_byte = 0x0101010101010101u;
    typedef std::uint64_t Long __attribute__((vector_size(16)));
    const auto eight = [&](int j) { return every_byte * cost[j]; };
    if constexpr (bits == 3) return (V)Long{eight(0), eight(1)};
    const std::uint64_t low = 0xFFFFFFFF;
    return (V)Long{(eight(0) & low) | eight(1) << 32, (eight(2) & low) | eight(3) << 32};
#endif
  }

  // Sums that stop at 255.
  static KVANT_INLINE V add(V a, V b) {
    a += b;
    return a | (V)(a < b);
  }

  // Of equal costs the first x in this order wins.
  static constexpr int ranked(int i) {
    if (bits == 2) return i;
    if (bits == 3) return i % 4 * 2 + i / 4;
    return i % 4 * 4 + i / 8 + i / 4 % 2 * 2;
  }

  alignas(64) std::uint8_t cost_[count + 16] = {};  // and what a load of 16 reads beyond them
  std::uint8_t floor_ = 0;
};

#endif

}  // namespace
}  // namespace kvant

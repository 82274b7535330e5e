// Reads pages and nothing else: the speed of memory that attention is measured against.
#pragma once

#include "calls.h"
#include "vec.h"

namespace kvant {
namespace {

constexpr int kReadAhead = 8192;  // bytes between a line and the one prefetched when it is read

// Combines every byte of pages order[first..last), so that no read can be left out.
inline std::uint32_t read_pages(const std::uint8_t* pages, std::int64_t page_stride, std::int64_t page_bytes,
                                const std::int32_t* order, std::int64_t first, std::int64_t last) {
  const std::int64_t ahead = (kReadAhead + page_bytes - 1) / page_bytes;
  std::uint32_t all = 0;
  U16 sum[4] = {splat_u32(0), splat_u32(0), splat_u32(0), splat_u32(0)};
  for (std::int64_t i = first; i < last; ++i) {
    const std::uint8_t* page = pages + order[i] * page_stride;
    const std::uint8_t* next = pages + order[i + ahead < last ? i + ahead : i] * page_stride;
    std::int64_t at = 0;
    for (; at + 256 <= page_bytes; at += 256) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        sum[j] = sum[j] ^ load_u32(page + at + 64 * j);
        __builtin_prefetch(next + at + 64 * j, 0, 2);
      }
    }
    for (; at + 64 <= page_bytes; at += 64) sum[0] = sum[0] ^ load_u32(page + at);
    for (; at < page_bytes; ++at) all ^= page[at];
  }
  std::uint32_t lane[16];
  const U16 joined = (sum[0] ^ sum[1]) ^ (sum[2] ^ sum[3]);
  std::memcpy(lane, &joined, sizeof lane);
  for (const std::uint32_t x : lane) all ^= x;
  return all;
}

}  // namespace
}  // namespace kvant

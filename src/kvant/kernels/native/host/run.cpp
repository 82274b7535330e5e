#include "run.h"

#include <omp.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "plan.h"

namespace kvant {
namespace {

// Fewer vectors than this are encoded before other threads have woken up.
constexpr std::int64_t kParallelVectors = 64;

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

void check_sequences(const AttendCall& call, std::int64_t num_blocks, const std::int32_t* query_start,
                     const std::int32_t* seq_lens, int num_seqs) {
  const int block_size = call.layout->block_size;
  for (int i = 0; i < num_seqs; ++i) {
    const std::string name = "sequence " + std::to_string(i);
    const std::int64_t tokens = std::int64_t{query_start[i + 1]} - query_start[i];
    if (tokens < 0 || query_start[i] < 0) refuse(name + ": query_start must not fall");
    if (tokens == 0 || seq_lens[i] == 0) continue;
    if (tokens > seq_lens[i]) {
      refuse(name + ": " + std::to_string(tokens) + " query tokens, but seq_len " +
             std::to_string(seq_lens[i]));
    }
    if (tokens * call.group > INT32_MAX) refuse(name + ": too many query rows for one call");
    const std::int64_t position = seq_lens[i] - tokens;
    const std::int64_t oldest = call.window > 0 ? std::max<std::int64_t>(0, position - call.window + 1) : 0;
    const std::int64_t last = (seq_lens[i] - 1) / block_size;
    if (last >= call.block_table_stride) {
      refuse(name + ": seq_len " + std::to_string(seq_lens[i]) + " needs " + std::to_string(last + 1) +
             " blocks, its block table has " + std::to_string(call.block_table_stride));
    }
    const std::int32_t* table = call.block_table + i * call.block_table_stride;
    for (std::int64_t b = oldest / block_size; b <= last; ++b) {
      if (table[b] < 0 || table[b] >= num_blocks) {
        refuse(name + ": entry " + std::to_string(b) + " of its block table is " + std::to_string(table[b]) +
               ", there are blocks 0 to " + std::to_string(num_blocks - 1));
      }
    }
  }
}

// Every 16-bit page that some row of the call will read is there.
void check_exact(const AttendCall& call, const std::int32_t* query_start, const std::int32_t* seq_lens, int num_seqs) {
  if (!call.exact.layout) return;
  for (int i = 0; i < num_seqs; ++i) {
    const std::string name = "sequence " + std::to_string(i);
    const std::int64_t tokens = std::int64_t{query_start[i + 1]} - query_start[i];
    if (tokens == 0 || seq_lens[i] == 0) continue;
    const std::int64_t first = call.exact_first[i], leading = call.exact_sinks[i];
    const std::int64_t window = std::max<std::int64_t>(0, seq_lens[i] - tokens + 1 - call.exact_window);
    const std::int64_t from = std::max<std::int64_t>(window, call.exact_from[i]);
    if (first % kTile || first < 0 || (from < seq_lens[i] && first > from))
      refuse(name + ": its window starts in the tile at " + std::to_string(first) + ", but " + std::to_string(from) +
             " is read");
    if (leading < 0 || leading > call.sink_tiles * kTile)
      refuse(name + ": " + std::to_string(leading) + " sinks do not lie in " + std::to_string(call.sink_tiles) +
             " tiles");
    const auto check = [&](std::int64_t column) {
      const bool inside = column < call.exact_stride;
      const std::int32_t page = inside ? call.exact_tiles[i * call.exact_stride + column] : kNoPage;
      if (!inside || !call.exact.has(page))
        refuse(name + ": 16-bit tile " + std::to_string(column) + " has no page");
    };
    for (std::int64_t column = 0; column * kTile < leading; ++column) check(column);
    for (std::int64_t at = from / kTile * kTile; at < seq_lens[i] && from < seq_lens[i]; at += kTile)
      check(call.sink_tiles + (at - first) / kTile);
  }
}

// The last sequence whose items (or blocks) start at or before `index`.
template <std::int64_t Sequence::* first>
const Sequence& sequence_of(const Plan& plan, std::int64_t index) {
  int low = 0, high = plan.num_sequences;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (plan.sequences[middle].*first <= index ? low : high) = middle;
  }
  return plan.sequences[low];
}

float* states_of(const AttendCall& call, const Plan& plan, const Sequence& seq, int head, int block,
                 int range) {
  const std::int64_t row =
      static_cast<std::int64_t>(head) * seq.rows + static_cast<std::int64_t>(block) * kRows;
  return plan.partials + (seq.partials + row * seq.ranges + range) * state_floats(*call.layout);
}

void run_item(const Kernels& kernels, const AttendCall& call, const Plan& plan, std::int64_t item,
              float* scratch) {
  const Sequence& seq = sequence_of<&Sequence::first_item>(plan, item);
  item -= seq.first_item;
  const int range = seq.split ? static_cast<int>(item % seq.ranges) : 0;
  if (seq.split) item /= seq.ranges;
  const int block = static_cast<int>(item % seq.blocks), head = static_cast<int>(item / seq.blocks);
  if (!seq.split) return kernels.attend(call, seq, head, block, scratch);
  kernels.attend_range(call, seq, head, block, seq.first_range + range,
                       states_of(call, plan, seq, head, block, range),
                       seq.ranges * state_floats(*call.layout), scratch);
}

void run_merge(const Kernels& kernels, const AttendCall& call, const Plan& plan, std::int64_t index,
               float* scratch) {
  const Sequence& seq = sequence_of<&Sequence::first_block>(plan, index);
  if (!seq.split) return;
  index -= seq.first_block;
  const int block = static_cast<int>(index % seq.blocks), head = static_cast<int>(index / seq.blocks);
  kernels.merge(call, seq, head, block, states_of(call, plan, seq, head, block, 0), scratch);
}

}  // namespace

void run_encode(const Kernels& kernels, const EncodeCall& call, std::int64_t num_blocks) {
  const std::int64_t slots = num_blocks * call.layout->block_size;
  for (std::int64_t i = 0; i < call.num_tokens; ++i) {
    if (call.slots[i] < -1 || call.slots[i] >= slots) {
      refuse("slots: token " + std::to_string(i) + " goes to slot " + std::to_string(call.slots[i]) +
             ", there are slots 0 to " + std::to_string(slots - 1) + " (and -1 for none)");
    }
    if (call.exact.layout && call.slots[i] >= 0 && call.exact_pages[i] != kNoPage &&
        !call.exact.has(call.exact_pages[i])) {
      refuse("exact_pages: token " + std::to_string(i) + " goes to page " + std::to_string(call.exact_pages[i]) +
             ", which does not exist");
    }
  }
#pragma omp parallel if (call.num_tokens * call.layout->num_kv_heads >= kParallelVectors)
  kernels.encode(call, omp_get_thread_num(), omp_get_num_threads());
}

void run_attend(const Kernels& kernels, const AttendCall& call, std::int64_t num_blocks,
                const std::int32_t* query_start, const std::int32_t* seq_lens, int num_seqs, void* workspace,
                std::int64_t workspace_bytes) {
  check_sequences(call, num_blocks, query_start, seq_lens, num_seqs);
  check_exact(call, query_start, seq_lens, num_seqs);
  const int threads = omp_get_max_threads();
  const Plan plan = make_plan(call, query_start, seq_lens, num_seqs, threads, workspace, workspace_bytes);
#pragma omp parallel if (plan.items > 1)
  {
    float* scratch = plan.scratch + omp_get_thread_num() * plan.scratch_floats;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < plan.items; ++i) run_item(kernels, call, plan, i, scratch);
    if (plan.any_split) {
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < plan.blocks; ++i) run_merge(kernels, call, plan, i, scratch);
    }
  }
}

std::uint32_t run_read(const Kernels& kernels, const std::uint8_t* pages, std::int64_t page_stride,
                       std::int64_t page_bytes, const std::int32_t* order, std::int64_t count) {
  std::uint32_t all = 0;
#pragma omp parallel reduction(^ : all)
  {
    const std::int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    all ^= kernels.read_pages(pages, page_stride, page_bytes, order, count * thread / threads,
                              count * (thread + 1) / threads);
  }
  return all;
}

}  // namespace kvant

#include "plan.h"

#include <omp.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace kvant {
namespace {

constexpr std::int64_t kAlign = 64;
// Ranges become items of their own while whole row blocks would be fewer than this for each thread.
constexpr int kItemsPerThread = 4;
// Row states beyond those of one decoding sequence that a thread may add for splitting.
constexpr std::int64_t kPartialBytesPerThread = 1 << 20;

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

std::int64_t fixed_bytes(const Layout& layout, std::int64_t num_seqs, int threads) {
  const auto sequences = up(num_seqs * static_cast<std::int64_t>(sizeof(Sequence)), kAlign);
  return kAlign + sequences + threads * up(scratch_floats(layout), 16) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

std::int64_t workspace_bytes(const Layout& layout, int num_q_heads, std::int64_t max_tokens,
                             std::int64_t max_seq_len, std::int64_t max_seqs) {
  const int threads = omp_get_max_threads();
  const auto state_bytes = state_floats(layout) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t row_bytes = up(max_seq_len, kRange) / kRange * state_bytes;
  const std::int64_t decode = num_q_heads * row_bytes;
  const std::int64_t useful =
      std::min<std::int64_t>(max_tokens * num_q_heads, kItemsPerThread * threads * kRows) * row_bytes;
  const std::int64_t partials = std::min(useful, std::max(decode, threads * kPartialBytesPerThread));
  return fixed_bytes(layout, max_seqs, threads) + partials;
}

Plan make_plan(const AttendCall& call, const std::int32_t* query_start, const std::int32_t* seq_lens,
               int num_seqs, int threads, void* workspace, std::int64_t bytes) {
  const Layout& layout = *call.layout;
  const std::int64_t fixed = fixed_bytes(layout, num_seqs, threads);
  if (bytes < fixed) {
    throw std::invalid_argument("workspace: " + std::to_string(bytes) + " bytes, but " +
                                std::to_string(num_seqs) + " sequences on " + std::to_string(threads) +
                                " threads need " + std::to_string(fixed) + "; size it with workspace_bytes");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  auto* base = static_cast<std::uint8_t*>(workspace) + (kAlign - address % kAlign) % kAlign;
  Plan plan;
  plan.sequences = reinterpret_cast<Sequence*>(base);
  base += up(num_seqs * static_cast<std::int64_t>(sizeof(Sequence)), kAlign);
  plan.scratch = reinterpret_cast<float*>(base);
  plan.scratch_floats = up(scratch_floats(layout), 16);
  plan.partials = plan.scratch + threads * plan.scratch_floats;
  std::int64_t room = (bytes - fixed) / (state_floats(layout) * static_cast<std::int64_t>(sizeof(float)));

  const int heads = layout.num_kv_heads;
  for (int i = 0; i < num_seqs; ++i) {
    const int tokens = query_start[i + 1] - query_start[i];
    if (tokens == 0 || seq_lens[i] == 0) continue;
    Sequence& seq = plan.sequences[plan.num_sequences++];
    seq = {};
    seq.index = i;
    seq.first_token = query_start[i];
    seq.position = seq_lens[i] - tokens;
    seq.rows = tokens * call.group;
    seq.blocks = (seq.rows + kRows - 1) / kRows;
    const int oldest = call.window > 0 ? std::max(0, seq.position - call.window + 1) : 0;
    seq.first_range = oldest / kRange;
    seq.ranges = (seq_lens[i] - 1) / kRange + 1 - seq.first_range;
    seq.first_block = plan.blocks;
    plan.blocks += static_cast<std::int64_t>(heads) * seq.blocks;
  }
  const bool split = plan.blocks < static_cast<std::int64_t>(kItemsPerThread) * threads;
  std::int64_t partials = 0;
  for (int i = 0; i < plan.num_sequences; ++i) {
    Sequence& seq = plan.sequences[i];
    const std::int64_t states = static_cast<std::int64_t>(heads) * seq.rows * seq.ranges;
    seq.split = split && seq.ranges > 1 && states <= room;
    seq.partials = partials;
    seq.first_item = plan.items;
    if (seq.split) {
      room -= states;
      partials += states;
      plan.any_split = true;
    }
    plan.items += static_cast<std::int64_t>(heads) * seq.blocks * (seq.split ? seq.ranges : 1);
  }
  return plan;
}

}  // namespace kvant

// How a batch becomes work items, and where in the caller's workspace everything lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../core/calls.h"

namespace kvant {

// Views into the workspace; nothing is allocated.
struct Plan {
  Sequence* sequences = nullptr;
  int num_sequences = 0;
  std::int64_t items = 0;   // of the first pass: row blocks, or their ranges where split
  std::int64_t blocks = 0;  // of the second pass, which merges split blocks
  bool any_split = false;
  float* scratch = nullptr;  // `scratch_floats` for each thread
  std::int64_t scratch_floats = 0;
  float* partials = nullptr;
};

// An upper bound for the calls within these limits, with the threads OpenMP has now.
std::int64_t workspace_bytes(const Layout& layout, int num_q_heads, std::int64_t max_tokens,
                             std::int64_t max_seq_len, std::int64_t max_seqs);

// Throws std::invalid_argument if the workspace is too small.
Plan make_plan(const AttendCall& call, const std::int32_t* query_start, const std::int32_t* seq_lens,
               int num_seqs, int threads, void* workspace, std::int64_t bytes);

}  // namespace kvant

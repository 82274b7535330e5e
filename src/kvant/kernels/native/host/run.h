// The operations: arguments checked, then spread over the threads of OpenMP.
#pragma once

#include "../core/calls.h"

namespace kvant {

// Both throw std::invalid_argument before anything is written.
void run_encode(const Kernels& kernels, const EncodeCall& call, std::int64_t num_blocks);

void run_attend(const Kernels& kernels, const AttendCall& call, std::int64_t num_blocks,
                const std::int32_t* query_start, const std::int32_t* seq_lens, int num_seqs, void* workspace,
                std::int64_t workspace_bytes);

}  // namespace kvant

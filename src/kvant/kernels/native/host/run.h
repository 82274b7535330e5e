// The operations: arguments checked, then spread over the threads of OpenMP.
#pragma once

#include "../core/calls.h"

namespace kvant {

// Both throw std::invalid_argument before anything is written.
void run_encode(const Kernels& kernels, const EncodeCall& call, std::int64_t num_blocks);

void run_attend(const Kernels& kernels, const AttendCall& call, std::int64_t num_blocks,
                const std::int32_t* query_start, const std::int32_t* seq_lens, int num_seqs, void* workspace,
                std::int64_t workspace_bytes);

// Reads `count` pages in the order given, on all threads; returns something of every byte.
std::uint32_t run_read(const Kernels& kernels, const std::uint8_t* pages, std::int64_t page_stride,
                       std::int64_t page_bytes, const std::int32_t* order, std::int64_t count);

}  // namespace kvant

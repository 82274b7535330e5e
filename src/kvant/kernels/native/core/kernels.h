// The table of this translation unit's instruction set.
#pragma once

#include "attend.h"
#include "calls.h"
#include "encode.h"
#include "read.h"
#include "tile.h"

namespace kvant {
namespace {

constexpr Kernels this_table() { return {encode, attend, attend_range, merge, decode_tile, rotate_rows, read_pages}; }

}  // namespace
}  // namespace kvant

// Which instruction sets were compiled in, and which this processor and operating system can run.
#pragma once

#include <string>
#include <vector>

#include "../core/calls.h"

namespace kvant {

struct Isa {
  std::string name;
  const Kernels* kernels;  // null where it was not compiled
  std::string why_not;     // empty if it can run here
};

// Best first.
const std::vector<Isa>& isas();

// Throws std::invalid_argument if there is none of that name or it cannot run here.
const Kernels& kernels_of(const std::string& name);

}  // namespace kvant

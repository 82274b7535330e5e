#include "dispatch.h"

#include <stdexcept>

namespace kvant {

extern const Kernels generic_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports wants a literal, and asks the operating system (xgetbv) as well as CPUID.
#define KVANT_LACKS(feature) (__builtin_cpu_supports(feature) ? "" : " " feature)

std::string missing(const std::string& features) {
  return features.empty() ? "" : "this processor lacks" + features;
}

std::vector<Isa> find() {
  __builtin_cpu_init();
  const std::string avx2 = std::string(KVANT_LACKS("avx2")) + KVANT_LACKS("fma") + KVANT_LACKS("f16c");
  const std::string avx512 = avx2 + KVANT_LACKS("avx512f") + KVANT_LACKS("avx512bw") +
                             KVANT_LACKS("avx512vl") + KVANT_LACKS("avx512dq") + KVANT_LACKS("avx512vnni") +
                             KVANT_LACKS("avx512vbmi");
  return {{"avx512", &avx512_kernels, missing(avx512)},
          {"avx2", &avx2_kernels, missing(avx2)},
          {"generic", &generic_kernels, ""}};
}
#else
std::vector<Isa> find() {
  const char* why = "not compiled for this architecture";
  return {{"avx512", nullptr, why}, {"avx2", nullptr, why}, {"generic", &generic_kernels, ""}};
}
#endif

}  // namespace

const std::vector<Isa>& isas() {
  static const std::vector<Isa> found = find();
  return found;
}

const Kernels& kernels_of(const std::string& name) {
  std::string known;
  for (const Isa& isa : isas()) {
    if (isa.name == name && isa.why_not.empty()) return *isa.kernels;
    if (isa.name == name) throw std::invalid_argument("isa " + name + " cannot run here: " + isa.why_not);
    known += (known.empty() ? "" : ", ") + isa.name;
  }
  throw std::invalid_argument("isa '" + name + "' does not exist; known: " + known);
}

}  // namespace kvant

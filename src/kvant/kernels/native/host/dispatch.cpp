#include "dispatch.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace kvant {

extern const Kernels generic_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx_vnni_kernels;
extern const Kernels avx512_vnni_kernels;
extern const Kernels avx512_kernels;
extern const Kernels amx_kernels;
#elif defined(__aarch64__)
extern const Kernels neon_kernels;
#endif

namespace {

constexpr const char* kNotCompiled = "not compiled for this architecture";

[[maybe_unused]] std::string missing(const std::string& features) {
  return features.empty() ? "" : "this processor lacks" + features;
}

#if defined(__x86_64__)
// __builtin_cpu_supports wants a literal, and asks the operating system (xgetbv) as well as CPUID.
#define KVANT_LACKS(feature) (__builtin_cpu_supports(feature) ? "" : " " feature)

// AMX: the processor must have it, and Linux must let this process use the tiles.
std::string lacks_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 25 & 1)) return " amx_int8";
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequest, kTileData) ? " leave to use amx_int8" : "";
}

// gcc 12 knows no name for it; AVX itself is asked for with avx2.
std::string lacks_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) ? "" : " avx_vnni";
}

std::vector<Isa> find() {
  __builtin_cpu_init();
  const std::string avx2 = std::string(KVANT_LACKS("avx2")) + KVANT_LACKS("fma") + KVANT_LACKS("f16c");
  const std::string avx512_vnni = avx2 + KVANT_LACKS("avx512f") + KVANT_LACKS("avx512bw") +
                                  KVANT_LACKS("avx512vl") + KVANT_LACKS("avx512dq") + KVANT_LACKS("avx512vnni");
  const std::string avx512 = avx512_vnni + KVANT_LACKS("avx512vbmi");
  return {{"amx", &amx_kernels, missing(avx512 + lacks_amx())},
          {"avx512", &avx512_kernels, missing(avx512)},
          {"avx512-vnni", &avx512_vnni_kernels, missing(avx512_vnni)},
          {"avx-vnni", &avx_vnni_kernels, missing(avx2 + lacks_avx_vnni())},
          {"avx2", &avx2_kernels, missing(avx2)},
          {"neon", nullptr, kNotCompiled},
          {"generic", &generic_kernels, ""}};
}
#else
std::vector<Isa> find() {
  std::vector<Isa> found;
  for (const char* name : {"amx", "avx512", "avx512-vnni", "avx-vnni", "avx2"})
    found.push_back({name, nullptr, kNotCompiled});
#if defined(__aarch64__)
  found.push_back({"neon", &neon_kernels, missing(getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? "" : " asimddp")});
#else
  found.push_back({"neon", nullptr, kNotCompiled});
#endif
  found.push_back({"generic", &generic_kernels, ""});
  return found;
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

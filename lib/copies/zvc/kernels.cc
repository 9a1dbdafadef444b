// SPDX-License-Identifier: Apache-2.0
// Selects the kernel for an instruction set and a word size.
#include "lib/copies/zvc/kernels.h"

namespace tidepool {
namespace zvc {

bool HasInstructionSet(ZeroValueInstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case ZeroValueInstructionSet::kScalar:
      return true;
    case ZeroValueInstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("popcnt");
    case ZeroValueInstructionSet::kAvx512:
      return HasInstructionSet(ZeroValueInstructionSet::kAvx2) &&
             __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    case ZeroValueInstructionSet::kAvx512Vbmi2:
      return HasInstructionSet(ZeroValueInstructionSet::kAvx512) &&
             __builtin_cpu_supports("avx512vbmi2");
  }
  return false;
#else
  return set == ZeroValueInstructionSet::kScalar;
#endif
}

ZeroValueInstructionSet BestInstructionSet() {
  static const ZeroValueInstructionSet best = ZeroValueInstructionSets().back();
  return best;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void FinishStreaming() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

const Kernel& KernelFor(ZeroValueInstructionSet set, ZeroValueWord word) {
  const bool is_16_bits = word == ZeroValueWord::k16Bits;
#if defined(__x86_64__)
  switch (set) {
    case ZeroValueInstructionSet::kAvx512Vbmi2:
      return is_16_bits ? kAvx512Vbmi2For16 : kAvx512For32;
    case ZeroValueInstructionSet::kAvx512:
      return is_16_bits ? kAvx512For16 : kAvx512For32;
    case ZeroValueInstructionSet::kAvx2:
      return is_16_bits ? kAvx2For16 : kAvx2For32;
    case ZeroValueInstructionSet::kScalar:
      break;
  }
#else
  static_cast<void>(set);
#endif
  return is_16_bits ? kScalar16 : kScalar32;
}

}  // namespace zvc

std::string_view ZeroValueInstructionSetName(ZeroValueInstructionSet set) {
  switch (set) {
    case ZeroValueInstructionSet::kScalar:
      return "scalar";
    case ZeroValueInstructionSet::kAvx2:
      return "avx2";
    case ZeroValueInstructionSet::kAvx512:
      return "avx512";
    case ZeroValueInstructionSet::kAvx512Vbmi2:
      return "avx512-vbmi2";
  }
  return "unknown";
}

std::vector<ZeroValueInstructionSet> ZeroValueInstructionSets() {
  std::vector<ZeroValueInstructionSet> sets;
  for (const auto set : {ZeroValueInstructionSet::kScalar, ZeroValueInstructionSet::kAvx2,
                         ZeroValueInstructionSet::kAvx512, ZeroValueInstructionSet::kAvx512Vbmi2}) {
    if (zvc::HasInstructionSet(set)) sets.push_back(set);
  }
  return sets;
}

}  // namespace tidepool

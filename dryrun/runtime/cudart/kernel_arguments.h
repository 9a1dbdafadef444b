// SPDX-License-Identifier: Apache-2.0
// The arguments of a launch of a kernel.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_ARGUMENTS_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_ARGUMENTS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {

struct KernelLaunch {
  dim3 grid;
  dim3 block;
  void** arguments = nullptr;  // the address of each one, of the type that the kernel declares
};

// Returns a number in a structure.
template <typename Number>
Number At(const void* structure, std::size_t offset) {
  Number number;
  std::memcpy(&number, static_cast<const char*>(structure) + offset, sizeof number);
  return number;
}

// Returns an integer of `size` bytes in a structure.
inline std::int64_t IntegerAt(const void* structure, std::size_t offset, std::int64_t size) {
  return size == 8   ? At<std::int64_t>(structure, offset)
         : size == 4 ? At<std::int32_t>(structure, offset)
                     : At<std::uint8_t>(structure, offset);
}

// Returns a part of a name, or nothing.
inline std::string_view TextOf(const std::vector<std::string>& list, std::size_t i) {
  return i < list.size() ? std::string_view(list[i]) : std::string_view();
}

// Returns the first argument, an integer: most kernels for elements have their number there.
inline std::int64_t FirstOf(const NameParts& kernel, const KernelLaunch& launch) {
  return IntegerAt(launch.arguments[0], 0, SizeOfType(TextOf(kernel.parameters, 0)));
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_ARGUMENTS_H_

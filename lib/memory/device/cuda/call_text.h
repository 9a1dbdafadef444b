// SPDX-License-Identifier: Apache-2.0
// The text of a CUDA call with its arguments, for messages.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CALL_TEXT_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CALL_TEXT_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidepool::cuda {

template <typename Argument>
std::string ArgumentText(const Argument& argument) {
  if constexpr (std::is_convertible_v<Argument, const char*>) {
    return argument;
  } else if constexpr (std::is_pointer_v<Argument>) {
    return absl::StrCat("0x", absl::Hex(reinterpret_cast<std::uintptr_t>(argument)));
  } else {
    return absl::StrCat(argument);
  }
}

template <typename... Arguments>
std::string CallText(const char* function, const Arguments&... arguments) {
  const std::vector<std::string> texts = {ArgumentText(arguments)...};
  return absl::StrCat(function, "(", absl::StrJoin(texts, ", "), ")");
}

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_CALL_TEXT_H_

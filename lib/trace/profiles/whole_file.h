// SPDX-License-Identifier: Apache-2.0
// Whole file: the bytes of a source, up to a limit.
#ifndef TIDEPOOL_LIB_TRACE_PROFILES_WHOLE_FILE_H_
#define TIDEPOOL_LIB_TRACE_PROFILES_WHOLE_FILE_H_

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::profiles {

inline constexpr std::size_t kMostBytes = std::size_t{1} << 26;

// Returns all bytes; InvalidArgument beyond kMostBytes. Errors do not name the file.
inline absl::StatusOr<std::string> WholeFile(io::ByteSource& source) {
  constexpr std::size_t kStep = std::size_t{1} << 16;
  std::string bytes;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kStep);
    const absl::StatusOr<std::size_t> read = source.Read(bytes.data() + before, kStep);
    if (!read.ok()) return read.status();
    bytes.resize(before + *read);
    if (*read == 0) return bytes;
    if (bytes.size() > kMostBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMostBytes, " bytes, expected a smaller file of this format"));
    }
  }
}

}  // namespace tidepool::profiles

#endif  // TIDEPOOL_LIB_TRACE_PROFILES_WHOLE_FILE_H_

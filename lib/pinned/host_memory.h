// SPDX-License-Identifier: Apache-2.0
// Memory of the host in whole pages, taken from it at once instead of when it is used.
#ifndef TIDEPOOL_LIB_PINNED_HOST_MEMORY_H_
#define TIDEPOOL_LIB_PINNED_HOST_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/host/host_pages.h"

namespace tidepool::pinned {

inline constexpr std::int64_t kPage = 4096;
inline constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// What sizes of memory with these options are multiples of.
constexpr std::int64_t PageBytes(const HostPageOptions& options) {
  return options.huge_pages == HugePages::kRequired ? kHugePage : kPage;
}

// InvalidArgument when an option is out of its range.
absl::Status CheckPageOptions(const HostPageOptions& options);

// `bytes` is a positive multiple of PageBytes. Nothing of it is touched.
absl::StatusOr<void*> MapMemory(std::int64_t bytes, const HostPageOptions& options);
// Touches all of it, by several threads: pages that were never touched are zero. ResourceExhausted
// where the system can tell beforehand that there are none.
absl::Status TouchMemory(void* address, std::int64_t bytes, const HostPageOptions& options);
// The memory is the host's again.
void UnmapMemory(void* address, std::int64_t bytes);

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_PINNED_HOST_MEMORY_H_

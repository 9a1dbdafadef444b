// SPDX-License-Identifier: Apache-2.0
// Host memory in whole pages, which come when the memory is touched and not when it is used.
#ifndef TIDEPOOL_LIB_MEMORY_PINNED_HOST_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_PINNED_HOST_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/host_pages.h"

namespace tidepool::pinned {

inline constexpr std::int64_t kPage = 4096;
inline constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// Returns the size that memory with these options is a multiple of.
constexpr std::int64_t PageBytes(const HostPageOptions& options) {
  return options.huge_pages == HugePages::kRequired ? kHugePage : kPage;
}

// Returns InvalidArgument when an option is out of its range.
absl::Status CheckPageOptions(const HostPageOptions& options);

// Maps memory of `bytes`, a positive multiple of PageBytes, without touching it. ResourceExhausted
// when the system refuses.
absl::StatusOr<void*> MapMemory(std::int64_t bytes, const HostPageOptions& options);
// Touches all pages with several threads; pages that were never touched become zero.
// ResourceExhausted when the system knows beforehand that it has no pages.
absl::Status TouchMemory(void* address, std::int64_t bytes, const HostPageOptions& options);
// Gives the memory back to the host.
void UnmapMemory(void* address, std::int64_t bytes);

struct PinnedMemory {
  void* address = nullptr;
  std::int64_t bytes = 0;
  std::int64_t pin_ns = 0;  // the time that pinning took
};

// Pins and unpins regions of host memory. Thread-safe. Its calls take long, about 0.1 s for a GiB.
class Pinner {
 public:
  // `device` outlives the pinner.
  Pinner(Device& device, const HostPageOptions& pages) : device_(device), pages_(pages) {}

  // Maps, touches and registers memory of `bytes`, a positive multiple of the page. After an error
  // nothing has changed.
  absl::StatusOr<PinnedMemory> Pin(std::int64_t bytes) const;
  // Gives pinned memory back to the host. After an error it is still pinned.
  absl::Status Unpin(void* address, std::int64_t bytes) const;

 private:
  Device& device_;
  const HostPageOptions pages_;
};

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_MEMORY_PINNED_HOST_MEMORY_H_

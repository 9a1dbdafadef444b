// Whole allocations: pages of the host, taken from it when they are touched.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_ALLOCATIONS_H_
#define TIDEPOOL_LIB_DEVICE_HOST_ALLOCATIONS_H_

#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"
#include "lib/device/address_ranges.h"

namespace tidepool::host {

// Thread-safe. Frees what is left in the end.
class Allocations {
 public:
  Allocations() = default;
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // At the beginning of a page. `bytes` is positive.
  absl::StatusOr<void*> Allocate(std::int64_t bytes);
  // Returns the bytes that were asked for.
  absl::StatusOr<std::int64_t> Free(void* address);

  bool Contain(const void* address, std::int64_t bytes) const;
  bool Overlap(const void* address, std::int64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  device::AddressRanges ranges_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_ALLOCATIONS_H_

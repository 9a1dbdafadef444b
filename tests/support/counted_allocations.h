// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of a thread, outside of calls of the device. Defines operator new, so one
// file of a program may include it. Sanitizers have an operator new of their own, and then the
// count stays 0.
#ifndef TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_
#define TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "absl/base/config.h"
#include "tests/support/forwarding_device.h"

namespace tidepool::testing {

inline thread_local std::int64_t allocations_of_thread = 0;

// Forwards the calls of a running executor, and takes the device's own allocations off the count.
class UncountedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::Status SynchronizeStream(Stream stream) override {
    const Restore restore;
    return ForwardingDevice::SynchronizeStream(stream);
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    const Restore restore;
    return ForwardingDevice::RecordEvent(event, stream);
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    const Restore restore;
    return ForwardingDevice::WaitEvent(stream, event);
  }
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                    Stream stream) override {
    const Restore restore;
    return ForwardingDevice::Copy(to, from, bytes, direction, stream);
  }

 private:
  struct Restore {
    ~Restore() { allocations_of_thread = before; }
    const std::int64_t before = allocations_of_thread;
  };
};

}  // namespace tidepool::testing

#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define TIDEPOOL_HAS_SANITIZER 1
#else
#define TIDEPOOL_HAS_SANITIZER 0
#endif

#if !TIDEPOOL_HAS_SANITIZER
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++tidepool::testing::allocations_of_thread;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif

#endif  // TIDEPOOL_TESTS_SUPPORT_COUNTED_ALLOCATIONS_H_

// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of a thread, and lets them fail by order. Defines operator new, so one
// file of a program may include it. Sanitizers have an operator new of their own: then none is
// counted, and none fails.
#ifndef TIDEPOOL_TESTS_SUPPORT_OWN_ALLOCATIONS_H_
#define TIDEPOOL_TESTS_SUPPORT_OWN_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "absl/base/config.h"

#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define TIDEPOOL_HAS_SANITIZER 1
#else
#define TIDEPOOL_HAS_SANITIZER 0
#endif

namespace tidepool::testing {

inline thread_local std::int64_t allocations_of_thread = 0;
// How many allocations of the thread succeed before all later ones fail; negative: none fails.
inline thread_local std::int64_t allocations_left = -1;

}  // namespace tidepool::testing

#if !TIDEPOOL_HAS_SANITIZER
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++tidepool::testing::allocations_of_thread;
  std::int64_t& left = tidepool::testing::allocations_left;
  void* const memory = left == 0 ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (left > 0) --left;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif

#endif  // TIDEPOOL_TESTS_SUPPORT_OWN_ALLOCATIONS_H_

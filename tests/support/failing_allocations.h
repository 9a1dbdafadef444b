// SPDX-License-Identifier: Apache-2.0
// Lets an allocation of a thread fail by order. Defines operator new, so one file of a program may
// include it. Sanitizers have an operator new of their own, and then none fails.
#ifndef TIDEPOOL_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_
#define TIDEPOOL_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "absl/base/config.h"

namespace tidepool::testing {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
inline constexpr bool kAllocationsFail = false;
#else
inline constexpr bool kAllocationsFail = true;
#endif

// How many allocations of the thread succeed before all later ones fail; negative: none fails.
inline thread_local std::int64_t allocations_left = -1;

}  // namespace tidepool::testing

#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
[[gnu::noinline]] void* operator new(std::size_t bytes) {
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

#endif  // TIDEPOOL_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_

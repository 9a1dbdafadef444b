// SPDX-License-Identifier: Apache-2.0
// Calls that the tool for NVTX has seen. A test links the tool and names it in
// NVTX_INJECTION64_PATH.
#ifndef TIDEPOOL_TESTS_SUPPORT_NVTX_INJECTION_CONTROL_H_
#define TIDEPOOL_TESTS_SUPPORT_NVTX_INJECTION_CONTROL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::nvtx_injection {

// The ways of the tool; NVTX asks once in a process and library, at the first call.
enum class Mode : std::uint8_t {
  kTakesAll,
  kRefusesHeaps,      // returns null for each heap
  kTakesNoFunctions,  // attaches to the extension, and takes none of its functions
  kRefusesExtension,  // its entry point fails
};

struct Region {
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  std::string name;
};

struct Heap {
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  std::string name;
  std::vector<Region> regions;  // live, in the order of addresses
};

struct Seen {
  std::vector<Heap> heaps;  // live, in the order of addresses
  std::int64_t heaps_ever = 0;
  std::int64_t regions_ever = 0;
  std::int64_t unregistered_regions = 0;
  std::int64_t regions_ended_with_heaps = 0;
  std::vector<std::string> faults;  // rules of NVTX that a call broke
};

void SetMode(Mode mode);
// Returns the state and the counts since Reset. Thread-safe.
Seen Look();
// Forgets the counts and the faults, but no live heap.
void Reset();

// The counts of Look for other languages.
struct Counts {
  std::int64_t heaps = 0;    // live
  std::int64_t regions = 0;  // live
  std::int64_t regions_ever = 0;
  std::int64_t named = 0;  // of the live regions
  std::int64_t faults = 0;
};
extern "C" void NvtxInjectionCount(Counts* counts);

}  // namespace tidepool::nvtx_injection

#endif  // TIDEPOOL_TESTS_SUPPORT_NVTX_INJECTION_CONTROL_H_

// SPDX-License-Identifier: Apache-2.0
// A model of PyTorch's caching allocator: the memory that it would take from a device for a trace.
//
// The source is c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.x: rounding, pools of small and of
// large blocks for each stream, best fit, splits, garbage collection, expandable segments, and the
// release of cached memory before a request is refused. Only sizes are computed, no memory is
// touched. Private pools of CUDA graphs are not part of the model.
#ifndef TIDEPOOL_TRACE_CACHING_ALLOCATOR_H_
#define TIDEPOOL_TRACE_CACHING_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// The most memory of a device in the model: 8 PiB. It stands for memory without a limit.
inline constexpr std::int64_t kMostCachingMemory = std::int64_t{1} << 53;

// Settings of PYTORCH_CUDA_ALLOC_CONF that change sizes. The defaults are PyTorch's.
struct CachingAllocatorSettings {
  static constexpr std::int64_t kMiB = std::int64_t{1} << 20;

  // Segments grow on virtual memory, instead of one allocation of the device for each segment.
  bool expandable_segments = false;
  // Blocks of this size or more are not divided.
  std::int64_t max_split_bytes = kMostCachingMemory;
  // A request of max_split_bytes or more takes a cached block of less than this much more.
  std::int64_t max_non_split_rounding_bytes = 20 * kMiB;
  // Segments for requests from 1 to 10 MiB, and granules of expandable segments for requests of
  // more than 1 MiB.
  std::int64_t large_segment_bytes = 20 * kMiB;
  // Entry i rounds requests from 2^i MiB to 2^(i+1) MiB up to one of this many equal steps of a
  // power of two. The first and the last entry also hold for all smaller and larger requests. 0 or
  // 1: multiples of 512 bytes.
  std::array<std::int64_t, 16> roundup_power2_divisions = {};
  // Cached blocks that were unused for long are released above this part of the allowed memory; 0:
  // never. PyTorch does so only with a memory fraction.
  double garbage_collection_threshold = 0;
  // Part of the device's memory that the process may take; 0: all, without garbage collection.
  double memory_fraction = 0;
  // Bytes added to each request before it is rounded: 32 in torch_npu, 0 in PyTorch.
  std::int64_t padding_bytes = 0;

  bool operator==(const CachingAllocatorSettings&) const = default;
};

// Parses settings in the syntax of PYTORCH_CUDA_ALLOC_CONF, such as
// "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]", on top of `base`. Keys that
// change no sizes are skipped. Returns InvalidArgument for an unknown key, a value outside of
// PyTorch's limits, and the backend cudaMallocAsync. O(text).
TIDEPOOL_EXPORT absl::StatusOr<CachingAllocatorSettings> ParseCachingAllocatorSettings(
    std::string_view text, const CachingAllocatorSettings& base = {});

// Returns the keys of such a text that are known and change no sizes of device memory, in the order
// of the text: those of pinned memory, of locks, of CUDA graphs. O(text).
TIDEPOOL_EXPORT std::vector<std::string> CachingAllocatorKeysWithoutEffect(std::string_view text);

// Returns the settings that differ from PyTorch's defaults in the same syntax, with the key
// "padding" for padding_bytes; empty for the defaults.
TIDEPOOL_EXPORT std::string CachingAllocatorSettingsText(const CachingAllocatorSettings& settings);

// Returns the settings with which the trace was recorded, as far as its file tells: PyTorch's
// defaults for a trace of another allocator. O(events log live).
TIDEPOOL_EXPORT CachingAllocatorSettings RecordedCachingSettings(const Trace& trace);

// The free addresses that a device gives to a segment first.
enum class SegmentOrder : std::uint8_t { kAscending, kFalling };

struct CachingReplayOptions {
  CachingAllocatorSettings settings = {};
  // Memory of the device, without that of the context and of other programs; 0 to
  // kMostCachingMemory.
  std::int64_t memory_bytes = kMostCachingMemory;
  bool stop_at_refusal = false;  // false: skip a refused allocation and its free
  SegmentOrder order = SegmentOrder::kAscending;
};

struct CachingReplayResult {
  std::int64_t refused = 0;  // requests for which PyTorch would raise OutOfMemoryError
  std::int64_t first_refused_event = -1;
  std::int64_t first_refused_bytes = 0;   // rounded
  std::int64_t largest_free_bytes = 0;    // the largest cached block at the first refusal
  std::int64_t free_reserved_bytes = 0;   // reserved, but not allocated, at the first refusal
  std::int64_t peak_reserved_bytes = 0;   // taken from the device
  std::int64_t peak_allocated_bytes = 0;  // in blocks of live allocations
  std::int64_t peak_rounded_bytes = 0;    // live requests, rounded: a lower bound of any memory
  // Requests before which all cached memory was released: PyTorch's counter num_alloc_retries.
  std::int64_t retries = 0;
};

// Serves `trace` as PyTorch's allocator would. A failure is an allocation that is freed at once.
// Where a trace from PyTorch gave memory back to the device, the model releases its cached memory
// too, as torch.cuda.empty_cache() does. Frees take effect where the trace has them; a snapshot has
// them where all streams had finished with the block. Segments get the first free addresses in
// `order`, which decide between free blocks of the same size. Returns InvalidArgument for settings
// or a memory outside of their limits. Thread-safe. O(log blocks) for an event, O(blocks) for a
// release of cached memory, plus O(gaps) for a request that expands a segment with unmapped gaps.
TIDEPOOL_EXPORT absl::StatusOr<CachingReplayResult> ReplayCaching(
    const Trace& trace, const CachingReplayOptions& options);

// Returns the memory that the allocator takes for `trace`, in the words of MinimumPool:
// `pool_bytes` is the peak of reserved bytes without a limit, after one attempt;
// `exact_pool_bytes` is the smallest memory of a device in which it serves the trace, as it
// releases cached memory before it refuses. `limits` bounds the exact search as in MinimumPool;
// `alignment` and `most_restart_steps` are not used. Errors are those of ReplayCaching.
TIDEPOOL_EXPORT absl::StatusOr<MinimumPoolResult> MinimumCachingMemory(
    const Trace& trace, const CachingAllocatorSettings& settings, const MinimumPoolOptions& limits);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_CACHING_ALLOCATOR_H_

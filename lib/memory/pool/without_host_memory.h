// SPDX-License-Identifier: Apache-2.0
// EndsWithoutHostMemory: a pool that ends the process when the host has no memory in a call.
//
// A std::bad_alloc in the middle of a change leaves the books of a pool half-changed: they could
// hand out memory twice. So no caller may go on, and none could tell.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_WITHOUT_HOST_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_POOL_WITHOUT_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/contents_store.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Says so on stderr, without memory of its own: a function of the log may take some.
[[noreturn]] inline void EndWithoutHostMemory() {
  std::fputs(
      "tidepool: the host has no memory left (std::bad_alloc) in a call of a pool, which cannot go "
      "on half-changed: the process ends. Free memory of the host, or raise its limit\n",
      stderr);
  std::abort();
}

// Makes a call, and returns its result. Without exceptions the process ends at the allocation.
template <typename Call>
auto OrEnd(Call call) {
#ifdef __cpp_exceptions
  try {
    return call();
  } catch (const std::bad_alloc&) {
    EndWithoutHostMemory();
  }
#else
  return call();
#endif
}

// All functions of Pool, as `Base` has them.
template <typename Base>
class EndsWithoutHostMemory final : public Base {
 public:
  using Base::Base;

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override {
    return OrEnd([&] { return Base::Allocate(bytes, stream, hint); });
  }
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline, std::stop_token stop,
                                         int priority) override {
    return OrEnd([&] {
      return Base::AllocateBlocking(bytes, stream, hint, deadline, std::move(stop), priority);
    });
  }
  absl::Status Free(void* address, Stream stream) override {
    return OrEnd([&] { return Base::Free(address, stream); });
  }
  absl::Status FreeOwn(void* address, Stream stream) override {
    return OrEnd([&] { return Base::FreeOwn(address, stream); });
  }
  absl::StatusOr<Stream> AllocatedOn(const void* address) override {
    return OrEnd([&] { return Base::AllocatedOn(address); });
  }
  absl::Status RecordUse(void* address, Stream stream) override {
    return OrEnd([&] { return Base::RecordUse(address, stream); });
  }
  absl::Status RecordWork() override {
    return OrEnd([&] { return Base::RecordWork(); });
  }
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override {
    return OrEnd([&] { return Base::Trim(keep_bytes); });
  }
  std::int64_t TakeWantedByOthers() override {
    return OrEnd([&] { return Base::TakeWantedByOthers(); });
  }
  void Mark(std::string_view name) override {
    OrEnd([&] { Base::Mark(name); });
  }
  void MarkIteration() override {
    OrEnd([&] { Base::MarkIteration(); });
  }
  void AwaitPlans() override {
    OrEnd([&] { Base::AwaitPlans(); });
  }
  PoolStats Stats() const override {
    return OrEnd([&] { return Base::Stats(); });
  }
  void ResetPeaks() override {
    OrEnd([&] { Base::ResetPeaks(); });
  }
  std::vector<PoolBlock> Snapshot() const override {
    return OrEnd([&] { return Base::Snapshot(); });
  }
  absl::StatusOr<Pool*> Region(std::string_view tag) override {
    return OrEnd([&] { return Base::Region(tag); });
  }
  absl::Status PauseRegions(std::span<RegionPause> pauses, Stream stream) override {
    return OrEnd([&] { return Base::PauseRegions(pauses, stream); });
  }
  absl::Status ResumeRegions(std::span<const std::string_view> tags, Stream stream) override {
    return OrEnd([&] { return Base::ResumeRegions(tags, stream); });
  }
  absl::Status DiscardContents(std::string_view tag) override {
    return OrEnd([&] { return Base::DiscardContents(tag); });
  }
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream) override {
    return OrEnd([&] { return Base::AwaitContents(address, bytes, stream); });
  }
  absl::Status LimitRegion(std::string_view tag, std::int64_t least_bytes,
                           std::int64_t most_bytes) override {
    return OrEnd([&] { return Base::LimitRegion(tag, least_bytes, most_bytes); });
  }
  absl::Status BeginRegistration(const void* address, std::int64_t bytes) override {
    return OrEnd([&] { return Base::BeginRegistration(address, bytes); });
  }
  absl::Status EndRegistration(const void* address, std::int64_t bytes) override {
    return OrEnd([&] { return Base::EndRegistration(address, bytes); });
  }
  std::vector<RegionStats> RegionStatistics() const override {
    return OrEnd([&] { return Base::RegionStatistics(); });
  }
  std::string Describe(const void* address) const override {
    return OrEnd([&] { return Base::Describe(address); });
  }
  absl::Status CheckInvariants() const override {
    return OrEnd([&] { return Base::CheckInvariants(); });
  }
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_WITHOUT_HOST_MEMORY_H_

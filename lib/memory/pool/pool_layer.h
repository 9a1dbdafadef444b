// SPDX-License-Identifier: Apache-2.0
// PoolLayer: the base of a layer around a pool. The pool serves the calls that the layer does not.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_LAYER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_LAYER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/pool/shared_room.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

template <typename Inner>
class PoolLayer : public Pool, public CacheLayer {
 public:
  explicit PoolLayer(std::unique_ptr<Inner> pool) : pool_(std::move(pool)) {}

  std::int64_t TakeWantedByOthers() override { return pool_->TakeWantedByOthers(); }
  absl::Status RecordWork() override { return pool_->RecordWork(); }
  void Mark(std::string_view name) override { pool_->Mark(name); }
  void MarkIteration() override { pool_->MarkIteration(); }
  void AwaitPlans() override { pool_->AwaitPlans(); }
  void ResetPeaks() override { pool_->ResetPeaks(); }
  void* base() const override { return pool_->base(); }
  std::int64_t OffsetOf(const void* address) const override { return pool_->OffsetOf(address); }
  absl::StatusOr<Pool*> Region(std::string_view tag) override { return pool_->Region(tag); }
  absl::Status PauseRegions(std::span<RegionPause> pauses, Stream stream) override {
    return pool_->PauseRegions(pauses, stream);
  }
  absl::Status ResumeRegions(std::span<const std::string_view> tags, Stream stream) override {
    return pool_->ResumeRegions(tags, stream);
  }
  absl::Status DiscardContents(std::string_view tag) override {
    return pool_->DiscardContents(tag);
  }
  absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream) override {
    return pool_->AwaitContents(address, bytes, stream);
  }
  absl::Status LimitRegion(std::string_view tag, std::int64_t least_bytes,
                           std::int64_t most_bytes) override {
    return pool_->LimitRegion(tag, least_bytes, most_bytes);
  }
  absl::Status BeginRegistration(const void* address, std::int64_t bytes) override {
    return pool_->BeginRegistration(address, bytes);
  }
  absl::Status EndRegistration(const void* address, std::int64_t bytes) override {
    return pool_->EndRegistration(address, bytes);
  }
  std::vector<RegionStats> RegionStatistics() const override { return pool_->RegionStatistics(); }
  std::string Describe(const void* address) const override { return pool_->Describe(address); }
  absl::Status CheckInvariants() const override { return pool_->CheckInvariants(); }

  std::int64_t CountAsleep() const { return pool_->CountAsleep(); }

 protected:
  // A cache or slab that begins as the first or second has at most 1/kPart of the pool, and one
  // that begins as the n-th at most 1/(n kPartOfMany). Its free memory serves only its stream, and
  // keeps its neighbours from merging.
  static constexpr std::int64_t kPart = 128;
  static constexpr std::int64_t kPartOfMany = 512;

  const std::unique_ptr<Inner> pool_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_LAYER_H_

// SPDX-License-Identifier: Apache-2.0
// Creates pools: the parts that their options ask for.
#include "tidepool/pool.h"

#include <memory>
#include <utility>

#include "lib/memory/pool/caching_pool.h"
#include "lib/memory/pool/pool_impl.h"
#include "lib/memory/pool/pool_options.h"
#include "lib/memory/pool/slab_pool.h"
#include "lib/memory/pool/without_host_memory.h"

namespace tidepool {

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(Device* device, const PoolOptions& options) {
  if (device == nullptr)
    return absl::InvalidArgumentError("no device: pass one that outlives the pool");
  absl::StatusOr<PoolOptions> resolved = pool::ResolveOptions(*device, options);
  if (!resolved.ok()) return resolved.status();
  absl::StatusOr<pool::PoolPolicy> policy = pool::MakePolicy(*resolved);
  if (!policy.ok()) return policy.status();
  // The layers would hide requests from an observer, and addresses from a policy that remembers
  // them.
  const bool has_caches =
      resolved->recorder == nullptr && !resolved->exact_placement && !policy->policy->IsStateful();
  if (!has_caches) {
    auto made = std::make_unique<pool::EndsWithoutHostMemory<pool::PoolImpl>>(*device, *resolved,
                                                                              *std::move(policy));
    if (absl::Status status = made->Start(); !status.ok()) return status;
    return made;
  }
  auto made = std::make_unique<pool::PoolImpl>(*device, *resolved, *std::move(policy));
  if (absl::Status status = made->Start(); !status.ok()) return status;
  auto slabs = std::make_unique<pool::SlabPool>(*device, *resolved, std::move(made));
  return std::make_unique<pool::EndsWithoutHostMemory<pool::CachingPool>>(*device,
                                                                          std::move(slabs));
}

absl::Status Pool::PauseRegion(std::string_view tag, PauseMode mode, Stream stream) {
  RegionPause pause = {tag, mode, nullptr};
  return PauseRegions({&pause, 1}, stream);
}

absl::Status Pool::PauseRegionInto(std::string_view tag, std::unique_ptr<ContentsStore> store,
                                   Stream stream) {
  if (store == nullptr) {
    return absl::InvalidArgumentError("the store of contents is null, expected a ContentsStore");
  }
  RegionPause pause = {tag, PauseMode::kHost, std::move(store)};
  return PauseRegions({&pause, 1}, stream);
}

absl::Status Pool::ResumeRegion(std::string_view tag, Stream stream) {
  return ResumeRegions({&tag, 1}, stream);
}

}  // namespace tidepool

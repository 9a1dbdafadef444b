// SPDX-License-Identifier: Apache-2.0
// An offloader over a pool, with little host memory: pinned, pages, rings.
#ifndef TIDEPOOL_TESTS_STRESS_OFFLOADER_RIG_H_
#define TIDEPOOL_TESTS_STRESS_OFFLOADER_RIG_H_

#include <memory>
#include <optional>
#include <shared_mutex>

#include "tests/stress/pool_rig.h"
#include "tests/stress/stress.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool::stress {

class OffloaderRig {
 public:
  OffloaderRig(Round& round, const PoolOptions& pool);
  OffloaderRig(const OffloaderRig&) = delete;
  OffloaderRig& operator=(const OffloaderRig&) = delete;

  PoolRig& pool() { return pool_; }
  HostDevice& device() { return pool_.device(); }
  DeviceFaults& faults() { return pool_.faults(); }
  Offloader& offloader() { return *offloader_; }
  bool compresses() const { return pipeline_ != nullptr; }

  // Held shared from Use until work with its address is queued. Synchronize, which another thread
  // may call, reports failed copies, and the memory stays only until that report.
  std::shared_mutex& uses() { return uses_; }

  // Whether the next buffer is offered for compression.
  std::optional<ZeroValueWord> AnyWord(Dice& dice) const;
  // The sizes of host memory.
  void Inspect(Dice& dice);
  // Expects that the offloader, all its buffers and all memory are gone.
  void End();

 private:
  void MakePools(Dice& dice);
  void MakePipeline(Dice& dice);

  PoolRig pool_;
  std::shared_mutex uses_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::unique_ptr<Offloader> offloader_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_OFFLOADER_RIG_H_

// SPDX-License-Identifier: Apache-2.0
// A pool on a small host device, with the operations of threads besides allocating and freeing, and
// the conditions that must hold at the end.
#ifndef TIDEPOOL_TESTS_STRESS_POOL_RIG_H_
#define TIDEPOOL_TESTS_STRESS_POOL_RIG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/stress/device_faults.h"
#include "tests/stress/live_map.h"
#include "tests/stress/pool_user.h"
#include "tests/stress/scratch_file.h"
#include "tests/stress/shared_streams.h"
#include "tests/stress/stress.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"

namespace tidepool::stress {

// The options of a random small pool.
PoolOptions AnyPoolOptions(Dice& dice);

class PoolRig {
 public:
  // Quiet rounds have no faults, and the device's memory is for the pool alone.
  enum Surroundings { kAnything, kQuiet };
  PoolRig(Round& round, PoolOptions options, Surroundings surroundings = kAnything);
  PoolRig(const PoolRig&) = delete;
  PoolRig& operator=(const PoolRig&) = delete;

  Pool& pool() { return *pool_; }
  HostDevice& device() { return *device_; }
  DeviceFaults& faults() { return *faults_; }
  std::int64_t budget() const { return budget_; }
  bool remaps() const { return remaps_; }
  bool has_neighbours() const { return has_neighbours_; }
  PoolShare share() { return {*device_, *pool_, *streams_, *live_, *faults_}; }

  // A random operation other than allocating and freeing.
  void Inspect(Worker& worker, PoolUser& user);
  // Takes all memory that is left on the device, so that the pool cannot grow, and gives it back.
  void FillDevice();
  void GiveToDevice();
  void GiveAllToDevice();
  // Expects that all memory was freed: the pool's figures say so, and the device has it back.
  void End();

 private:
  void Describe(const PoolOptions& options) const;
  void CheckStats();
  void CheckSnapshot();
  void Trim(Worker& worker);
  void TakeOfDevice(std::int64_t bytes);
  // Adds the figures of a region to those of the pool, and gives its memory back.
  void EndRegion(std::string_view tag, PoolStats& stats);
  void CheckRecording(const PoolStats& stats);

  std::unique_ptr<HostDevice> device_;
  std::int64_t granularity_;
  std::int64_t budget_ = 0;
  std::optional<DeviceFaults> faults_;
  std::optional<SharedStreams> streams_;
  std::optional<ScratchFile> file_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Pool> pool_;
  std::optional<LiveMap> live_;
  std::mutex neighbours_mutex_;
  std::vector<std::pair<void*, std::int64_t>> neighbours_;
  // an upper bound: counted before the allocation and until after the free
  std::atomic<std::int64_t> neighbour_bytes_ = 0;
  std::atomic<std::int64_t> neighbour_changes_ = 0;
  const bool has_neighbours_;
  const bool remaps_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_POOL_RIG_H_

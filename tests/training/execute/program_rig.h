// SPDX-License-Identifier: Apache-2.0
// An executor of a random schedule with fixed addresses or pages. Its tasks do real work by host
// functions.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_RIG_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_RIG_H_

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/training/execute/program_work.h"
#include "tests/training/schedule/random_program.h"
#include "tidepool/device.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/program.h"

namespace tidepool::testing {

// Returns a random schedule with memory of this kind, one of three for two devices.
inline RandomPrograms ProgramOf(ScheduleMemory memory, std::uint64_t seed) {
  const std::size_t devices = seed % 3 == 0 ? 2 : 1;
  for (;; seed += 1'000'000) {
    RandomPrograms random(seed);
    if (random.schedule.memory == memory && random.schedule.devices == devices) return random;
  }
}
inline RandomPrograms FixedProgram(std::uint64_t seed) {
  return ProgramOf(ScheduleMemory::kFixed, seed);
}

inline std::int64_t HostPageBytes() { return sysconf(_SC_PAGESIZE); }

// Returns a random schedule with pages as large as the host's.
inline RandomPrograms PagedProgram(std::uint64_t seed) {
  RandomPrograms random = ProgramOf(ScheduleMemory::kPaged, seed);
  Enlarge(random, HostPageBytes() / random.schedule.alignment);
  return random;
}

// Returns whether weights end an iteration in other pages than they began it.
inline bool MovesHomes(const RandomPrograms& random) {
  return !LowerSchedule(random.graphs, random.schedule, random.machine, {.maps_pages = true})
              ->moves.empty();
}

class HostDevices {
 public:
  explicit HostDevices(std::size_t count, HostDeviceOptions options = {}) {
    options.granularity = HostPageBytes();
    for (std::size_t i = 0; i < count; ++i) owned_.push_back(HostDevice::Create(options).value());
  }

  HostDevice& operator[](std::size_t i) { return *owned_[i]; }
  std::vector<Device*> all() const {
    std::vector<Device*> devices;
    for (const auto& device : owned_) devices.push_back(device.get());
    return devices;
  }
  std::int64_t Count(HostDevice::Call call) const {
    std::int64_t calls = 0;
    for (const auto& device : owned_) calls += device->CountCalls(call);
    return calls;
  }

 private:
  std::vector<std::unique_ptr<HostDevice>> owned_;
};

class ProgramRig {
 public:
  ProgramRig(RandomPrograms& random, std::vector<Device*> devices)
      : random_(random), devices_(std::move(devices)) {}

  absl::Status Create(const ExecutorOptions& options = {}) {
    auto made = Executor::Create(
        devices_, random_.graphs, random_.schedule, random_.machine,
        [this](const TaskLaunch& launch) { return Launch(launch); },
        [this](const HomeFill& fill) { return Fill(fill); }, options);
    if (made.ok()) executor_ = *std::move(made);
    return made.status();
  }

  // Returns the hashes of iterations after the creation or a failure.
  absl::StatusOr<std::vector<std::uint64_t>> Run(int iterations) {
    std::vector<std::uint64_t> all;
    for (iteration_ = 0; iteration_ < iterations; ++iteration_) {
      const auto timeline = RunOnce();
      if (!timeline.ok()) return timeline.status();
      all.insert(all.end(), hashes_.begin(), hashes_.begin() + static_cast<std::ptrdiff_t>(runs_));
    }
    return all;
  }
  absl::StatusOr<Timeline> RunOnce() {
    hashes_.assign(kMostRuns, 0);
    runs_ = 0;
    return executor_->Run();
  }
  std::vector<std::uint64_t> Expected(int iterations) const {
    return PlainProgram(random_.graphs, random_.schedule).Run(iterations);
  }

  // Makes the n-th launch of a task from now on fail; 0: none.
  void FailLaunch(std::size_t n) { failing_ = n; }
  // Returns whether functions of tasks and fills are queued that have not run.
  bool HasQueuedWork() const { return queued_ != done_.load(); }
  std::size_t runs() const { return runs_; }
  void Destroy() { executor_.reset(); }

 private:
  static constexpr std::size_t kMostRuns = 1000;

  Device& DeviceOf(std::size_t device) { return *devices_[device == kHostDevice ? 0 : device]; }

  absl::Status Launch(const TaskLaunch& launch) {
    if (failing_ > 0 && --failing_ == 0) return absl::InternalError("no kernel");
    return Call(DeviceOf(launch.device), launch.stream,
                [this, launch, &hash = hashes_.at(runs_++)] {
                  hash = DoProgramTask(random_.graphs[launch.graph], launch);
                });
  }

  absl::Status Fill(const HomeFill& fill) {
    const std::uint64_t seed = SeedOf(fill, random_.graphs[fill.graph], iteration_);
    return Call(*devices_[fill.device], fill.stream,
                [=] { FillDense(fill.address, fill.bytes, seed); });
  }

  template <typename Function>
  absl::Status Call(Device& device, Stream stream, Function function) {
    absl::Status status = device.CallHost(stream, [this, function] {
      function();
      ++done_;
    });
    if (status.ok()) ++queued_;
    return status;
  }

  RandomPrograms& random_;
  const std::vector<Device*> devices_;
  std::vector<std::uint64_t> hashes_;  // by run of a task in an iteration
  std::size_t runs_ = 0;
  std::size_t failing_ = 0;
  int iteration_ = 0;
  std::int64_t queued_ = 0;
  std::atomic<std::int64_t> done_ = 0;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_RIG_H_

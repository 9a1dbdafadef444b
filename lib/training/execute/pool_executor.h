// SPDX-License-Identifier: Apache-2.0
// The executor of schedules for a pool: performs the steps one after another, with buffers of an
// Offloader.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_POOL_EXECUTOR_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_POOL_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/training/execute/home_copies.h"
#include "lib/training/execute/stamps.h"
#include "lib/training/execute/step_events.h"
#include "tidepool/training/executor.h"

namespace tidepool::execute {

class PoolExecutor final : public Executor {
 public:
  PoolExecutor(Device& device, Offloader& offloader, const TaskGraph& graph,
               const Schedule& schedule, LaunchTask launch, FillData fill,
               const ExecutorOptions& options)
      : device_(device),
        offloader_(offloader),
        graph_(graph),
        schedule_(schedule),
        step_events_(PlaceEvents(graph_, schedule_)),
        launch_(std::move(launch)),
        fill_(std::move(fill)),
        measures_(options.measures),
        clock_(ClockOf(options)),
        on_step_(options.on_step),
        probe_every_(options.probe_every),
        on_density_(options.on_density),
        homes_(device, graph_),
        data_(graph_.data.size()) {}
  ~PoolExecutor() override;

  absl::Status Start();
  absl::StatusOr<Timeline> Run() override;
  absl::Status Reschedule(const Schedule& schedule) override;

 private:
  struct Datum {
    BufferId buffer;          // BufferId() when the data has no memory
    bool is_leaving = false;  // it was offloaded, and not waited for
  };

  absl::Status PerformStep(std::size_t at);
  absl::Status Allocate(const ScheduleStep& step);
  absl::Status Free(std::size_t data);
  absl::Status RunTask(std::size_t at);
  absl::Status Launch(std::size_t at, BufferId workspace);
  absl::Status AddAddresses(const std::vector<std::size_t>& uses, std::vector<void*>& addresses);
  absl::Status Offload(std::size_t at);
  absl::Status Await(std::size_t data);
  absl::Status CountStay(const absl::Status& left);
  absl::Status Prefetch(std::size_t at);
  absl::Status Probe(std::size_t data);
  absl::Status FetchHome(std::size_t at);
  absl::Status SynchronizeStreams();
  absl::Status Synchronize();
  absl::Status FreeAllButWeights();

  absl::Status CreateEvents(std::size_t count);
  void Abandon();
  absl::StatusOr<CopyWatch> WatchOf(std::size_t at);
  void NotePeaks();
  absl::Status ReadStamps();

  Device& device_;
  Offloader& offloader_;
  const TaskGraph graph_;
  Schedule schedule_;
  StepEvents step_events_;
  const LaunchTask launch_;
  const FillData fill_;
  const bool measures_;
  const std::function<double()> clock_;
  const std::function<void(std::size_t)> on_step_;
  const int probe_every_;
  const std::function<void(std::size_t, const DensityEstimate&)> on_density_;
  Stream compute_;
  std::vector<Event> events_;
  HomeCopies homes_;
  std::int64_t home_bytes_in_ = 0;  // copied from homes in the current iteration
  std::vector<Datum> data_;
  // Data in the order of its offloads; may include data that stayed.
  std::deque<std::size_t> leaving_;
  std::int64_t iteration_ = 0;  // number of the next one
  // The current iteration.
  bool probes_ = false;
  double begin_ = 0;
  Timeline timeline_;
  std::unique_ptr<Stamps> stamps_;  // null: not measured
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_POOL_EXECUTOR_H_

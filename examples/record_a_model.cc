// SPDX-License-Identifier: Apache-2.0
// Makes the requests of training steps of a known network in a pool of the host device, and records
// them. No task runs, so the requests of any network can be recorded anywhere.
//   record_a_model FILE [MODEL [BATCH [STEPS]]]
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace {

constexpr std::int64_t kMemory = std::int64_t{64} << 30;  // of addresses

// The requests of training steps: those of a schedule that moves nothing.
class Requests {
 public:
  Requests(tidepool::Pool& pool, const tidepool::TaskGraph& graph, tidepool::Stream stream)
      : pool_(pool), graph_(graph), stream_(stream), data_(graph.data.size()) {}

  void Step(const tidepool::Schedule& schedule) {
    for (const tidepool::ScheduleStep& step : schedule.steps) {
      void*& data = data_[step.kind == tidepool::StepKind::kRun ? 0 : step.index];
      if (step.kind == tidepool::StepKind::kRun) {
        RunTask(graph_.tasks[step.index].algorithms[step.algorithm]);
      } else if (step.kind == tidepool::StepKind::kFree) {
        Check(pool_.Free(std::exchange(data, nullptr), stream_));
      } else if (data == nullptr) {  // weights stay from one step to the next
        data = Allocate(graph_.data[step.index].bytes, step.hint);
      }
    }
  }
  void FreeAll() {
    for (void*& data : data_) {
      if (data != nullptr) Check(pool_.Free(std::exchange(data, nullptr), stream_));
    }
  }

 private:
  void* Allocate(std::int64_t bytes, tidepool::Hint hint) {
    return Check(pool_.Allocate(static_cast<std::size_t>(bytes), stream_, hint));
  }
  void RunTask(const tidepool::TaskAlgorithm& algorithm) {
    if (algorithm.workspace_bytes == 0) return;
    Check(pool_.Free(Allocate(algorithm.workspace_bytes, tidepool::Hint::kResident), stream_));
  }

  tidepool::Pool& pool_;
  const tidepool::TaskGraph& graph_;
  const tidepool::Stream stream_;
  std::vector<void*> data_;  // null: without memory
};

void Record(const std::string& path, const std::string& model, int batch, int steps) {
  const auto graph = Check(tidepool::MakeModel(model, {.batch = batch}));
  tidepool::ScheduleRequest request;
  request.machine.devices.front().memory_bytes = kMemory;
  const auto made = Check(tidepool::MakeSchedule("none", graph, request));
  auto device = Check(tidepool::HostDevice::Create({.memory_bytes = kMemory}));
  auto recorder = Check(tidepool::Recorder::Create({.path = path}));
  auto pool = Check(
      tidepool::Pool::Create(device.get(), {.max_bytes = kMemory, .recorder = recorder.get()}));
  Requests requests(*pool, graph, Check(device->CreateStream()));
  for (int step = 0; step < steps; ++step) {
    pool->MarkIteration();
    requests.Step(made.schedule);
  }
  requests.FreeAll();
  pool.reset();
  Check(recorder->Close());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: record_a_model FILE [MODEL [BATCH [STEPS]]]\n");
    return 1;
  }
  const std::string path = argv[1];
  Record(path, argc > 2 ? argv[2] : "alexnet", argc > 3 ? std::atoi(argv[3]) : 32,
         argc > 4 ? std::atoi(argv[4]) : 12);
  const tidepool::Trace trace = Check(tidepool::ReadTrace(path));
  std::printf("%s: %zu events, %zu allocations\n", path.c_str(), trace.events.size(),
              trace.allocations.size());
  return trace.allocations.empty() ? 1 : 0;
}

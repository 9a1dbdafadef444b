// SPDX-License-Identifier: Apache-2.0
// Runs training steps of a known network on the host device and records its pool. The tasks take no
// time and touch no memory, so the requests of any network can be recorded anywhere.
//   record_a_model FILE [MODEL [BATCH [STEPS]]]
#include <cstdlib>
#include <string>

#include "check.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/host_device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace {

constexpr std::int64_t kMemory = std::int64_t{64} << 30;  // of addresses

void Record(const std::string& path, const std::string& model, int batch, int steps) {
  const auto graph = Check(tidepool::MakeModel(model, {.batch = batch}));
  tidepool::ScheduleRequest request;
  request.machine.devices.front().memory_bytes = kMemory;
  const auto made = Check(tidepool::MakeSchedule("none", graph, request));
  const auto timeline = Check(tidepool::Simulate(made));
  auto device = Check(tidepool::HostDevice::Create({.memory_bytes = kMemory}));
  auto recorder = Check(tidepool::Recorder::Create({.path = path}));
  auto pool = Check(
      tidepool::Pool::Create(device.get(), {.max_bytes = kMemory, .recorder = recorder.get()}));
  auto pinned = Check(tidepool::PinnedPool::Create(device.get(), {.max_bytes = 64 << 20}));
  auto offloader = Check(tidepool::Offloader::Create(device.get(), pool.get(), pinned.get(), {}));
  auto executor = Check(tidepool::Executor::Create(
      device.get(), offloader.get(), graph, timeline.resolved,
      tidepool::SleepingTasks(device.get(), graph, 0), /*fill=*/nullptr, /*options=*/{}));
  for (int step = 0; step < steps; ++step) {
    pool->MarkIteration();
    Check(executor->Run());
  }
  executor.reset();
  offloader.reset();
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

// SPDX-License-Identifier: Apache-2.0
// A training step of VGG-16 that does not fit: a schedule is made, simulated, and carried out.
#include <cstdint>
#include <vector>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace {

// Makes a schedule of a batch that needs more memory than there is, and simulates an iteration.
void SimulateLarge() {
  // [schedule]
  const auto graph = Check(tidepool::MakeModel("vgg-16", {.batch = 64, .gpu = "h200"}));
  tidepool::ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{5} << 30;
  request.placing.placement = "planned";
  request.options = tidepool::LayerwiseOptions{
      .set = tidepool::OffloadSet::kDynamic};  // the quickest mode that fits
  const auto made = Check(tidepool::MakeSchedule("vdnn++", graph, request));
  const auto timeline = Check(tidepool::Simulate(made));
  // timeline.seconds, .stalls, .bytes_out, .peak_device_bytes, .pool_bytes, ...
  // [/schedule]
  std::printf("vgg-16, batch 64, 5 GiB: %.0f ms, %.0f MiB to the host, a pool of %.0f MiB\n",
              timeline.seconds * 1e3, MiB(timeline.bytes_out), MiB(timeline.pool_bytes));
}

// Makes rounds of the largest sub-batch that fits.
void DivideBatch() {
  // [rounds]
  const auto family = Check(tidepool::MakeModelFamily("vgg-16", {}, std::vector<std::int64_t>{1}));
  tidepool::ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{3} << 30;
  request.batch = 64;
  request.sub_batch = tidepool::kLargestSubBatch;
  const auto made = Check(tidepool::MakeSchedule("none", family, request));
  const auto timeline = Check(tidepool::Simulate(made));
  // made.sub_batch, .rounds, .schedule, .graphs, .lower_bound_seconds, ...
  // [/rounds]
  std::printf("vgg-16, batch 64, 3 GiB: %lld rounds of %lld samples, %.0f ms\n",
              static_cast<long long>(made.rounds), static_cast<long long>(made.sub_batch),
              timeline.seconds * 1e3);
}

// Carries a small schedule out on the host device; its tasks take no time here.
void RunSmall() {
  const auto graph = Check(tidepool::MakeModel("alexnet", {.batch = 1}));
  tidepool::ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 30;
  const auto made = Check(tidepool::MakeSchedule("vdnn++", graph, request));
  auto device = Check(tidepool::HostDevice::Create({}));
  // [execute]
  const auto placed =
      Check(tidepool::PlaceInPool(graph, made.schedule, request.machine, request.placing));
  const tidepool::LaunchTask launch = tidepool::SleepingTasks(device.get(), graph, 0);
  auto executor =
      Check(tidepool::Executor::Create({device.get()}, {graph}, placed.schedule, request.machine,
                                       launch, /*fill=*/nullptr, /*options=*/{}));
  const tidepool::Timeline measured = Check(executor->Run());
  // [/execute]
  std::printf("alexnet, batch 1, on the host device: %.2f MiB to the host\n",
              MiB(measured.bytes_out));
}

}  // namespace

int main() {
  SimulateLarge();
  DivideBatch();
  RunSmall();
  return 0;
}

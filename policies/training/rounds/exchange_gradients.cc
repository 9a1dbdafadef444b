// SPDX-License-Identifier: Apache-2.0
#include "policies/training/rounds/exchange_gradients.h"

#include <algorithm>

#include "lib/base/arithmetic.h"

namespace tidepool::rounds {
namespace {

// Parts begin where copies are fast.
constexpr std::int64_t kPartAlignment = 512;
static_assert(kPartAlignment % kElementBytes == 0);

// Returns a step for a part of the gradient; a step of no bytes for a part that is not there.
ScheduleStep PartStep(StepKind kind, std::size_t data, std::int64_t bytes, std::size_t devices,
                      std::size_t part) {
  const std::int64_t size = RingPartBytes(bytes, devices);
  const std::int64_t begin = std::min(bytes, size * static_cast<std::int64_t>(part));
  return {.kind = kind, .index = data, .begin = begin, .end = std::min(bytes, begin + size)};
}

}  // namespace

std::int64_t RingPartBytes(std::int64_t bytes, std::size_t devices) {
  const auto count = static_cast<std::int64_t>(devices);
  const std::int64_t part = CeilDivide(bytes, count);
  return std::min(bytes, RoundUp(part, kPartAlignment));
}

std::vector<ScheduleStep> RingSteps(std::size_t data, std::int64_t bytes, std::size_t devices,
                                    std::int64_t buffer_offset) {
  std::vector<ScheduleStep> steps;
  steps.reserve(2 * (devices - 1) * devices);
  for (const StepKind kind : {StepKind::kAdd, StepKind::kReceive}) {
    const bool adds = kind == StepKind::kAdd;
    for (std::size_t turn = 0; turn + 1 < devices; ++turn) {
      for (std::size_t device = 0; device < devices; ++device) {
        // The sum of a part begins at the device of its number, and ends at the one before.
        const std::size_t part = (device + 2 * devices - (adds ? 1 : 0) - turn) % devices;
        ScheduleStep step = PartStep(kind, data, bytes, devices, part);
        if (step.begin == step.end) continue;
        step.device = device;
        step.source = (device + devices - 1) % devices;
        if (adds) step.offset = buffer_offset;
        steps.push_back(step);
      }
    }
  }
  return steps;
}

std::vector<ScheduleStep> StepsToFirst(std::size_t data, std::size_t devices,
                                       std::int64_t buffer_offset) {
  std::vector<ScheduleStep> steps;
  steps.reserve(devices - 1);
  for (std::size_t device = 1; device < devices; ++device) {
    steps.push_back(
        {.kind = StepKind::kAdd, .index = data, .offset = buffer_offset, .source = device});
  }
  return steps;
}

}  // namespace tidepool::rounds

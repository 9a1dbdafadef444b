// SPDX-License-Identifier: Apache-2.0
// Splits a batch over devices: after each device, the least time of the slowest device for each
// number of samples.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kStaysOut = static_cast<std::size_t>(-1);

// By samples: the least time of the slowest device so far, and the last device's row.
struct Splits {
  std::vector<double> seconds;
  std::vector<std::size_t> rows;
};

Splits WithDevice(const std::vector<double>& before, const std::vector<DeviceRow>& device,
                  std::int64_t multiple_of) {
  Splits splits = {before, std::vector<std::size_t>(before.size(), kStaysOut)};
  for (std::size_t k = 0; k < device.size(); ++k) {
    if (device[k].samples % multiple_of != 0) continue;
    const auto samples = static_cast<std::size_t>(device[k].samples);
    for (std::size_t b = samples; b < before.size(); ++b) {
      const double slowest = std::max(before[b - samples], device[k].seconds);
      if (slowest >= splits.seconds[b]) continue;
      splits.seconds[b] = slowest;
      splits.rows[b] = k;
    }
  }
  return splits;
}

}  // namespace

absl::StatusOr<DeviceSplit> SplitBatch(const WorkspaceCase& question) {
  if (absl::Status status = ValidateWorkspaceCase(question); !status.ok()) return status;
  if (question.kind != WorkspaceKind::kDevices) {
    return absl::InvalidArgumentError("the case is of kernels, expected one of devices (\"gpus\")");
  }
  std::vector<double> seconds(static_cast<std::size_t>(question.batch) + 1, kNever);
  seconds[0] = 0;
  std::vector<std::vector<std::size_t>> rows;
  for (const std::vector<DeviceRow>& device : question.devices) {
    Splits splits = WithDevice(seconds, device, question.multiple_of);
    seconds = std::move(splits.seconds);
    rows.push_back(std::move(splits.rows));
  }
  if (seconds.back() == kNever) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no rows of the devices add up to ", question.batch, " samples"));
  }
  DeviceSplit split = {seconds.back(), std::vector<DeviceRow>(rows.size(), {.samples = 0})};
  auto left = static_cast<std::size_t>(question.batch);
  for (std::size_t i = rows.size(); i-- > 0;) {
    const std::size_t row = rows[i][left];
    if (row == kStaysOut) continue;
    split.devices[i] = question.devices[i][row];
    left -= static_cast<std::size_t>(split.devices[i].samples);
  }
  return split;
}

}  // namespace tidepool

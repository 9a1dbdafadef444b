// SPDX-License-Identifier: Apache-2.0
#include "policies/training/requests/request_check.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::requests {
namespace {

absl::Status CheckAlignment(std::int64_t alignment) {
  if (alignment > 0 && alignment <= kMostAlignment && (alignment & (alignment - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("alignment ", alignment, ", expected a power of two up to ", kMostAlignment));
}

absl::Status CheckSubBatch(std::int64_t sub_batch, std::int64_t most) {
  if (sub_batch == kWholeBatch || sub_batch == kLargestSubBatch) return absl::OkStatus();
  if (sub_batch >= 1 && sub_batch <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a sub-batch of ", sub_batch, " samples, expected 1 to ", most, ", the batch of one device"));
}

absl::Status CheckReduction(const ScheduleRequest& request) {
  const bool is_exchange = request.reduction == GradientReduction::kFirstDevice ||
                           request.reduction == GradientReduction::kRing;
  if (request.devices == 1 || !is_exchange) return absl::OkStatus();
  const std::string name(GradientReductionName(request.reduction));
  if (request.host_updates) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the reduction ", name, " with updates on the host, expected updates on devices"));
  }
  if (request.machine.peers.exist()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the reduction ", name,
                   " on a machine without links of peers, expected a rate at which devices reach "
                   "each other, or a reduction by the host"));
}

}  // namespace

absl::Status CheckMachine(const ScheduleRequest& request) {
  if (absl::Status status = ValidateMachine(request.machine); !status.ok()) return status;
  if (absl::Status status = CheckAlignment(request.placing.alignment); !status.ok()) return status;
  const std::size_t devices = request.machine.devices.size();
  if (request.devices < 1 || request.devices > devices) {
    return absl::InvalidArgumentError(absl::StrCat(request.devices, " devices, expected 1 to ",
                                                   devices, ", the devices of the machine"));
  }
  if (absl::Status status = CheckReduction(request); !status.ok()) return status;
  const bool may_do_without = request.devices > 1 && request.machine.peers.exist() &&
                              request.reduction == GradientReduction::kAutomatic;
  const bool needs_cores = UpdatesOnHost(request) && (!may_do_without || request.host_updates);
  if (!needs_cores || request.machine.host.cores > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a machine with no cores of the host, expected at least one: the host runs the updates");
}

absl::Status CheckRequestOfGraph(const TaskGraph& graph, const ScheduleRequest& request) {
  const bool is_whole = request.sub_batch < 0 || request.sub_batch == graph.batch;
  const bool is_own = request.batch == 0 || request.batch == graph.batch;
  const bool is_alone = request.devices == 1 && !request.host_updates;
  if (is_whole && is_own && is_alone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a graph of batch ", graph.batch,
                                                 " has no other batch, expected a family of graphs "
                                                 "for sub-batches, several devices and updates "
                                                 "on the host"));
}

bool UpdatesOnHost(const ScheduleRequest& request) {
  const bool is_exchange = request.reduction == GradientReduction::kFirstDevice ||
                           request.reduction == GradientReduction::kRing;
  return request.devices > 1 ? !is_exchange : request.host_updates;
}

absl::StatusOr<std::int64_t> BatchOfDevice(const ScheduleRequest& request) {
  if (request.batch < 1 || request.batch > kMostBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", request.batch,
                     " samples for a family of graphs, expected 1 to ", kMostBatch));
  }
  const auto devices = static_cast<std::int64_t>(request.devices);
  if (request.batch % devices != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", request.batch, " samples on ",
                                                   devices, " devices, expected a multiple of ",
                                                   devices));
  }
  const std::int64_t batch = request.batch / devices;
  if (absl::Status status = CheckSubBatch(request.sub_batch, batch); !status.ok()) return status;
  return batch;
}

}  // namespace tidepool::requests

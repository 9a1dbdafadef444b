// SPDX-License-Identifier: Apache-2.0
// Makes a schedule by the name of a policy.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/text/nearest_first.h"
#include "policies/offload/base_policy.h"
#include "policies/offload/layerwise_policy.h"
#include "policies/offload/option_names.h"
#include "tidepool/schedule/offload_policy.h"

namespace tidepool {
namespace {

struct RegisteredOffloadPolicy {
  const char* name;
  const char* description;
  absl::StatusOr<Schedule> (*make)(const TaskGraph& graph, const ScheduleRequest& request);
};

constexpr auto kOffloadPolicies = std::to_array<RegisteredOffloadPolicy>({
    {"none", "all data stays on the device", offload_policies::MakeNone},
    {"vdnn", "each layer waits for the copies that it overlaps with", offload_policies::MakeVdnn},
    {"vdnn++", "no layer waits for copies", offload_policies::MakeVdnnPlusPlus},
    {"base", "the papers' manager: all data has memory of its own, gradients take chunks in turn",
     offload_policies::MakeBase},
});

absl::StatusOr<const RegisteredOffloadPolicy*> FindOffloadPolicy(std::string_view name) {
  for (const RegisteredOffloadPolicy& policy : kOffloadPolicies) {
    if (name == policy.name) return &policy;
  }
  const std::vector<std::string> names =
      text::NearestFirst({name.data(), name.size()}, OffloadPolicyNames());
  return absl::NotFoundError(absl::StrCat("no offload policy ", offload_policies::InQuotes(name),
                                          ", expected one of ", absl::StrJoin(names, ", ")));
}

// Larger alignments, times the data of a graph, would overflow.
constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;

absl::Status CheckAlignment(std::int64_t alignment) {
  if (alignment > 0 && alignment <= kLargestAlignment && (alignment & (alignment - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
}

// Returns the pool of a request with the memory, the link and the host memory of the machine.
TimelineOptions PoolOf(const ScheduleRequest& request) {
  const MachineDevice& device = request.machine.devices.front();
  const MachineLink& link = request.machine.links[device.link];
  TimelineOptions pool = request.pool;
  pool.memory_bytes = device.memory_bytes;
  pool.out_bytes_per_second = link.out_bytes_per_second;
  pool.in_bytes_per_second = link.in_bytes_per_second;
  pool.transfer_latency_seconds = link.latency_seconds;
  pool.one_transfer_at_a_time = !link.full_duplex;
  pool.host_bytes = request.machine.host.memory_bytes;
  return pool;
}

}  // namespace

ScheduleRequest RequestFor(const TimelineOptions& pool, PolicyOptions options) {
  return {.machine = MachineOf(pool), .pool = pool, .options = std::move(options)};
}

std::vector<OffloadPolicyInfo> OffloadPolicies() {
  std::vector<OffloadPolicyInfo> policies;
  policies.reserve(kOffloadPolicies.size());
  for (const RegisteredOffloadPolicy& policy : kOffloadPolicies) {
    policies.push_back({policy.name, policy.description});
  }
  return policies;
}

std::vector<std::string> OffloadPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kOffloadPolicies.size());
  for (const RegisteredOffloadPolicy& policy : kOffloadPolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<MadeSchedule> MakeSchedule(std::string_view policy, const TaskGraph& graph,
                                          const ScheduleRequest& request) {
  const absl::StatusOr<const RegisteredOffloadPolicy*> found = FindOffloadPolicy(policy);
  if (!found.ok()) return found.status();
  if (absl::Status status = ValidateMachine(request.machine); !status.ok()) return status;
  if (absl::Status status = CheckAlignment(request.pool.alignment); !status.ok()) return status;
  ScheduleRequest own = request;
  own.machine.devices.resize(1);
  own.pool = PoolOf(request);
  absl::StatusOr<Schedule> schedule = (*found)->make(graph, own);
  if (!schedule.ok()) return schedule.status();
  return MadeSchedule{.schedule = *std::move(schedule),
                      .graphs = {graph},
                      .machine = std::move(own.machine),
                      .pool = std::move(own.pool),
                      .sub_batch = graph.batch,
                      .lower_bound_seconds = TotalsOf(graph).least_seconds};
}

absl::StatusOr<Timeline> Simulate(const MadeSchedule& made) {
  return Simulate(made.graphs.front(), made.schedule, made.pool);
}

}  // namespace tidepool

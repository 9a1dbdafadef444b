// SPDX-License-Identifier: Apache-2.0
// Gives a paged schedule fixed addresses: plans the stays of data as buffers.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/lives_plan.h"
#include "lib/training/schedule/addresses/device_stays.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "tidepool/trace/plan.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

using schedule::DeviceStays;

// Plans the offsets of the stays on one device.
class StayPlanner {
 public:
  StayPlanner(const DeviceStays& stays, std::int64_t alignment, std::int64_t memory_bytes,
              const schedule::PlanEffort& effort)
      : effort_(effort),
        stays_(stays),
        alignment_(alignment),
        memory_bytes_(memory_bytes),
        parts_(stays.bytes.size()),
        last_begins_(stays.bytes.size(), std::numeric_limits<std::int64_t>::min()),
        whole_(stays.bytes.size()) {
    for (const schedule::StayPart& part : stays_.parts) {
      PlanBuffer& whole = whole_[part.stay];
      const bool is_first = parts_[part.stay]++ == 0;
      whole.lower = is_first ? part.lower : std::min(whole.lower, part.lower);
      whole.upper = is_first ? part.upper : std::max(whole.upper, part.upper);
      last_begins_[part.stay] = std::max(last_begins_[part.stay], part.lower);
      begin_ = std::min(begin_, part.lower);
      end_ = std::max(end_, part.upper);
    }
    for (std::size_t stay = 0; stay < whole_.size(); ++stay) {
      whole_[stay].bytes = stays.bytes[stay];
      whole_[stay].alignment = alignment;
    }
  }

  // Returns a plan with the offsets of all stays. It keeps the whole memory of each from its first
  // step to its last, unless that does not fit. `start_offsets` has offsets to begin with, by
  // stay; empty: no such plan.
  absl::StatusOr<Plan> PlanStays(const std::vector<std::int64_t>& start_offsets) const {
    if (!start_offsets.empty()) return PlanWithLives(start_offsets);
    absl::StatusOr<Plan> plan = schedule::PlanBuffersWithin({whole_}, memory_bytes_, effort_);
    if (!plan.ok() || plan->height <= memory_bytes_ || !HasParts()) return plan;
    Plan lives = PlanWithLives({});
    if (lives.height < plan->height) plan = std::move(lives);
    if (plan->height <= memory_bytes_) return plan;
    absl::StatusOr<Plan> in_parts = PlanInParts();
    return in_parts.ok() && in_parts->height > plan->height ? plan : in_parts;
  }

 private:
  bool HasParts() const {
    return std::any_of(parts_.begin(), parts_.end(), [](std::size_t parts) { return parts > 1; });
  }

  // Plans all stays at once. A stay has its whole memory while any of its bytes is there.
  Plan PlanWithLives(const std::vector<std::int64_t>& start_offsets) const {
    std::vector<plan::LivingBuffer> stays(whole_.size());
    for (std::size_t stay = 0; stay < stays.size(); ++stay) stays[stay].bytes = whole_[stay].bytes;
    for (const schedule::StayPart& part : stays_.parts) {
      stays[part.stay].lives.push_back({part.lower, part.upper});
    }
    for (plan::LivingBuffer& stay : stays) plan::Join(stay.lives);
    budget::Budget budget(effort_.most_seconds, effort_.stop);
    return plan::PlanLives(stays,
                           {.alignment = alignment_,
                            .capacity = memory_bytes_,
                            .work = schedule::StepsIn(effort_.work_seconds),
                            .seed = effort_.seed,
                            .start_offsets = start_offsets},
                           budget);
  }

  bool IsThroughout(std::size_t stay) const {
    return whole_[stay].lower == begin_ && whole_[stay].upper == end_;
  }

  // Returns the stays that are there at the first step and at the last, in the order in which their
  // last parts come.
  std::vector<std::size_t> StaysThroughout() const {
    std::vector<std::size_t> stays;
    for (std::size_t stay = 0; stay < whole_.size(); ++stay) {
      if (IsThroughout(stay)) stays.push_back(stay);
    }
    std::stable_sort(stays.begin(), stays.end(), [&](std::size_t a, std::size_t b) {
      return last_begins_[a] < last_begins_[b];
    });
    return stays;
  }

  // Whether the parts of a stay have their offsets before all other stays.
  bool IsFirst(std::size_t stay) const { return parts_[stay] > 1 || IsThroughout(stay); }

  // Stacks the stays throughout, such as weights and gradients, from the lowest address on. Data
  // that comes back last lies on top, so that once it has left the stack only grows. Other stays of
  // several parts lie above.
  absl::StatusOr<std::vector<std::int64_t>> PlanThoseInParts() const {
    std::vector<std::int64_t> offsets(whole_.size());
    PlanProblem above;
    std::int64_t top = 0;
    for (const std::size_t stay : StaysThroughout()) {
      offsets[stay] = top;
      top += AlignUp(whole_[stay].bytes, whole_[stay].alignment);
    }
    std::vector<std::size_t> others;
    for (std::size_t stay = 0; stay < whole_.size(); ++stay) {
      if (!IsFirst(stay) || IsThroughout(stay)) continue;
      others.push_back(stay);
      above.buffers.push_back(whole_[stay]);
    }
    if (others.empty()) return offsets;
    const absl::StatusOr<Plan> plan =
        schedule::PlanBuffersWithin(above, memory_bytes_ - top, effort_);
    if (!plan.ok()) return plan.status();
    for (std::size_t i = 0; i < others.size(); ++i) offsets[others[i]] = top + plan->offsets[i];
    return offsets;
  }

  // Plans all other stays around the parts of those that come first.
  absl::StatusOr<Plan> PlanInParts() const {
    absl::StatusOr<std::vector<std::int64_t>> offsets = PlanThoseInParts();
    if (!offsets.ok()) return offsets.status();
    PlanProblem around;
    std::vector<std::size_t> others;
    for (std::size_t stay = 0; stay < whole_.size(); ++stay) {
      if (IsFirst(stay)) continue;
      others.push_back(stay);
      around.buffers.push_back(whole_[stay]);
    }
    for (const schedule::StayPart& part : stays_.parts) {
      if (!IsFirst(part.stay)) continue;
      around.buffers.push_back({.lower = part.lower,
                                .upper = part.upper,
                                .bytes = part.range.end - part.range.begin,
                                .offset = (*offsets)[part.stay] + part.range.begin});
    }
    absl::StatusOr<Plan> plan = schedule::PlanBuffersWithin(around, memory_bytes_, effort_);
    if (!plan.ok()) return plan;
    for (std::size_t i = 0; i < others.size(); ++i) (*offsets)[others[i]] = plan->offsets[i];
    plan->offsets = *std::move(offsets);
    return plan;
  }

  const schedule::PlanEffort& effort_;  // for each search
  const DeviceStays& stays_;
  const std::int64_t alignment_;
  const std::int64_t memory_bytes_;
  std::vector<std::size_t> parts_;         // by stay: their number
  std::vector<std::int64_t> last_begins_;  // by stay: of its parts
  std::vector<PlanBuffer> whole_;  // by stay: all its bytes, from its first step to its last
  std::int64_t begin_ = std::numeric_limits<std::int64_t>::max();  // of all stays
  std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
};

// Returns the key of each stay.
std::vector<schedule::StayKey> KeysOf(const DeviceStays& stays, const Schedule& schedule) {
  std::vector<schedule::StayKey> keys(stays.bytes.size());
  std::vector<bool> has_key(stays.bytes.size());
  absl::flat_hash_map<schedule::StayKey, std::size_t> numbers;  // by key of the first stay
  for (std::size_t at = 0; at < stays.stay_at.size(); ++at) {
    const std::size_t stay = stays.stay_at[at];
    if (stay == DeviceStays::kNone || has_key[stay]) continue;
    const ScheduleStep& step = schedule.steps[at];
    schedule::StayKey key = {.kind = step.kind, .index = step.index};
    if (key.kind == StepKind::kPrefetch) key.kind = StepKind::kAllocate;
    std::size_t& number = numbers[key];
    key.number = number++;
    keys[stay] = key;
    has_key[stay] = true;
  }
  return keys;
}

std::vector<std::int64_t> StartOffsets(const std::vector<schedule::StayKey>& keys,
                                       const schedule::StayOffsets* start) {
  std::vector<std::int64_t> offsets;
  if (start == nullptr) return offsets;
  offsets.reserve(keys.size());
  for (const schedule::StayKey& key : keys) {
    const auto found = start->find(key);
    offsets.push_back(found == start->end() ? -1 : found->second);
  }
  return offsets;
}

std::vector<schedule::HighStay> HighStays(const DeviceStays& stays,
                                          const std::vector<schedule::StayKey>& keys,
                                          const Plan& plan, std::int64_t memory_bytes) {
  std::vector<schedule::HighStay> high;
  for (const schedule::StayPart& part : stays.parts) {
    const std::int64_t above = plan.offsets[part.stay] + part.range.end - memory_bytes;
    if (above <= 0) continue;
    high.push_back({.key = keys[part.stay],
                    .first_step = part.lower,
                    .end_step = part.upper,
                    .bytes_above = std::min(above, part.range.end - part.range.begin)});
  }
  return high;
}

// Plans the memory of a device, in whole granules. Writes the offsets into its steps where the plan
// fits.
absl::Status FixDevice(absl::Span<const TaskGraph> graphs, std::size_t device,
                       std::int64_t alignment, std::int64_t memory_bytes,
                       const schedule::PlanEffort& effort, schedule::FixedSchedule& fixed) {
  const DeviceStays stays = schedule::FindStays(graphs, fixed.schedule, device, effort.workspaces);
  if (stays.bytes.empty()) return absl::OkStatus();
  memory_bytes &= -alignment;
  const std::vector<schedule::StayKey> keys = KeysOf(stays, fixed.schedule);
  const absl::StatusOr<Plan> plan = StayPlanner(stays, alignment, memory_bytes, effort)
                                        .PlanStays(StartOffsets(keys, effort.start_offsets));
  if (!plan.ok()) return plan.status();
  const std::int64_t height = RoundUp(plan->height, alignment);
  fixed.offsets.clear();
  for (std::size_t stay = 0; stay < keys.size(); ++stay) {
    fixed.offsets[keys[stay]] = plan->offsets[stay];
  }
  if (height > memory_bytes) {
    fixed.fits = false;
    fixed.schedule = Schedule();
    fixed.device = device;
    fixed.height = height;
    fixed.high_stays = HighStays(stays, keys, *plan, memory_bytes);
    return absl::OkStatus();
  }
  for (std::size_t at = 0; at < stays.stay_at.size(); ++at) {
    const std::size_t stay = stays.stay_at[at];
    if (stay != DeviceStays::kNone) fixed.schedule.steps[at].offset = plan->offsets[stay];
  }
  fixed.height = std::max(fixed.height, height);
  return absl::OkStatus();
}

absl::Status CheckFixArguments(const Schedule& schedule, std::int64_t alignment,
                               absl::Span<const std::int64_t> memory_bytes) {
  if (schedule.memory != ScheduleMemory::kPaged) {
    return absl::InvalidArgumentError(absl::StrCat("a schedule with ",
                                                   std::string(ScheduleMemoryName(schedule.memory)),
                                                   " memory, expected paged memory"));
  }
  if (alignment < 1 || alignment > kMostAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", alignment, ", expected a power of two up to 1 GiB"));
  }
  if (memory_bytes.size() >= schedule.devices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the memory of ", memory_bytes.size(), " devices, expected that of all ", schedule.devices));
}

}  // namespace

absl::StatusOr<schedule::FixedSchedule> schedule::FixAddressesWithin(
    const PlanEffort& effort, absl::Span<const TaskGraph> graphs, const Schedule& schedule,
    std::int64_t alignment, absl::Span<const std::int64_t> memory_bytes) {
  absl::Status status = CheckFixArguments(schedule, alignment, memory_bytes);
  if (status.ok()) status = ValidateSchedule(graphs, schedule);
  if (!status.ok()) return status;
  FixedSchedule fixed = {.fits = true, .schedule = schedule};
  for (std::size_t device = 0; device < schedule.devices; ++device) {
    status = FixDevice(graphs, device, alignment, memory_bytes[device], effort, fixed);
    if (!status.ok()) return status;
    if (!fixed.fits) return fixed;
  }
  fixed.schedule.memory = ScheduleMemory::kFixed;
  fixed.schedule.alignment = alignment;
  return fixed;
}

absl::Status schedule::DoesNotFit(const FixedSchedule& fixed,
                                  absl::Span<const std::int64_t> memory_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("the plan of device ", fixed.device, " needs ",
                                                   fixed.height, " bytes, expected at most ",
                                                   memory_bytes[fixed.device]));
}

absl::StatusOr<Schedule> FixAddresses(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                      std::int64_t alignment,
                                      absl::Span<const std::int64_t> memory_bytes) {
  absl::StatusOr<schedule::FixedSchedule> fixed =
      schedule::FixAddressesWithin({}, graphs, schedule, alignment, memory_bytes);
  if (!fixed.ok()) return fixed.status();
  if (fixed->fits) return std::move(fixed->schedule);
  return schedule::DoesNotFit(*fixed, memory_bytes);
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/pool_rig.h"

#include <algorithm>
#include <utility>

#include "tests/stress/watch.h"
#include "tests/support/sizes.h"
#include "tidepool/placement.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;

std::int64_t RoundedUp(std::int64_t bytes, std::int64_t to) {
  return to == 0 ? bytes : (bytes + to - 1) / to * to;
}

std::unique_ptr<HostDevice> NewDevice(Dice& dice, const PoolOptions& options) {
  HostDeviceOptions device;
  device.granularity = 64 << 10;
  // Devices without virtual memory have only segments.
  if (options.memory == PoolMemory::kSegments && dice.Chance(0.5)) device.granularity = 0;
  device.memory_bytes =
      RoundedUp(options.max_bytes, 64 << 10) + (dice.Chance(0.5) ? 0 : options.max_bytes);
  if (dice.Chance(0.2)) {
    device.copy_bytes_per_second = 1e8 * static_cast<double>(dice.Between(1, 20));
    device.copy_latency_ns = dice.Between(0, 20'000);
  }
  auto made = HostDevice::Create(device);
  CheckOk(made.status(), "HostDevice::Create");
  return *std::move(made);
}

}  // namespace

PoolOptions AnyPoolOptions(Dice& dice) {
  PoolOptions options;
  options.max_bytes =
      dice.Between(1, 6) * kMiB * (dice.Chance(0.25) ? 8 : 1) + dice.Between(0, 2) * 1000;
  options.memory = dice.Chance(0.4) ? PoolMemory::kSegments : PoolMemory::kVirtual;
  options.initial_bytes = dice.Chance(0.5) ? 0 : dice.Between(0, options.max_bytes / 2);
  options.alignment = std::int64_t{1} << dice.Between(6, 9);
  options.placement = dice.Pick(PlacementPolicyNames());
  options.remap =
      options.memory == PoolMemory::kVirtual && options.placement != "planned" && dice.Chance(0.5);
  options.growth = dice.Chance(0.5) ? 0 : 0.25;
  options.most_plans = static_cast<int>(dice.Between(0, 4));
  options.plan_seconds = 0.001;
  return options;
}

PoolRig::PoolRig(Round& round, PoolOptions options, Surroundings surroundings)
    : device_(NewDevice(round.dice(), options)),
      granularity_(device_->granularity()),
      has_neighbours_(surroundings == kAnything && round.dice().Chance(0.4)),
      remaps_(options.remap) {
  Dice& dice = round.dice();
  faults_.emplace(*device_, round, surroundings == kAnything);
  streams_.emplace(*device_, dice.Between(1, 6));
  if (dice.Chance(0.2)) {
    file_.emplace(".tide");
    auto recorder = Recorder::Create({.path = file_->path(), .alignment = options.alignment});
    CheckOk(recorder.status(), "Recorder::Create");
    recorder_ = *std::move(recorder);
    options.recorder = recorder_.get();
  }
  Describe(options);
  auto made = Again([&] {
    faults_->MaybeOrder(dice);
    return Pool::Create(device_.get(), options);
  });
  CheckOk(made.status(), "Pool::Create");
  pool_ = *std::move(made);
  budget_ = pool_->Stats().max_bytes;
  live_.emplace(budget_);
}

void PoolRig::Describe(const PoolOptions& options) const {
  AddDescription(absl::StrCat(
      options.placement, options.memory == PoolMemory::kSegments ? ", segments" : ", virtual",
      options.remap ? ", remap" : "", ", budget ", options.max_bytes, ", device ",
      device_->memory_bytes(), ", granularity ", granularity_, ", initial ", options.initial_bytes,
      ", alignment ", options.alignment, ", growth ", options.growth,
      options.plan != nullptr ? ", a plan" : "", ", most plans ", options.most_plans,
      recorder_ != nullptr ? ", recorded" : "", has_neighbours_ ? ", neighbours" : "",
      faults_->are_wanted() ? ", faults" : ""));
}

void PoolRig::Inspect(Worker& worker, PoolUser& user) {
  Dice& dice = worker.dice();
  switch (dice.Below(12)) {
    case 0:
    case 1:
      worker.Begins("Stats");
      return CheckStats();
    case 2:
      worker.Begins("Snapshot");
      return CheckSnapshot();
    case 3:
      worker.Begins("CheckInvariants");
      return CheckOk(pool_->CheckInvariants(), "CheckInvariants");
    case 4:
      worker.Begins("Trim");
      return Trim(worker);
    case 5:
      worker.Begins("MarkIteration");
      return pool_->MarkIteration();
    case 6:
      worker.Begins("Mark");
      return pool_->Mark(dice.Chance(0.5) ? "forward" : "backward");
    case 7:
      worker.Begins("replace a stream");
      return streams_->ReplaceOne(dice);
    case 8:
      return user.Misuse();
    case 9:
      worker.Begins("take memory of the device");
      if (has_neighbours_) TakeOfDevice(RoundedUp(dice.Between(1, budget_), 512));
      return;
    case 10:
      worker.Begins("give memory to the device");
      return GiveToDevice();
    default:
      if (!dice.Chance(0.1)) return;
      worker.Begins("AwaitPlans");
      return pool_->AwaitPlans();
  }
}

void PoolRig::Trim(Worker& worker) {
  const std::int64_t keep = worker.dice().Chance(0.5) ? 0 : worker.dice().Between(0, budget_);
  const auto trimmed = pool_->Trim(keep);
  if (!worker.Ended(trimmed.status(), {faults_->expected()})) return;
  Check(*trimmed >= 0, "Trim gave back ", *trimmed, " bytes");
}

void PoolRig::CheckStats() {
  const std::int64_t changes = neighbour_changes_;
  const std::int64_t neighbours = neighbour_bytes_;
  const std::int64_t used = device_->used_bytes();
  const PoolStats stats = pool_->Stats();
  const std::int64_t most = RoundedUp(budget_, granularity_);
  Check(used <= most + neighbours || neighbour_changes_ != changes,
        "the device's memory in use is ", used, ", of others ", neighbours, ", the budget is ",
        budget_);
  Check(stats.reserved_bytes <= most, "reserved are ", stats.reserved_bytes, ", the budget is ",
        budget_);
  Check(stats.live_bytes >= 0 && stats.live_bytes <= budget_ && stats.live_count >= 0, "live are ",
        stats.live_bytes, ", the budget is ", budget_);
  Check(stats.live_bytes <= stats.reserved_bytes, "live are ", stats.live_bytes, ", reserved ",
        stats.reserved_bytes);
  Check(stats.largest_hole_bytes >= 0 && stats.largest_hole_bytes <= stats.free_bytes,
        "the largest hole has ", stats.largest_hole_bytes, " bytes, free are ", stats.free_bytes);
  Check(stats.fragmentation >= 0 && stats.fragmentation <= 1, "fragmentation is ",
        stats.fragmentation);
}

void PoolRig::CheckSnapshot() {
  std::int64_t used = 0;
  for (const PoolBlock& block : pool_->Snapshot()) {
    Check(block.bytes > 0, "a block of ", block.bytes, " bytes");
    Check(!block.used || block.pending.empty(), "a used block waits for streams");
    if (block.used) used += block.bytes;
  }
  Check(used <= budget_, "used are ", used, ", the budget is ", budget_);
}

void PoolRig::TakeOfDevice(std::int64_t bytes) {
  neighbour_bytes_ += bytes;
  ++neighbour_changes_;
  const auto address = device_->AllocateMemory(bytes);
  if (!address.ok()) {
    neighbour_bytes_ -= bytes;
    return;
  }
  const std::lock_guard lock(neighbours_mutex_);
  neighbours_.emplace_back(*address, bytes);
}

void PoolRig::FillDevice() {
  const std::int64_t left = (device_->memory_bytes() - device_->used_bytes()) / 512 * 512;
  if (left > 0) TakeOfDevice(left);
}

void PoolRig::GiveToDevice() {
  const std::lock_guard lock(neighbours_mutex_);
  if (neighbours_.empty()) return;
  const auto [address, bytes] = neighbours_.back();
  neighbours_.pop_back();
  CheckOk(Again([&, taken = address] { return device_->FreeMemory(taken); }), "FreeMemory");
  neighbour_bytes_ -= bytes;
}

void PoolRig::GiveAllToDevice() {
  while (!neighbours_.empty()) GiveToDevice();
}

void PoolRig::End() {
  faults_->End();
  GiveAllToDevice();
  CheckOk(pool_->CheckInvariants(), "CheckInvariants in the end");
  PoolStats stats = pool_->Stats();
  for (const RegionStats& region : pool_->RegionStatistics()) EndRegion(region.tag, stats);
  Check(stats.live_bytes == 0 && stats.live_count == 0, "all was freed, and live are ",
        stats.live_bytes, " bytes, ", stats.live_count, " allocations");
  Check(stats.peak_live_bytes <= budget_, "live were ", stats.peak_live_bytes,
        " bytes, the budget is ", budget_);
  CheckOk(pool_->Trim().status(), "Trim in the end");
  Check(device_->used_bytes() == 0, "all was freed, and after Trim the pool holds ",
        device_->used_bytes(), " bytes of the device");
  pool_.reset();
  Check(device_->used_bytes() == 0, "the pool is gone, and the device's memory in use is ",
        device_->used_bytes());
  if (recorder_ != nullptr) CheckRecording(stats);
}

void PoolRig::EndRegion(std::string_view tag, PoolStats& stats) {
  Pool& region = **pool_->Region(tag);
  CheckOk(region.Trim().status(), "Trim of a region in the end");
  const PoolStats its = region.Stats();
  stats.live_bytes += its.live_bytes;
  stats.live_count += its.live_count;
  stats.allocations += its.allocations;
  stats.frees += its.frees;
  stats.failures += its.failures;
}

void PoolRig::CheckRecording(const PoolStats& stats) {
  CheckOk(recorder_->Close(), "Recorder::Close");
  const auto trace = ReadTrace(file_->path());
  CheckOk(trace.status(), "ReadTrace");
  const auto count = [&](TraceEvent::Kind kind) {
    return std::count_if(trace->events.begin(), trace->events.end(),
                         [&](const TraceEvent& event) { return event.kind == kind; });
  };
  Check(count(TraceEvent::Kind::kAllocate) == stats.allocations, "the pool says ",
        stats.allocations, " allocations, the recording ", count(TraceEvent::Kind::kAllocate));
  Check(count(TraceEvent::Kind::kFree) == stats.frees, "the pool says ", stats.frees,
        " frees, the recording ", count(TraceEvent::Kind::kFree));
  Check(count(TraceEvent::Kind::kFailure) == stats.failures, "the pool says ", stats.failures,
        " failures, the recording ", count(TraceEvent::Kind::kFailure));
}

}  // namespace tidepool::stress

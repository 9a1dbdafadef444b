// SPDX-License-Identifier: Apache-2.0
// The recorder sees requests as callers made them; iterations see blocks, because a plan is about
// rounded sizes.
#include "lib/memory/pool/observers.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tidepool::pool {

Observers::Observers(const PoolOptions& options, PlannedPlacement* planned)
    : recorder_(options.recorder),
      iterations_(planned == nullptr ? nullptr : std::make_unique<Iterations>(*planned, options)),
      has_any_(recorder_ != nullptr || iterations_ != nullptr) {}

void Observers::TellAllocation(const Served& served, const StreamClock& clock) {
  if (iterations_ != nullptr) {
    iterations_->OnAllocate(served.block, served.request.bytes, served.live_bytes, clock.index);
  }
  if (recorder_ != nullptr) {
    recorder_->Allocate(served.address, served.asked_bytes, served.request.hint, clock.stream);
  }
}

void Observers::OnWait(const StreamClock& clock, const StreamClock& awaited) {
  if (iterations_ != nullptr) iterations_->OnWait(clock.index, awaited.index);
  if (recorder_ != nullptr) recorder_->Wait(clock.stream, awaited.stream);
}

void Observers::OnRefusal(std::size_t bytes, Hint hint, Stream stream) {
  if (recorder_ == nullptr) return;
  const auto recorded = std::min(bytes, static_cast<std::size_t>(kMaxRequestBytes));
  recorder_->Failure(static_cast<std::int64_t>(recorded), hint, stream);
}

void Observers::OnMark(std::string_view name) {
  if (recorder_ != nullptr) recorder_->Mark(name);
}

bool Observers::MarkIteration() {
  OnMark(Pool::kIterationMark);
  if (iterations_ == nullptr) return false;
  iterations_->Mark();
  return true;
}

PlanNeeds Observers::BeginIteration(const blocks::BlockMap& blocks, bool exclusions_stay) {
  if (iterations_->End()) iterations_->Plan(LiveMemoryOf(blocks, exclusions_stay));
  return iterations_->Begin();
}

// New segments begin after the last fence.
LiveMemory Observers::LiveMemoryOf(const blocks::BlockMap& blocks, bool exclusions_stay) const {
  LiveMemory live;
  std::vector<Range>& fixed = live.fixed;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (!blocks.used(id) || (blocks.excluded(id) && !exclusions_stay)) continue;
    const Range range = {blocks.offset(id), blocks.offset(id) + blocks.bytes(id)};
    if (!blocks.excluded(id) && iterations_->IsOwn(id)) {
      live.own.push_back({range, iterations_->RequestOf(id)});
    } else if (!fixed.empty() && fixed.back().end == range.begin) {
      fixed.back().end = range.end;
    } else {
      fixed.push_back(range);
    }
  }
  return live;
}

void Observers::AwaitPlans() {
  if (iterations_ != nullptr) iterations_->AwaitPlans();
}

void Observers::AddCounts(PoolStats& stats) const {
  if (iterations_ != nullptr) iterations_->AddCounts(stats);
}

}  // namespace tidepool::pool

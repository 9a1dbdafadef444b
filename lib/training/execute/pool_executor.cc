// SPDX-License-Identifier: Apache-2.0
// Iterations of a pool's schedule, from the first step to the measures.
#include "lib/training/execute/pool_executor.h"

#include <algorithm>
#include <tuple>

#include "lib/training/execute/check_drops.h"
#include "lib/training/execute/measured_stalls.h"
#include "lib/training/execute/step_error.h"
#include "lib/training/schedule/check/check_pool.h"

namespace tidepool::execute {

absl::Status PoolExecutor::Start() {
  const absl::StatusOr<Stream> stream = device_.CreateStream();
  if (!stream.ok()) return stream.status();
  compute_ = *stream;
  absl::Status status = CreateEvents(step_events_.count);
  return status.ok() ? homes_.Start() : status;
}

// Creates events until there are `count`.
absl::Status PoolExecutor::CreateEvents(std::size_t count) {
  while (events_.size() < count) {
    const absl::StatusOr<Event> event = device_.CreateEvent();
    if (!event.ok()) return event.status();
    events_.push_back(*event);
  }
  return absl::OkStatus();
}

PoolExecutor::~PoolExecutor() {
  Abandon();
  // Objects that the device refuses to destroy are lost: no caller could act on the error.
  for (const Event event : events_) device_.DestroyEvent(event).IgnoreError();
  if (compute_ != Stream()) device_.DestroyStream(compute_).IgnoreError();
}

absl::Status PoolExecutor::Reschedule(const Schedule& schedule) {
  absl::Status status = schedule::CheckIsForPool(schedule, "the executor");
  if (status.ok()) status = ValidateSchedule(graph_, schedule);
  if (status.ok()) status = CheckDropsAreSent(graph_, schedule);
  if (!status.ok()) return status;
  StepEvents step_events = PlaceEvents(graph_, schedule);
  if (status = CreateEvents(step_events.count); !status.ok()) return status;
  schedule_ = schedule;
  step_events_ = std::move(step_events);
  return absl::OkStatus();
}

absl::StatusOr<Timeline> PoolExecutor::Run() {
  timeline_ = {};
  probes_ = probe_every_ > 0 && iteration_++ % probe_every_ == 0;
  home_bytes_in_ = 0;
  begin_ = clock_();
  const OffloaderStats before = offloader_.Stats();
  absl::Status status;
  if (measures_) {
    // One for each iteration, because a step may have no work in it.
    stamps_ = std::make_unique<Stamps>(schedule_.steps.size(), clock_);
    stamps_->Begin();
    status = AtStep(graph_, schedule_, 0, stamps_->Begin(device_, compute_));
  }
  std::size_t at = 0;
  for (; status.ok() && at < schedule_.steps.size(); ++at) {
    if (on_step_ != nullptr) on_step_(at);
    status = AtStep(graph_, schedule_, at, PerformStep(at));
  }
  if (status.ok()) status = AtStep(graph_, schedule_, at, Synchronize());
  if (status.ok()) status = AtStep(graph_, schedule_, at, FreeAllButWeights());
  timeline_.seconds = clock_() - begin_;
  if (status.ok() && measures_) status = ReadStamps();
  if (!status.ok()) {
    Abandon();
    return status;
  }
  const OffloaderStats after = offloader_.Stats();
  timeline_.bytes_out = after.bytes_out - before.bytes_out;
  timeline_.bytes_in = after.bytes_in - before.bytes_in + home_bytes_in_;
  return std::move(timeline_);
}

// Waits for all queued work after an error, and frees all data.
void PoolExecutor::Abandon() {
  constexpr int kTries = 2;  // a device that fails once may work the next time
  bool has_finished = compute_ == Stream();
  for (int i = 0; i < kTries && !has_finished; ++i) {
    has_finished = device_.SynchronizeStream(compute_).ok();
  }
  if (compute_ != Stream()) device_.SynchronizeStream(offloader_.in_stream()).IgnoreError();
  // The errors belong to buffers that are freed next.
  offloader_.Synchronize().IgnoreError();
  for (Datum& datum : data_) {
    if (datum.buffer != BufferId()) offloader_.Free(datum.buffer).IgnoreError();
    datum = {};
  }
  leaving_.clear();
  // Compressed copies may have held the memory until now.
  offloader_.Synchronize().IgnoreError();
  stamps_ = nullptr;
}

absl::StatusOr<CopyWatch> PoolExecutor::WatchOf(std::size_t at) {
  if (stamps_ == nullptr) return CopyWatch();
  return stamps_->Watch(at, device_);
}

void PoolExecutor::NotePeaks() {
  if (!measures_) return;
  const OffloaderStats stats = offloader_.Stats();
  timeline_.peak_device_bytes = std::max(timeline_.peak_device_bytes, stats.device_bytes);
  timeline_.peak_host_bytes =
      std::max(timeline_.peak_host_bytes, stats.peak_host_bytes + homes_.bytes());
}

absl::Status PoolExecutor::ReadStamps() {
  NotePeaks();
  using Kind = TimelineEvent::Kind;
  for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
    const absl::StatusOr<Stamps::Times> times = stamps_->Of(i);
    if (absl::IsFailedPrecondition(times.status())) continue;
    if (!times.ok()) return AtStep(graph_, schedule_, i, times.status());
    const ScheduleStep& step = schedule_.steps[i];
    const Kind kind = step.kind == StepKind::kRun       ? Kind::kTask
                      : step.kind == StepKind::kOffload ? Kind::kOffload
                                                        : Kind::kPrefetch;
    timeline_.events.push_back({kind, step.index, i, times->start, times->end});
    if (kind == Kind::kTask) timeline_.compute_seconds += times->end - times->start;
  }
  std::sort(timeline_.events.begin(), timeline_.events.end(),
            [](const TimelineEvent& left, const TimelineEvent& right) {
              return std::tie(left.start, left.step) < std::tie(right.start, right.step);
            });
  timeline_.stalls = MeasuredStalls(graph_, schedule_, timeline_.events);
  return absl::OkStatus();
}

}  // namespace tidepool::execute

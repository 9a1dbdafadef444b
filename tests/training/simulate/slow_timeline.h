// SPDX-License-Identifier: Apache-2.0
// A model of timeline.h in the slowest and plainest way: every clock is computed from the list of
// all earlier events.
#ifndef TIDEPOOL_TESTS_TRAINING_SIMULATE_SLOW_TIMELINE_H_
#define TIDEPOOL_TESTS_TRAINING_SIMULATE_SLOW_TIMELINE_H_

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/pool_machine.h"
#include "tests/support/slow_arena.h"
#include "tests/training/graph/slow_graph.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::testing {

class SlowTimeline {
 public:
  static constexpr double kForever = std::numeric_limits<double>::infinity();

  struct Span {
    std::size_t data = 0;
    std::int64_t bytes = 0;
    double start = 0;
    double end = kForever;
    double density = -1;
    std::int64_t offset = -1;
  };
  // A wait of the host or of the compute stream.
  struct Wait {
    double until = 0;
    TimelineStall::Reason reason = TimelineStall::Reason::kMemory;
    std::size_t data = 0;
  };

  SlowTimeline(const TaskGraph& graph, const Schedule& schedule, const PoolMachine& options)
      : graph_(graph),
        steps_(schedule.steps),
        options_(options),
        arena_(options.memory(), options.placing.alignment, options.placing.placement),
        places_(graph.data.size(), "nowhere"),
        offsets_(graph.data.size(), -1) {
    for (std::size_t data = 0; data < graph.data.size(); ++data) {
      if (graph.data[data].before != DataHome::kHost) continue;
      places_[data] = "out";
      host_.push_back({.data = data, .bytes = graph.data[data].bytes});
    }
  }

  // Returns whether the host has room for the data that begins there.
  bool HasHomes() const { return SumOf(host_) <= options_.host_memory(); }

  // Returns the first step for which there is no room, or no value.
  std::optional<std::size_t> Run() {
    for (at_ = 0; at_ < steps_.size(); ++at_) {
      if (!Do(steps_[at_])) return at_;
    }
    for (const std::size_t data : leaving_) {
      EndOnDevice(data, std::max(EndOfLast(outs_, data), LastUse(data, false)));
    }
    return std::nullopt;
  }

  double seconds() const { return std::max({HostTime(), Position(), TailOf(outs_), TailOf(ins_)}); }
  std::vector<TimelineEvent> Events() const {
    std::vector<TimelineEvent> sorted = events_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    return sorted;
  }
  const std::vector<TimelineStall>& stalls() const { return stalls_; }
  const std::vector<ScheduleStep>& resolved() const { return resolved_; }
  std::int64_t bytes_out() const { return SumOf(outs_); }
  std::int64_t bytes_in() const { return SumOf(ins_); }
  std::int64_t stayed() const { return stayed_; }
  std::int64_t pool_bytes() const { return pool_bytes_; }
  // Returns the offsets of all allocations, in order.
  const std::vector<std::int64_t>& placed() const { return placed_; }
  // Returns the use of device memory over time; workspaces have numbers above those of data.
  const std::vector<Span>& device() const { return device_; }
  std::vector<MemoryPoint> DeviceMemory() const { return CurveOf(device_); }
  std::vector<MemoryPoint> HostMemory() const { return CurveOf(host_); }

 private:
  using Reason = TimelineStall::Reason;
  using EventKind = TimelineEvent::Kind;

  static double TailOf(const std::vector<Span>& spans) {
    double tail = 0;
    for (const Span& span : spans) tail = std::max(tail, span.end);
    return tail;
  }
  static std::int64_t SumOf(const std::vector<Span>& spans) {
    std::int64_t sum = 0;
    for (const Span& span : spans) sum += span.bytes;
    return sum;
  }
  static const Span* LastOf(const std::vector<Span>& spans, std::size_t data) {
    const Span* last = nullptr;
    for (const Span& span : spans) {
      if (span.data == data) last = &span;
    }
    return last;
  }
  static double EndOfLast(const std::vector<Span>& spans, std::size_t data) {
    const Span* last = LastOf(spans, data);
    return last == nullptr ? 0 : last->end;
  }

  static std::vector<MemoryPoint> CurveOf(const std::vector<Span>& spans) {
    std::set<double> times;
    for (const Span& span : spans) {
      times.insert(span.start);
      if (span.end != kForever) times.insert(span.end);
    }
    std::vector<MemoryPoint> points;
    std::int64_t before = 0;
    for (const double time : times) {
      std::int64_t bytes = 0;
      for (const Span& span : spans) {
        if (span.start <= time && time < span.end) bytes += span.bytes;
      }
      if (bytes != before) points.push_back({time, bytes});
      before = bytes;
    }
    return points;
  }

  double HostTime() const {
    double time = 0;
    for (const Wait& wait : host_waits_) time = std::max(time, wait.until);
    return time;
  }
  double TaskEnd() const {
    double end = 0;
    for (const TimelineEvent& event : events_) {
      if (event.kind == EventKind::kTask) end = event.end;
    }
    return end;
  }
  // Returns the time at which the next task would begin if it used no data.
  double Position() const {
    double time = std::max(HostTime(), TaskEnd());
    for (const Wait& wait : device_waits_) time = std::max(time, wait.until);
    return time;
  }
  double OutTail() const {
    return options_.link().full_duplex ? TailOf(outs_) : std::max(TailOf(outs_), TailOf(ins_));
  }
  double InTail() const {
    return options_.link().full_duplex ? TailOf(ins_) : std::max(TailOf(outs_), TailOf(ins_));
  }
  // Returns the end of the last task that used (wrote or updated) data.
  double LastUse(std::size_t data, bool changes) const {
    double end = 0;
    for (const TimelineEvent& event : events_) {
      if (event.kind != EventKind::kTask) continue;
      const GraphTask& task = graph_.tasks[event.index];
      if (Holds(task.writes, data) || Holds(task.updates, data) ||
          (!changes && Holds(task.reads, data))) {
        end = event.end;
      }
    }
    return end;
  }
  std::int64_t Aligned(std::int64_t bytes) const {
    return (bytes + options_.placing.alignment - 1) / options_.placing.alignment *
           options_.placing.alignment;
  }

  bool Do(const ScheduleStep& step) {
    bool is_served = true;
    bool is_kept = true;
    const std::size_t data = step.index;
    if (step.kind == StepKind::kAllocate) {
      is_served = Place(data, step.hint);
      allocations_.push_back({.data = data, .end = Position()});
    } else if (step.kind == StepKind::kFree) {
      Free(data);
    } else if (step.kind == StepKind::kRun) {
      is_served = RunTask(step);
    } else if (step.kind == StepKind::kOffload) {
      is_kept = Offload(data, step.density);
    } else if (step.kind == StepKind::kAwait) {
      if (places_[data] == "leaving") Await(data);
    } else if (step.kind == StepKind::kPrefetch) {
      is_served = Prefetch(data, step.hint);
    } else {
      Synchronize();
    }
    if (is_kept) resolved_.push_back(step);
    return is_served;
  }

  std::optional<std::int64_t> Room(std::int64_t bytes, Hint hint) {
    while (options_.placing.releases_early && !leaving_.empty() &&
           EndOfLast(outs_, leaving_.front()) <= Position()) {
      AwaitAndSay(leaving_.front());
    }
    for (;;) {
      const std::int64_t offset = arena_.Allocate(bytes, hint);
      if (offset >= 0) {
        placed_.push_back(offset);
        pool_bytes_ = std::max(pool_bytes_, offset + Aligned(bytes));
        return offset;
      }
      if (leaving_.empty()) return std::nullopt;
      AwaitAndSay(leaving_.front());
    }
  }

  void AwaitAndSay(std::size_t data) {
    resolved_.push_back({.kind = StepKind::kAwait, .index = data});
    Await(data);
  }

  void Await(std::size_t data) {
    const double end = EndOfLast(outs_, data);
    host_waits_.push_back({end, Reason::kMemory, data});
    places_[data] = "out";
    std::erase(leaving_, data);
    EndOnDevice(data, std::max(end, LastUse(data, false)));
  }

  void EndOnDevice(std::size_t data, double time) {
    arena_.Free(offsets_[data]);
    for (Span& span : device_) {
      if (span.data == data && span.end == kForever) span.end = time;
    }
  }
  void EndOnHost(std::size_t data, double time) {
    if (graph_.data[data].after == DataHome::kHost) return;  // its home keeps its room
    for (Span& span : host_) {
      if (span.data == data && span.end == kForever) span.end = time;
    }
  }

  bool Place(std::size_t data, Hint hint) {
    const std::int64_t bytes = graph_.data[data].bytes;
    const std::optional<std::int64_t> offset = Room(bytes, hint);
    if (!offset) return false;
    offsets_[data] = *offset;
    places_[data] = "device";
    device_.push_back(
        {.data = data, .bytes = Aligned(bytes), .start = Position(), .offset = *offset});
    return true;
  }

  void Free(std::size_t data) {
    const bool is_on_host = places_[data] == "leaving" || places_[data] == "out";
    if (places_[data] != "out") {
      const double copied = std::max(EndOfLast(outs_, data), EndOfLast(ins_, data));
      device_waits_.push_back({copied, Reason::kMemory, data});
      EndOnDevice(data, Position());
    }
    if (is_on_host) EndOnHost(data, Position());
    places_[data] = "freed";
    std::erase(leaving_, data);
  }

  bool RunTask(const ScheduleStep& step) {
    const GraphTask& task = graph_.tasks[step.index];
    const TaskAlgorithm& algorithm = task.algorithms[step.algorithm];
    std::optional<std::int64_t> workspace;
    if (algorithm.workspace_bytes > 0) {
      workspace = Room(algorithm.workspace_bytes, Hint::kResident);
      if (!workspace) return false;
    }
    const double before = TaskEnd();
    std::vector<Wait> waits = device_waits_;
    waits.insert(waits.end(), host_waits_.begin(), host_waits_.end());
    for (const auto* uses : {&task.reads, &task.updates}) {
      for (const std::size_t data : *uses) {
        waits.push_back({EndOfLast(ins_, data), Reason::kData, data});
      }
    }
    double start = before;
    for (const Wait& wait : waits) start = std::max(start, wait.until);
    if (start > before) {
      const auto last = std::find_if(waits.begin(), waits.end(),
                                     [&](const Wait& wait) { return wait.until == start; });
      stalls_.push_back({step.index, before, start - before, last->reason, last->data});
    }
    const double end = start + algorithm.seconds;
    if (workspace) {
      arena_.Free(*workspace);
      device_.push_back({.data = graph_.data.size(),
                         .bytes = Aligned(algorithm.workspace_bytes),
                         .start = start,
                         .end = end,
                         .offset = *workspace});
    }
    events_.push_back({EventKind::kTask, step.index, at_, start, end});
    device_waits_.clear();
    return true;
  }

  double CopySeconds(std::size_t data, double density, bool is_out) const {
    const std::int64_t bytes = graph_.data[data].bytes;
    const double link =
        is_out ? options_.link().out_bytes_per_second : options_.link().in_bytes_per_second;
    if (density == -1) {
      return options_.link().latency_seconds + static_cast<double>(bytes) / link;
    }
    const CompressionProfile& profile = options_.placing.compression;
    const int threads = options_.placing.compression_threads > 0
                            ? options_.placing.compression_threads
                            : profile.threads;
    return options_.link().latency_seconds +
           TransferSeconds(profile, bytes, ZeroValueWord::k32Bits, density,
                           is_out ? TransferDirection::kOffload : TransferDirection::kPrefetch,
                           link, threads);
  }

  bool Offload(std::size_t data, double density) {
    double start = std::max({OutTail(), HostTime(), LastUse(data, true), EndOfLast(ins_, data),
                             EndOfLast(outs_, data), EndOfLast(allocations_, data)});
    const std::int64_t bytes = graph_.data[data].bytes;
    const std::int64_t taken =
        graph_.data[data].after == DataHome::kHost ? 0
        : density == -1
            ? bytes
            : CompressedBytes(options_.placing.compression, bytes, ZeroValueWord::k32Bits, density);
    std::int64_t kept = 0;
    for (const Span& span : host_) kept += span.end > start ? span.bytes : 0;
    if (taken > options_.host_memory() || kept > options_.host_memory() - taken) {
      ++stayed_;
      return false;
    }
    const double end = start + CopySeconds(data, density, true);
    host_.push_back({.data = data, .bytes = taken, .start = start});
    outs_.push_back({data, bytes, start, end, density});
    events_.push_back({EventKind::kOffload, data, at_, start, end});
    places_[data] = "leaving";
    leaving_.push_back(data);
    return true;
  }

  bool Prefetch(std::size_t data, Hint hint) {
    if (places_[data] == "leaving") {
      places_[data] = "device";
      std::erase(leaving_, data);
      EndOnHost(data, EndOfLast(outs_, data));
    }
    if (places_[data] == "device") return true;
    if (!Place(data, hint)) return false;
    const double start = std::max(InTail(), Position());
    const Span* sent = LastOf(outs_, data);
    const double end = start + CopySeconds(data, sent == nullptr ? -1 : sent->density, false);
    ins_.push_back({data, graph_.data[data].bytes, start, end});
    events_.push_back({EventKind::kPrefetch, data, at_, start, end});
    EndOnHost(data, end);
    return true;
  }

  // Returns the copy that finishes last; among equals an offload, and the first one.
  Wait LastCopy() const {
    Wait last{.reason = Reason::kSynchronize};
    const auto look = [&](EventKind kind) {
      for (const TimelineEvent& event : events_) {
        const bool counts =
            options_.link().full_duplex ? event.kind == kind : event.kind != EventKind::kTask;
        if (counts && event.end > last.until) last = {event.end, last.reason, event.index};
      }
    };
    look(EventKind::kOffload);
    look(EventKind::kPrefetch);
    return last;
  }

  void Synchronize() {
    const std::vector<std::size_t> leaving = leaving_;
    const Wait last = LastCopy();
    const double position = Position();
    if (last.until > position) host_waits_.push_back(last);
    host_waits_.push_back({position, Reason::kSynchronize, 0});
    for (const std::size_t data : leaving) Await(data);
  }

  const TaskGraph& graph_;
  const std::vector<ScheduleStep>& steps_;
  const PoolMachine& options_;
  SlowArena arena_;
  std::vector<std::string> places_;  // by data
  std::vector<std::int64_t> offsets_;
  std::vector<std::size_t> leaving_;
  std::vector<TimelineEvent> events_;
  std::vector<TimelineStall> stalls_;
  std::vector<ScheduleStep> resolved_;
  std::vector<Wait> host_waits_;
  std::vector<Wait> device_waits_;  // since the last task
  std::vector<Span> outs_;
  std::vector<Span> ins_;
  std::vector<Span> allocations_;
  std::vector<Span> device_;
  std::vector<Span> host_;
  std::vector<std::int64_t> placed_;
  std::int64_t stayed_ = 0;
  std::int64_t pool_bytes_ = 0;
  std::size_t at_ = 0;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SIMULATE_SLOW_TIMELINE_H_

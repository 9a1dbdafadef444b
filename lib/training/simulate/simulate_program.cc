// SPDX-License-Identifier: Apache-2.0
// Makes a timeline from the times of a program.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/training/simulate/program_stalls.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

// Sorts `items`, which consist of sorted runs, as the events of each stream are; run i ends at
// `ends[i]`. Equal items stay in order. O(items log runs).
template <typename Item, typename Less>
void MergeRuns(std::vector<Item>& items, std::vector<std::size_t> ends, const Less& less) {
  std::vector<Item> merged(ends.size() > 1 ? items.size() : 0);
  while (ends.size() > 1) {
    std::vector<std::size_t> merged_ends;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const std::size_t end = ends[std::min(i + 1, ends.size() - 1)];
      const auto at = [&](std::size_t position) {
        return items.begin() + static_cast<std::ptrdiff_t>(position);
      };
      std::merge(at(begin), at(ends[i]), at(ends[i]), at(end),
                 merged.begin() + static_cast<std::ptrdiff_t>(begin), less);
      merged_ends.push_back(end);
      begin = end;
    }
    items.swap(merged);
    ends = std::move(merged_ends);
  }
}

// Returns the points where bytes over time change, from changes in ascending order of times. Times
// ascend and differ, and so do bytes of neighbouring points. O(n).
std::vector<MemoryPoint> SumOfChanges(const std::vector<MemoryPoint>& changes) {
  std::vector<MemoryPoint> points;
  points.reserve(changes.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < changes.size();) {
    const double seconds = changes[i].seconds;
    const std::int64_t before = bytes;
    for (; i < changes.size() && changes[i].seconds == seconds; ++i) bytes += changes[i].bytes;
    if (bytes != before) points.push_back({seconds, bytes});
  }
  return points;
}

std::int64_t PeakOf(const std::vector<MemoryPoint>& points) {
  std::int64_t peak = 0;
  for (const MemoryPoint& point : points) peak = std::max(peak, point.bytes);
  return peak;
}

// By ProgramOperation::Kind.
constexpr TimelineEvent::Kind kEventKinds[] = {
    TimelineEvent::Kind::kTask, TimelineEvent::Kind::kOffload, TimelineEvent::Kind::kPrefetch,
    TimelineEvent::Kind::kReceive, TimelineEvent::Kind::kAdd};

// Changes of memory at the start and at the end of each operation.
struct MemoryChanges {
  explicit MemoryChanges(std::size_t operations) : at_start(operations), at_end(operations) {}

  std::vector<std::int64_t> at_start;
  std::vector<std::int64_t> at_end;
};

class ProgramTimeline {
 public:
  ProgramTimeline(const TaskGraph& graph, const Program& program)
      : graph_(graph),
        program_(program),
        times_(TimeProgram(program)),
        by_stream_(OperationsByStream()) {}

  Timeline Make() {
    AddTotals();
    AddEvents();
    timeline_.stalls = simulate::ProgramStalls(graph_, program_, times_);
    AddMemory();
    return std::move(timeline_);
  }

 private:
  using OperationKind = ProgramOperation::Kind;

  std::vector<std::vector<std::uint32_t>> OperationsByStream() const {
    std::vector<std::uint32_t> counts(program_.streams.size());
    for (const ProgramOperation& operation : program_.operations) ++counts[operation.stream];
    std::vector<std::vector<std::uint32_t>> by_stream(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) by_stream[i].reserve(counts[i]);
    for (std::uint32_t i = 0; i < program_.operations.size(); ++i) {
      by_stream[program_.operations[i].stream].push_back(i);
    }
    return by_stream;
  }

  bool IsOnDevice(const ProgramOperation& operation) const {
    return program_.streams[operation.stream].kind == ProgramStream::Kind::kCompute;
  }

  void AddTotals() {
    for (const ProgramOperation& operation : program_.operations) {
      if (operation.kind == OperationKind::kOffload) {
        timeline_.bytes_out += operation.end - operation.begin;
      } else if (operation.kind == OperationKind::kPrefetch) {
        timeline_.bytes_in += operation.end - operation.begin;
      } else if (operation.kind != OperationKind::kTask) {
        timeline_.bytes_received += operation.end - operation.begin;
      } else if (IsOnDevice(operation)) {
        timeline_.compute_seconds += operation.seconds;
      }
    }
    const std::size_t last = program_.iterations.back();
    const double before = LatestEnd(0, last);
    timeline_.seconds = std::max(before, LatestEnd(last, times_.size()));
    if (last > 0) timeline_.steady_seconds = timeline_.seconds - before;
  }

  double LatestEnd(std::size_t first, std::size_t end) const {
    double latest = 0;
    for (std::size_t i = first; i < end; ++i) latest = std::max(latest, times_[i].end);
    return latest;
  }

  void AddEvents() {
    std::vector<std::uint32_t> order;
    std::vector<std::size_t> ends;
    order.reserve(times_.size());
    for (const std::vector<std::uint32_t>& operations : by_stream_) {
      order.insert(order.end(), operations.begin(), operations.end());
      ends.push_back(order.size());
    }
    MergeRuns(order, std::move(ends), [this](std::uint32_t a, std::uint32_t b) {
      return times_[a].start < times_[b].start || (times_[a].start == times_[b].start && a < b);
    });
    timeline_.events.reserve(order.size());
    for (const std::uint32_t index : order) AddEvent(index);
  }

  void AddEvent(std::uint32_t index) {
    const ProgramOperation& operation = program_.operations[index];
    const ProgramStream& stream = program_.streams[operation.stream];
    timeline_.events.push_back({kEventKinds[static_cast<std::size_t>(operation.kind)],
                                operation.index, operation.step, times_[index].start,
                                times_[index].end, stream.device, stream.number,
                                operation.repetition});
  }

  void AddMemory() {
    const std::size_t devices = program_.pool_bytes.size();
    MemoryChanges on_devices(times_.size());
    MemoryChanges on_host(times_.size());
    std::vector<std::int64_t> from_start(devices + 1);
    for (const ProgramMemory& span : program_.spans) {
      const bool is_host = span.device == kHostDevice;
      MemoryChanges& changes = is_host ? on_host : on_devices;
      if (span.first == ProgramMemory::kFromTheStart) {
        from_start[is_host ? devices : span.device] += span.bytes;
      } else {
        changes.at_start[span.first] += span.bytes;
      }
      if (span.ends > 0) changes.at_end[LastEnd(span)] -= span.bytes;
    }
    for (std::size_t device = 0; device < devices; ++device) {
      AddDevice(device, CurveOf(on_devices, from_start[device], device));
    }
    timeline_.host_memory = CurveOf(on_host, from_start[devices], kHostDevice);
    timeline_.peak_host_bytes = PeakOf(timeline_.host_memory);
  }

  void AddDevice(std::size_t device, std::vector<MemoryPoint> curve) {
    DeviceTimeline own = {std::move(curve), 0, program_.pool_bytes[device]};
    own.peak_bytes = PeakOf(own.memory);
    if (program_.memory == ScheduleMemory::kPaged) own.pool_bytes = own.peak_bytes;
    if (device > 0) {
      timeline_.further_devices.push_back(std::move(own));
      return;
    }
    timeline_.device_memory = std::move(own.memory);
    timeline_.peak_device_bytes = own.peak_bytes;
    timeline_.pool_bytes = own.pool_bytes;
  }

  // Returns the last of the operations that end the use of memory.
  std::uint32_t LastEnd(const ProgramMemory& span) const {
    std::uint32_t last = program_.memory_ends[span.first_end];
    for (std::uint32_t i = 1; i < span.ends; ++i) {
      const std::uint32_t other = program_.memory_ends[span.first_end + i];
      if (times_[other].end > times_[last].end) last = other;
    }
    return last;
  }

  // Returns the curve of a device, or of the host, which operations of all streams change.
  std::vector<MemoryPoint> CurveOf(const MemoryChanges& changes, std::int64_t from_start,
                                   std::size_t device) const {
    std::vector<MemoryPoint> points;
    if (from_start != 0) points.push_back({0, from_start});
    std::vector<std::size_t> ends = {points.size()};
    for (std::size_t i = 0; i < by_stream_.size(); ++i) {
      if (device != kHostDevice && program_.streams[i].device != device) continue;
      for (const std::uint32_t operation : by_stream_[i]) {
        const OperationTimes& times = times_[operation];
        if (changes.at_start[operation] != 0) {
          points.push_back({times.start, changes.at_start[operation]});
        }
        if (changes.at_end[operation] != 0) {
          points.push_back({times.end, changes.at_end[operation]});
        }
      }
      ends.push_back(points.size());
    }
    MergeRuns(points, std::move(ends),
              [](const MemoryPoint& a, const MemoryPoint& b) { return a.seconds < b.seconds; });
    return SumOfChanges(points);
  }

  const TaskGraph& graph_;
  const Program& program_;
  std::vector<OperationTimes> times_;
  std::vector<std::vector<std::uint32_t>> by_stream_;
  Timeline timeline_;
};

}  // namespace

Timeline SimulateProgram(const TaskGraph& graph, const Program& program) {
  return ProgramTimeline(graph, program).Make();
}

}  // namespace tidepool

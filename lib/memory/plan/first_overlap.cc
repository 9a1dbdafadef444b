// SPDX-License-Identifier: Apache-2.0
// Sweeps over time. With one stream it keeps the live buffers in the order of addresses; with
// several, for each range of addresses, the frees that some stream may not know. It includes no
// code of the planner, and must not.
#include "lib/memory/plan/first_overlap.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tidepool::plan {
namespace {

constexpr std::size_t kNoBuffer = SIZE_MAX;

enum class Kind : std::uint8_t { kEnd, kWait, kBegin };  // the order at equal times

struct Event {
  std::int64_t time;
  Kind kind;
  std::size_t index;  // of a buffer or a wait

  bool operator<(const Event& other) const {
    return std::tie(time, kind, index) < std::tie(other.time, other.kind, other.index);
  }
};

std::vector<Event> EventsInOrder(const PlanProblem& problem) {
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size() + problem.waits.size());
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    events.push_back({problem.buffers[i].lower, Kind::kBegin, i});
    events.push_back({problem.buffers[i].upper, Kind::kEnd, i});
  }
  for (std::size_t i = 0; i < problem.waits.size(); ++i) {
    events.push_back({problem.waits[i].time, Kind::kWait, i});
  }
  std::sort(events.begin(), events.end());
  return events;
}

// The time up to which each stream knows the frees of each other one.
class Clocks {
 public:
  explicit Clocks(const PlanProblem& problem) {
    for (const PlanBuffer& buffer : problem.buffers) Include(buffer.stream, buffer.free_stream);
    for (const PlanWait& wait : problem.waits) Include(wait.stream, wait.awaited);
    times_.assign(streams_ * streams_, INT64_MIN);
  }

  void Add(const PlanWait& wait) {
    for (std::size_t other = 0; other < streams_; ++other) {
      const std::int64_t awaited =
          other == wait.awaited ? wait.time : times_[wait.awaited * streams_ + other];
      std::int64_t& time = times_[wait.stream * streams_ + other];
      time = std::max(time, awaited);
    }
  }

  bool Knows(std::uint32_t stream, std::uint32_t other, std::int64_t time) const {
    return stream == other || times_[stream * streams_ + other] >= time;
  }

 private:
  void Include(std::uint32_t a, std::uint32_t b) {
    streams_ = std::max(streams_, std::size_t{std::max(a, b)} + 1);
  }

  std::size_t streams_ = 0;
  std::vector<std::int64_t> times_;
};

struct Freed {
  std::uint32_t stream;
  std::int64_t time;
  std::size_t buffer;
};

// A range of addresses with one history.
struct Range {
  std::int64_t end;
  std::size_t live = kNoBuffer;
  std::vector<Freed> freed = {};  // the last free of each stream, while some stream may not know it
};

class Sweep {
 public:
  Sweep(const PlanProblem& problem, const std::vector<std::int64_t>& offsets)
      : problem_(problem), offsets_(offsets), clocks_(problem) {}

  std::optional<PlanOverlap> Run() {
    for (const Event& event : EventsInOrder(problem_)) {
      if (event.kind == Kind::kWait) clocks_.Add(problem_.waits[event.index]);
      if (event.kind == Kind::kEnd) End(event.index);
      if (event.kind != Kind::kBegin) continue;
      if (const std::size_t other = Begin(event.index); other != kNoBuffer) {
        const auto [a, b] = std::minmax(event.index, other);
        return PlanOverlap{a, b, event.time};
      }
    }
    return std::nullopt;
  }

 private:
  using Ranges = std::map<std::int64_t, Range>;  // by their begins

  // Returns a buffer in the way, or kNoBuffer.
  std::size_t Begin(std::size_t index) {
    const PlanBuffer& buffer = problem_.buffers[index];
    const std::int64_t begin = offsets_[index];
    const std::int64_t end = begin + buffer.bytes;
    SplitAt(begin);
    SplitAt(end);
    const auto from = ranges_.lower_bound(begin);
    const auto to = ranges_.lower_bound(end);
    for (auto range = from; range != to; ++range) {
      if (const std::size_t other = InTheWay(range->second, buffer.stream); other != kNoBuffer) {
        return other;
      }
    }
    if (buffer.free_stream == buffer.stream) {
      // Streams that will know of this buffer's free know all that its stream knows now.
      ranges_.erase(from, to);
    }
    Cover(begin, end, index);
    return kNoBuffer;
  }

  std::size_t InTheWay(const Range& range, std::uint32_t stream) const {
    if (range.live != kNoBuffer) return range.live;
    for (const Freed& freed : range.freed) {
      if (!clocks_.Knows(stream, freed.stream, freed.time)) return freed.buffer;
    }
    return kNoBuffer;
  }

  // Makes a buffer live in all of [begin, end), at which ranges begin and end.
  void Cover(std::int64_t begin, std::int64_t end, std::size_t index) {
    for (auto range = ranges_.lower_bound(begin); begin < end; begin = range->second.end, ++range) {
      if (range == ranges_.end() || range->first > begin) {
        const std::int64_t until = range == ranges_.end() ? end : std::min(end, range->first);
        range = ranges_.emplace_hint(range, begin, Range{until});
      }
      range->second.live = index;
    }
  }

  void End(std::size_t index) {
    const PlanBuffer& buffer = problem_.buffers[index];
    const std::int64_t begin = offsets_[index];
    const auto to = ranges_.lower_bound(begin + buffer.bytes);
    for (auto range = ranges_.lower_bound(begin); range != to; ++range) {
      range->second.live = kNoBuffer;
      AddFreed(range->second.freed, {buffer.free_stream, buffer.upper, index});
    }
  }

  static void AddFreed(std::vector<Freed>& all, const Freed& added) {
    const auto same = std::find_if(
        all.begin(), all.end(), [&](const Freed& freed) { return freed.stream == added.stream; });
    if (same == all.end()) {
      all.push_back(added);
    } else {
      *same = added;
    }
  }

  void SplitAt(std::int64_t offset) {
    const auto after = ranges_.upper_bound(offset);
    if (after == ranges_.begin()) return;
    const auto range = std::prev(after);
    if (range->first == offset || range->second.end <= offset) return;
    Range rest = range->second;
    range->second.end = offset;
    ranges_.emplace_hint(after, offset, std::move(rest));
  }

  const PlanProblem& problem_;
  const std::vector<std::int64_t>& offsets_;
  Clocks clocks_;
  Ranges ranges_;
};

// Returns the first overlap of buffers of several streams. O((n + waits streams) log n) where
// buffers are freed on the stream that allocated them; otherwise a buffer may meet many freed ones.
std::optional<PlanOverlap> FirstOverlapOfStreams(const PlanProblem& problem,
                                                 const std::vector<std::int64_t>& offsets) {
  return Sweep(problem, offsets).Run();
}

struct BufferChange {
  std::int64_t time;
  bool begins;  // ends come first at the same time
  std::size_t buffer;

  bool operator<(const BufferChange& other) const {
    if (time != other.time) return time < other.time;
    return begins < other.begins;
  }
};

std::vector<BufferChange> ChangesInOrder(const std::vector<PlanBuffer>& buffers) {
  std::vector<BufferChange> changes;
  changes.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    changes.push_back({buffers[i].lower, true, i});
    changes.push_back({buffers[i].upper, false, i});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

bool HasDifferentStreams(const std::vector<PlanBuffer>& buffers) {
  return std::any_of(buffers.begin(), buffers.end(), [&](const PlanBuffer& buffer) {
    return buffer.stream != buffers.front().stream || buffer.free_stream != buffer.stream;
  });
}

}  // namespace

std::optional<PlanOverlap> FirstOverlap(const PlanProblem& problem,
                                        const std::vector<std::int64_t>& offsets) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (HasDifferentStreams(buffers)) return FirstOverlapOfStreams(problem, offsets);
  std::map<std::int64_t, std::size_t> live;  // by offset
  for (const BufferChange& change : ChangesInOrder(buffers)) {
    const auto overlap = [&](std::size_t other) {
      const auto [a, b] = std::minmax(change.buffer, other);
      return PlanOverlap{a, b, change.time};
    };
    const std::int64_t offset = offsets[change.buffer];
    if (!change.begins) {
      live.erase(offset);
      continue;
    }
    const auto above = live.lower_bound(offset);
    if (above != live.end() && above->first < offset + buffers[change.buffer].bytes) {
      return overlap(above->second);
    }
    if (above != live.begin()) {
      const auto below = std::prev(above);
      if (below->first + buffers[below->second].bytes > offset) return overlap(below->second);
    }
    live.emplace_hint(above, offset, change.buffer);
  }
  return std::nullopt;
}

}  // namespace tidepool::plan

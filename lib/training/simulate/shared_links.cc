// SPDX-License-Identifier: Apache-2.0
#include "lib/training/simulate/shared_links.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace tidepool::simulate {
namespace {

// A channel that divides its rate equally among the copies in progress. Not thread-safe.
//
// Each copy brings its work: the seconds that it takes alone. The channel counts the work that each
// copy has done since the channel was last empty ("virtual time" of fair queueing: Parekh and
// Gallager, IEEE/ACM Transactions on Networking 1, 1993). A copy that joins at a count of v with
// work w ends at v + w, however many others join or leave. So an event takes O(log copies).
class FluidChannel {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Returns the time at which the next copy ends; kNever without copies.
  double NextEnd() const {
    if (copies_.empty()) return kNever;
    const double left = copies_.top().first - done_;
    return now_ + left * static_cast<double>(copies_.size());
  }

  // Begins a copy; `now` is not after NextEnd().
  void Join(double now, double work, std::uint32_t operation) {
    if (copies_.empty()) {
      done_ = 0;
    } else {
      done_ += (now - now_) / static_cast<double>(copies_.size());
    }
    now_ = now;
    copies_.emplace(done_ + work, operation);
  }

  // Ends the copies that end at NextEnd() and calls `visit` with the operation of each.
  template <typename Visit>
  void EndNext(const Visit& visit) {
    now_ = NextEnd();
    done_ = copies_.top().first;
    while (!copies_.empty() && copies_.top().first == done_) {
      const std::uint32_t operation = copies_.top().second;
      copies_.pop();
      visit(operation);
    }
  }

 private:
  using Copy = std::pair<double, std::uint32_t>;  // the count at its end, and its operation

  double now_ = 0;
  double done_ = 0;
  std::priority_queue<Copy, std::vector<Copy>, std::greater<>> copies_;
};

constexpr std::uint32_t kNoOperation = UINT32_MAX;

// The number of operations that each operation still waits for, and those that wait for it.
class Dependencies {
 public:
  explicit Dependencies(const Program& program)
      : missing_(program.operations.size()),
        first_(program.operations.size() + 1),
        next_in_stream_(program.operations.size(), kNoOperation) {
    for (const ProgramWait& wait : program.waits) ++first_[wait.operation + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    waiting_.resize(program.waits.size());
    std::vector<std::uint32_t> filled(first_.begin(), first_.end() - 1);
    std::vector<std::uint32_t> tails(program.streams.size(), kNoOperation);
    for (std::uint32_t i = 0; i < missing_.size(); ++i) {
      const ProgramOperation& operation = program.operations[i];
      missing_[i] = operation.waits;
      for (std::uint32_t wait = 0; wait < operation.waits; ++wait) {
        waiting_[filled[program.waits[operation.first_wait + wait].operation]++] = i;
      }
      std::uint32_t& tail = tails[operation.stream];
      if (tail != kNoOperation) {
        next_in_stream_[tail] = i;
        ++missing_[i];
      }
      tail = i;
    }
  }

  bool IsReady(std::uint32_t operation) const { return missing_[operation] == 0; }

  // Calls `visit` for each operation that the end of this one makes ready.
  template <typename Visit>
  void End(std::uint32_t operation, const Visit& visit) {
    const std::uint32_t next = next_in_stream_[operation];
    if (next != kNoOperation && --missing_[next] == 0) visit(next);
    for (std::uint32_t i = first_[operation]; i < first_[operation + 1]; ++i) {
      if (--missing_[waiting_[i]] == 0) visit(waiting_[i]);
    }
  }

 private:
  std::vector<std::uint32_t> missing_;
  std::vector<std::uint32_t> first_;  // of waiting_, by operation
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> next_in_stream_;
};

class SharedLinks {
 public:
  explicit SharedLinks(const Program& program)
      : program_(program),
        times_(program.operations.size()),
        dependencies_(program),
        fluid_(program.channels.size()),
        queues_(program.channels.size()) {}

  std::vector<OperationTimes> Run() {
    for (std::uint32_t i = 0; i < times_.size(); ++i) {
      if (dependencies_.IsReady(i)) Begin(i);
    }
    BeginFirstComers();
    while (true) {
      const double next = NextTime();
      if (next == FluidChannel::kNever) return std::move(times_);
      now_ = next;
      DoEventsOfNow();
      BeginFirstComers();
    }
  }

 private:
  using Reached = std::pair<double, std::uint32_t>;  // a time and an operation
  template <typename T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

  // A channel on which the copy that came first has the whole link.
  struct Queue {
    Earliest<Reached> waiting;  // by the time at which each could begin
    bool is_busy = false;
  };

  const ProgramChannel* SharedChannelOf(const ProgramOperation& operation) const {
    if (operation.kind == ProgramOperation::Kind::kTask) return nullptr;
    const ProgramChannel& channel = program_.channels[program_.streams[operation.stream].channel];
    return channel.streams > 1 ? &channel : nullptr;
  }
  std::size_t ChannelOf(std::uint32_t operation) const {
    return program_.streams[program_.operations[operation].stream].channel;
  }

  double NextTime() const {
    double next = ends_.empty() ? FluidChannel::kNever : ends_.top().first;
    if (!joins_.empty()) next = std::min(next, joins_.top().first);
    for (const FluidChannel& channel : fluid_) next = std::min(next, channel.NextEnd());
    return next;
  }

  void DoEventsOfNow() {
    for (FluidChannel& channel : fluid_) {
      while (channel.NextEnd() <= now_) {
        channel.EndNext([this](std::uint32_t operation) { End(operation); });
      }
    }
    while (!ends_.empty() && ends_.top().first <= now_) {
      const std::uint32_t operation = ends_.top().second;
      ends_.pop();
      End(operation);
    }
    while (!joins_.empty() && joins_.top().first <= now_) {
      Join(joins_.top().second);
      joins_.pop();
    }
  }

  // Begins an operation that is ready, or makes it wait for its turn on a channel.
  void Begin(std::uint32_t index) {
    const ProgramOperation& operation = program_.operations[index];
    times_[index].start = now_;
    const ProgramChannel* channel = SharedChannelOf(operation);
    if (channel == nullptr) {
      ends_.emplace(now_ + operation.seconds, index);
    } else if (channel->sharing == LinkSharing::kFirstComeFirstServed) {
      queues_[ChannelOf(index)].waiting.emplace(now_, index);
    } else if (channel->latency_seconds > 0) {
      joins_.emplace(now_ + channel->latency_seconds, index);
    } else {
      Join(index);
    }
  }

  // Begins the part of a copy that divides its channel: the bytes, after the latency.
  void Join(std::uint32_t index) {
    const std::size_t channel = ChannelOf(index);
    const double work =
        program_.operations[index].seconds - program_.channels[channel].latency_seconds;
    fluid_[channel].Join(now_, std::max(work, 0.0), index);
  }

  // Runs after all events of a time, so that all copies that came at that time are there.
  void BeginFirstComers() {
    for (Queue& queue : queues_) {
      if (queue.is_busy || queue.waiting.empty()) continue;
      const std::uint32_t index = queue.waiting.top().second;
      queue.waiting.pop();
      queue.is_busy = true;
      times_[index].start = now_;
      ends_.emplace(now_ + program_.operations[index].seconds, index);
    }
  }

  void End(std::uint32_t index) {
    times_[index].end = now_;
    const ProgramChannel* channel = SharedChannelOf(program_.operations[index]);
    if (channel != nullptr) queues_[ChannelOf(index)].is_busy = false;
    dependencies_.End(index, [this](std::uint32_t ready) { Begin(ready); });
  }

  const Program& program_;
  std::vector<OperationTimes> times_;
  Dependencies dependencies_;
  std::vector<FluidChannel> fluid_;  // by channel, those with equal parts
  std::vector<Queue> queues_;        // by channel, those of first comers
  Earliest<Reached> ends_;           // operations with a known end
  Earliest<Reached> joins_;          // copies at the end of their latency
  double now_ = 0;
};

}  // namespace

std::vector<OperationTimes> TimesOnSharedLinks(const Program& program) {
  return SharedLinks(program).Run();
}

}  // namespace tidepool::simulate

// SPDX-License-Identifier: Apache-2.0
// Follows frees and waits of streams with vector clocks.
#include "lib/plan/reusable_from.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tidepool::plan {
namespace {

constexpr std::size_t kMostStreams = 1024;
constexpr std::int64_t kNothing = -1;

using Kind = MemoryEvent::Kind;

// A vector clock for each stream: the last event of every other stream that it has waited for,
// directly or through a third stream.
class VectorClocks {
 public:
  VectorClocks(const MemoryLog& log, std::vector<std::int64_t>& reusable)
      : streams_(log.streams),
        reusable_(reusable),
        known_(streams_ * streams_, kNothing),
        learned_(streams_ * streams_, 0),
        last_allocation_(streams_, kNothing),
        frees_(streams_) {
    for (std::size_t i = 0; i < log.events.size(); ++i) {
      if (log.events[i].kind == Kind::kAllocate) {
        last_allocation_[log.events[i].stream] = static_cast<std::int64_t>(i);
      }
    }
  }

  void AddFree(const MemoryEvent& event, std::int64_t index) {
    frees_[event.stream].push_back({index, event.index});
  }

  void AddWait(const MemoryEvent& event, std::int64_t index) {
    const std::size_t waiting = event.stream;
    const std::size_t awaited = event.index;
    if (waiting == awaited) return;
    for (std::size_t other = 0; other < streams_; ++other) {
      std::int64_t& known = known_[waiting * streams_ + other];
      known = std::max(known, other == awaited ? index : known_[awaited * streams_ + other]);
      if (other != waiting) LearnFrees(waiting, other, known, index);
    }
  }

  // Without a wait, a free stays unknown to a stream until that stream's last allocation.
  void Finish() {
    for (std::size_t stream = 0; stream < streams_; ++stream) {
      for (std::size_t other = 0; other < streams_; ++other) {
        if (other != stream) LearnFrees(stream, other, INT64_MAX, INT64_MAX);
      }
    }
  }

 private:
  struct FreeEvent {
    std::int64_t event;
    std::uint32_t allocation;
  };

  // Records that, from event `now` on, `stream` knows the frees of `other` up to event `known`.
  void LearnFrees(std::size_t stream, std::size_t other, std::int64_t known, std::int64_t now) {
    std::size_t& learned = learned_[stream * streams_ + other];
    const std::int64_t until = std::min(now, last_allocation_[stream] + 1);
    for (; learned < frees_[other].size() && frees_[other][learned].event <= known; ++learned) {
      std::int64_t& reusable = reusable_[frees_[other][learned].allocation];
      reusable = std::max(reusable, until);
    }
  }

  const std::size_t streams_;
  std::vector<std::int64_t>& reusable_;
  std::vector<std::int64_t> known_;   // by stream and the stream that it knows of
  std::vector<std::size_t> learned_;  // the same: number of known frees
  std::vector<std::int64_t> last_allocation_;
  std::vector<std::vector<FreeEvent>> frees_;  // by stream, in the order of events
};

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> ReusableFrom(const MemoryLog& log) {
  std::vector<std::int64_t> reusable(log.bytes.size(),
                                     static_cast<std::int64_t>(log.events.size()));
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const MemoryEvent& event = log.events[i];
    if (event.kind == Kind::kFree) reusable[event.index] = static_cast<std::int64_t>(i);
  }
  if (log.streams <= 1 || !log.has_all_waits) return reusable;
  if (log.streams > kMostStreams) {
    return absl::ResourceExhaustedError(
        absl::StrCat(log.streams, " streams, expected at most ", kMostStreams, " for a plan"));
  }
  VectorClocks clocks(log, reusable);
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const MemoryEvent& event = log.events[i];
    if (event.kind == Kind::kFree) clocks.AddFree(event, static_cast<std::int64_t>(i));
    if (event.kind == Kind::kWait) clocks.AddWait(event, static_cast<std::int64_t>(i));
  }
  clocks.Finish();
  return reusable;
}

}  // namespace tidepool::plan

// SPDX-License-Identifier: Apache-2.0
// Finds equal episodes of a problem, apart from its background.
#include "lib/memory/plan/twins.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace tidepool::plan {
namespace {

// Computes the difference without overflow, for any times.
std::uint64_t Between(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
}

// Consecutive buffers in the order of time.
struct Episode {
  std::span<const std::uint32_t> buffers;
  std::int64_t begin;
  std::int64_t end;
};

class TwinFinder {
 public:
  explicit TwinFinder(const PlanProblem& problem) : buffers_(problem.buffers) {}

  std::vector<std::uint32_t> Find() {
    std::vector<std::uint32_t> twins(buffers_.size());
    std::iota(twins.begin(), twins.end(), 0U);
    const std::vector<std::uint32_t> foreground = SplitOffBackground();
    // The first episode of each background and content.
    absl::flat_hash_map<std::pair<std::size_t, std::size_t>, Episode> firsts;
    for (const Episode& episode : ToEpisodes(foreground)) {
      const std::size_t background = ChangesUntil(episode.begin);
      if (background != ChangesUntil(episode.end - 1)) continue;
      const Episode& first = firsts.try_emplace({background, Hash(episode)}, episode).first->second;
      if (!AreEqual(episode, first)) continue;
      for (std::size_t i = 0; i < episode.buffers.size(); ++i) {
        twins[episode.buffers[i]] = first.buffers[i];
      }
    }
    return twins;
  }

 private:
  static auto Key(const PlanBuffer& buffer) {
    return std::tuple(buffer.lower, buffer.upper, buffer.bytes, buffer.alignment, buffer.offset);
  }

  // Splits off the background: buffers that live for at least half of the time in which any buffer
  // changes. Keeps the times at which the background changes, and returns the other buffers, sorted
  // by time and content.
  std::vector<std::uint32_t> SplitOffBackground() {
    std::int64_t first_end = INT64_MAX;
    std::int64_t last_begin = INT64_MIN;
    for (const PlanBuffer& buffer : buffers_) {
      first_end = std::min(first_end, buffer.upper);
      last_begin = std::max(last_begin, buffer.lower);
    }
    const std::uint64_t half = last_begin <= first_end ? 0 : Between(first_end, last_begin) / 2;
    std::vector<std::uint32_t> foreground;
    for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
      if (Between(buffers_[i].lower, buffers_[i].upper) <= half) {
        foreground.push_back(i);
      } else {
        changes_.push_back(buffers_[i].lower);
        changes_.push_back(buffers_[i].upper);
      }
    }
    std::sort(changes_.begin(), changes_.end());
    // The foreground is already in the order of numbers.
    std::stable_sort(foreground.begin(), foreground.end(), [&](std::uint32_t a, std::uint32_t b) {
      return Key(buffers_[a]) < Key(buffers_[b]);
    });
    return foreground;
  }

  std::vector<Episode> ToEpisodes(const std::vector<std::uint32_t>& foreground) const {
    std::vector<Episode> episodes;
    for (std::size_t begin = 0; begin < foreground.size();) {
      std::int64_t until = buffers_[foreground[begin]].upper;
      std::size_t end = begin + 1;
      for (; end < foreground.size() && buffers_[foreground[end]].lower < until; ++end) {
        until = std::max(until, buffers_[foreground[end]].upper);
      }
      episodes.push_back({std::span(foreground).subspan(begin, end - begin),
                          buffers_[foreground[begin]].lower, until});
      begin = end;
    }
    return episodes;
  }

  // Returns how often the background has changed up to `time`: equal numbers mean equal
  // backgrounds.
  std::size_t ChangesUntil(std::int64_t time) const {
    return static_cast<std::size_t>(std::upper_bound(changes_.begin(), changes_.end(), time) -
                                    changes_.begin());
  }

  auto Content(const Episode& episode, std::size_t i) const {
    const PlanBuffer& buffer = buffers_[episode.buffers[i]];
    return std::tuple(Between(episode.begin, buffer.lower), Between(episode.begin, buffer.upper),
                      buffer.bytes, buffer.alignment, buffer.offset);
  }

  std::size_t Hash(const Episode& episode) const {
    std::size_t hash = 0;
    for (std::size_t i = 0; i < episode.buffers.size(); ++i) {
      hash = absl::HashOf(hash, Content(episode, i));
    }
    return hash;
  }

  bool AreEqual(const Episode& a, const Episode& b) const {
    if (a.buffers.size() != b.buffers.size()) return false;
    for (std::size_t i = 0; i < a.buffers.size(); ++i) {
      if (Content(a, i) != Content(b, i)) return false;
    }
    return true;
  }

  const std::vector<PlanBuffer>& buffers_;
  std::vector<std::int64_t> changes_;  // of the background, ascending
};

}  // namespace

std::vector<std::uint32_t> FindTwins(const PlanProblem& problem) {
  if (problem.buffers.empty()) return {};
  return TwinFinder(problem).Find();
}

}  // namespace tidepool::plan

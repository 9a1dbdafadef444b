// SPDX-License-Identifier: Apache-2.0
// Free memory of a device, with the operations that end its last use. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_MEMORY_USERS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_MEMORY_USERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "lib/training/schedule/lower/page_ranges.h"
#include "lib/training/schedule/lower/stream_ends.h"
#include "lib/training/schedule/steps/byte_ranges.h"
#include "lib/training/schedule/steps/byte_values.h"

namespace tidepool::schedule {

// Memory with fixed addresses: the free ranges that had users.
class AddressUsers {
 public:
  // Takes [begin, end), and adds the last users of all its bytes. O(log ranges + ranges in it).
  void Take(std::int64_t begin, std::int64_t end, StreamEnds& users) {
    ranges_.Take({begin, end}, [&](const StreamEnds& own) { users.Add(own); });
  }

  // Gives [begin, end) back; it is not among the free ranges.
  void Give(std::int64_t begin, std::int64_t end, const StreamEnds& users) {
    ranges_.Add({begin, end}, users);
  }

 private:
  ByteValues<StreamEnds> ranges_;
};

// Memory in pages: granules in the order in which they were given back. Those that a running task,
// the last one queued on its stream, still uses are apart, so that copies can leave them to the
// last without looking at each.
class PageUsers {
 public:
  // `pages` are the granules, or empty where nothing asks for their places.
  PageUsers(std::int64_t bytes, PageRanges pages) : free_bytes_(bytes) {
    idle_.emplace(0, Granules{bytes, StreamEnds(), std::move(pages)});
  }

  std::int64_t free_bytes() const { return free_bytes_; }

  // Takes the bytes that were given back first, at most free_bytes(), and adds their last users and
  // their pages. With `leaves_running` those of running tasks are taken when there are no others.
  // O(log granules) on average.
  void Take(std::int64_t bytes, bool leaves_running, StreamEnds& users, PageRanges& pages) {
    free_bytes_ -= bytes;
    while (bytes > 0) bytes -= TakeFirst(Next(leaves_running), bytes, users, pages);
  }

  // `is_running(user)` tells whether a user is the last task queued on its stream.
  template <typename IsRunning>
  void Give(std::int64_t bytes, const StreamEnds& users, PageRanges pages,
            const IsRunning& is_running) {
    free_bytes_ += bytes;
    ++given_;
    Queue& queue = AddToStreams(users, is_running) ? running_ : idle_;
    queue.emplace(given_, Granules{bytes, users, std::move(pages)});
  }

  // Finds the granules that no running task uses any longer, after a task was queued on `stream`.
  // O(log granules) on average.
  template <typename IsRunning>
  void FindIdle(std::size_t stream, const IsRunning& is_running) {
    if (stream >= running_of_.size()) return;
    for (const std::uint64_t order : running_of_[stream]) {
      const auto granules = running_.find(order);
      if (granules == running_.end()) continue;
      const StreamEnds& users = granules->second.users;
      if (std::any_of(users.begin(), users.end(), is_running)) continue;
      idle_.emplace(order, std::move(granules->second));
      running_.erase(granules);
    }
    running_of_[stream].clear();
  }

 private:
  struct Granules {
    std::int64_t bytes = 0;
    StreamEnds users;
    PageRanges pages;
  };
  using Queue = absl::btree_map<std::uint64_t, Granules>;  // by the order of their return

  // Adds the granules given back last to the streams that still use them; returns whether any does.
  template <typename IsRunning>
  bool AddToStreams(const StreamEnds& users, const IsRunning& is_running) {
    bool is_any = false;
    for (const StreamEnd& user : users) {
      if (!is_running(user)) continue;
      if (user.stream >= running_of_.size()) running_of_.resize(user.stream + 1);
      running_of_[user.stream].push_back(given_);
      is_any = true;
    }
    return is_any;
  }

  Queue& Next(bool leaves_running) {
    if (idle_.empty()) return running_;
    if (running_.empty() || leaves_running) return idle_;
    return idle_.begin()->first < running_.begin()->first ? idle_ : running_;
  }

  static std::int64_t TakeFirst(Queue& queue, std::int64_t bytes, StreamEnds& users,
                                PageRanges& pages) {
    Granules& first = queue.begin()->second;
    const std::int64_t taken = std::min(bytes, first.bytes);
    users.Add(first.users);
    pages.Add(first.pages.TakeFirst(taken));
    first.bytes -= taken;
    if (first.bytes == 0) queue.erase(queue.begin());
    return taken;
  }

  std::int64_t free_bytes_;
  std::uint64_t given_ = 0;
  Queue idle_;
  Queue running_;
  std::vector<std::vector<std::uint64_t>> running_of_;  // by stream: keys of running_
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_MEMORY_USERS_H_

// SPDX-License-Identifier: Apache-2.0
// Classes of sizes, which give the allocations on a map their colours. charts.js has the same ones.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_SIZE_CLASSES_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_SIZE_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::tool {

// At most seven classes, each from one power of two to another. Starts with a class for each power,
// and joins the neighbours that fill the least of the map until seven are left.
class SizeClasses {
 public:
  static constexpr std::size_t kMost = 7;

  // The bytes, more than 0, and the lifetime of an allocation.
  struct Use {
    std::int64_t bytes;
    std::int64_t events;
  };
  explicit SizeClasses(const std::vector<Use>& uses);

  std::size_t size() const { return first_powers_.size(); }
  std::size_t ClassOf(std::int64_t bytes) const;
  // "1 MiB - 4 MiB", with an en dash.
  std::string Name(std::size_t number) const;

 private:
  std::vector<int> first_powers_;  // ascending
  std::vector<int> end_powers_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_SIZE_CLASSES_H_

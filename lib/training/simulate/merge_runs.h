// SPDX-License-Identifier: Apache-2.0
// Merges sorted runs. Streams run their operations in order, so the events of each are sorted.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_MERGE_RUNS_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_MERGE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tidepool::simulate {

// Sorts `items`, which consist of sorted runs; run i ends at `ends[i]`. Equal items stay in order.
// O(items log runs).
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

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_MERGE_RUNS_H_

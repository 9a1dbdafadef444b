// SPDX-License-Identifier: Apache-2.0
// SortByKey: sorts numbers of absences by counts of operations, in linear time.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_SORT_BY_KEY_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_SORT_BY_KEY_H_

#include <cstddef>
#include <vector>

namespace tidepool::transfers {

// Sorts `numbers` by `key_of(number)`, which is below `keys`. Equal ones stay in their order.
// O(numbers + keys).
template <typename KeyOf>
void SortByKey(std::size_t keys, const KeyOf& key_of, std::vector<std::size_t>& numbers) {
  std::vector<std::size_t> begins(keys + 1);
  for (const std::size_t number : numbers) ++begins[key_of(number) + 1];
  for (std::size_t key = 0; key < keys; ++key) begins[key + 1] += begins[key];
  std::vector<std::size_t> sorted(numbers.size());
  for (const std::size_t number : numbers) sorted[begins[key_of(number)]++] = number;
  numbers.swap(sorted);
}

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_SORT_BY_KEY_H_

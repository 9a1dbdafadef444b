// SPDX-License-Identifier: Apache-2.0
// The data of a task: `for (const std::size_t data : UsesOf(task))`.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_TASK_USES_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_TASK_USES_H_

#include <array>
#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::graph {

// Lists of data, one after the other. The task outlives it.
template <std::size_t kLists>
class DataLists {
  using List = std::vector<std::size_t>;
  using Lists = std::array<const List*, kLists>;

 public:
  explicit DataLists(const Lists& lists) : lists_(lists) {}

  class Iterator {
   public:
    Iterator(const Lists& lists, std::size_t list) : lists_(lists), list_(list) { SkipEmpty(); }

    std::size_t operator*() const { return (*lists_[list_])[at_]; }
    Iterator& operator++() {
      ++at_;
      SkipEmpty();
      return *this;
    }
    bool operator!=(const Iterator& other) const {
      return list_ != other.list_ || at_ != other.at_;
    }

   private:
    void SkipEmpty() {
      for (; list_ < kLists && at_ == lists_[list_]->size(); at_ = 0) ++list_;
    }

    const Lists& lists_;
    std::size_t list_;
    std::size_t at_ = 0;
  };
  Iterator begin() const { return Iterator(lists_, 0); }
  Iterator end() const { return Iterator(lists_, kLists); }

 private:
  Lists lists_;
};

// Return all data of a task, the data that it needs to begin, and the data that it changes.
inline DataLists<3> UsesOf(const GraphTask& task) {
  return DataLists<3>({&task.reads, &task.writes, &task.updates});
}
inline DataLists<2> InputsOf(const GraphTask& task) {
  return DataLists<2>({&task.reads, &task.updates});
}
inline DataLists<2> ChangesOf(const GraphTask& task) {
  return DataLists<2>({&task.writes, &task.updates});
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_TASK_USES_H_

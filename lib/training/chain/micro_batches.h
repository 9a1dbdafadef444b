// SPDX-License-Identifier: Apache-2.0
// The micro-batches of a graph in which gradients add up: each has a chain of its own.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_MICRO_BATCHES_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_MICRO_BATCHES_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/chain.h"
#include "tidepool/training/graph.h"

namespace tidepool::chain {

// Cuts a valid graph before each forward task that comes after another one. It refers to the graph.
class MicroBatches {
 public:
  // O(tasks + data + uses).
  explicit MicroBatches(const TaskGraph& graph);

  std::size_t count() const { return begins_.size() - 1; }
  // Return the first task of a micro-batch, and the one after its last.
  std::size_t begin(std::size_t number) const { return begins_[number]; }
  std::size_t end(std::size_t number) const { return begins_[number + 1]; }
  // Returns the graph of a micro-batch: its tasks, and all data with its numbers. Data that other
  // micro-batches make or need is on the device before it or after it, inputs of later ones too.
  // O(tasks of the micro-batch + data).
  TaskGraph GraphOf(std::size_t number) const;
  // Gives tasks in the chain of that graph the numbers of the whole graph. O(tasks).
  void RenumberTasks(std::size_t number, GraphChain& made) const;

 private:
  // The tasks from the first that may find a datum on the device to the last that may.
  struct Life {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  const TaskGraph& graph_;
  std::vector<std::size_t> begins_;  // by micro-batch: its first task; then the number of tasks
  std::vector<Life> lives_;          // by data
};

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_MICRO_BATCHES_H_

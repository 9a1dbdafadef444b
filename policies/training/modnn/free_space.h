// SPDX-License-Identifier: Apache-2.0
// The prediction of section 5.2.2: whether a later task finds room without defragmentation.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_FREE_SPACE_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_FREE_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/training/modnn/iteration.h"

namespace tidepool::modnn {

// Goes from task to task. All data may leave that was used since it was made or came back (the
// first criterion); and all data that tasks on the way need comes, and is used. So data
// that is on the device, or made on the way, keeps its room until it is used.
class FreeSpace {
 public:
  // Begins before the task after `task`, which runs next.
  FreeSpace(const Iteration& iteration, std::size_t task);

  // Whether the data of the task and its least workspace fit beside data that is not used yet.
  bool Holds(std::size_t task) const;
  // Goes past the task.
  void Pass(std::size_t task);

 private:
  void Add(std::size_t data);
  void Remove(std::size_t data);

  const Iteration& iteration_;
  std::vector<bool> is_unused_;  // by datum
  std::int64_t unused_bytes_ = 0;
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_FREE_SPACE_H_

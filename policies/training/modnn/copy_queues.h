// SPDX-License-Identifier: Apache-2.0
// The estimated times of copies: one queue for both directions, or one for each.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_COPY_QUEUES_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_COPY_QUEUES_H_

#include <algorithm>
#include <cstdint>

#include "tidepool/training/machine.h"

namespace tidepool::modnn {

// A queue's copies run one after the other, in the order in which they were added (Strm_D of the
// paper).
class CopyQueues {
 public:
  CopyQueues(const MachineLink& link, bool has_one_queue)
      : link_(link), has_one_queue_(has_one_queue) {}

  double SecondsOut(std::int64_t bytes) const { return Seconds(bytes, link_.out_bytes_per_second); }
  double SecondsIn(std::int64_t bytes) const { return Seconds(bytes, link_.in_bytes_per_second); }

  // Return the end of the last copy.
  double EndOut() const { return out_; }
  double EndIn() const { return has_one_queue_ ? out_ : in_; }

  // Add a copy that begins at `ready` at the earliest, and return its end.
  double AddOut(std::int64_t bytes, double ready) {
    return out_ = std::max(out_, ready) + SecondsOut(bytes);
  }
  double AddIn(std::int64_t bytes, double ready) {
    double& end = has_one_queue_ ? out_ : in_;
    return end = std::max(end, ready) + SecondsIn(bytes);
  }

 private:
  double Seconds(std::int64_t bytes, double rate) const {
    return link_.latency_seconds + static_cast<double>(bytes) / rate;
  }

  MachineLink link_;
  bool has_one_queue_;
  double out_ = 0;
  double in_ = 0;
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_COPY_QUEUES_H_

// SPDX-License-Identifier: Apache-2.0
// The machine and the options of a run of Algorithm 1.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_SETTINGS_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_SETTINGS_H_

#include <cstdint>

#include "tidepool/training/machine.h"

namespace tidepool::modnn {

struct Settings {
  std::int64_t memory_bytes = 0;
  std::int64_t alignment = 512;  // a power of two
  MachineLink link = {};
  // The choices of the paper where this scheduler knows better ones: one queue of copies, (9) and
  // (10) as printed, copies in that begin after the task before, and no scheme between those that
  // both criteria allow and defragmentation.
  bool as_printed = false;

  bool HasOneQueue() const { return as_printed || !link.full_duplex; }
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_SETTINGS_H_

// SPDX-License-Identifier: Apache-2.0
// The times at which operations of an iteration began and ended, by timed events on streams.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/device/owned.h"
#include "tidepool/device.h"
#include "tidepool/training/executor.h"

namespace tidepool::execute {

// Returns the clock of the options, or else the machine's.
std::function<double()> ClockOf(const ExecutorOptions& options);

// Not thread-safe. Devices outlive it.
class Stamps {
 public:
  // In seconds since the beginning of the iteration.
  struct Times {
    double start = 0;
    double end = 0;
  };

  // Events to record before and after an operation, in its stream.
  struct Marks {
    Event begins;
    Event ends;
  };

  explicit Stamps(std::size_t operations) : operations_(operations) {}

  // Returns the marks of an operation on a device. The first call creates them.
  absl::StatusOr<Marks> Of(std::size_t operation, Device& device);
  // Begins an iteration.
  void Begin();
  // Lets the times of a device count from this point of a stream of it without work. Only the first
  // call in an iteration has an effect, for each device.
  absl::Status Begin(Device& device, Stream stream);
  // Returns the times of an operation that has ended, with recorded marks.
  absl::StatusOr<Times> Read(std::size_t operation) const;

 private:
  struct Operation {
    Device* device = nullptr;
    device::OwnedEvent begins;
    device::OwnedEvent ends;
  };
  struct Origin {
    Device* device = nullptr;
    device::OwnedEvent event = {};
    bool has_begun = false;
  };

  std::vector<Operation> operations_;
  std::vector<Origin> origins_;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_

// SPDX-License-Identifier: Apache-2.0
// The times at which steps of an iteration began and ended, by timed events on streams.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/copies/offloader.h"
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

  Stamps(std::size_t steps, std::function<double()> clock);
  ~Stamps();
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  // Returns the watch of a step on a device. The first call creates its events. `ended` may be
  // called late, after an error.
  absl::StatusOr<CopyWatch> Watch(std::size_t step, Device& device);
  // Begins an iteration. Steps that end on the host count from now.
  void Begin();
  // Lets the times of a device count from this point of a stream of it without work. Only the first
  // call in an iteration has an effect, for each device.
  absl::Status Begin(Device& device, Stream stream);
  // Returns the times of a step after its end. FailedPrecondition if it had no work. A step without
  // work in this iteration may have the times of an earlier one.
  absl::StatusOr<Times> Of(std::size_t step) const;

 private:
  struct Step {
    Device* device = nullptr;
    Event begins;
    Event ends;
  };
  struct Origin {
    Device* device = nullptr;
    Event event = {};
    bool has_begun = false;
  };
  // Written by steps that end on the host.
  struct Ends {
    const std::function<double()> clock;
    double begin = 0;
    std::vector<std::optional<double>> seconds;
  };

  absl::StatusOr<double> SecondsOf(const Device& device, Event event) const;

  const std::shared_ptr<Ends> ends_;
  std::vector<Step> steps_;
  std::vector<Origin> origins_;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_STAMPS_H_

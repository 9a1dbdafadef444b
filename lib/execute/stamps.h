// SPDX-License-Identifier: Apache-2.0
// The times at which steps of an iteration began and ended, as host functions on streams saw them.
#ifndef TIDEPOOL_LIB_EXECUTE_STAMPS_H_
#define TIDEPOOL_LIB_EXECUTE_STAMPS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tidepool/schedule/executor.h"
#include "tidepool/schedule/offloader.h"

namespace tidepool::execute {

// Returns the clock of the options, or else the machine's.
inline std::function<double()> ClockOf(const ExecutorOptions& options) {
  if (options.clock != nullptr) return options.clock;
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

// Each function writes its own stamp, and has finished when the stamp is read. Functions share
// ownership, so a function that runs late (after an error) does not access freed memory.
class Stamps : public std::enable_shared_from_this<Stamps> {
 public:
  struct Stamp {
    std::optional<double> start;
    std::optional<double> end;
  };

  Stamps(std::size_t steps, std::function<double()> clock)
      : clock_(std::move(clock)), stamps_(steps) {}

  double now() const { return clock_(); }
  CopyWatch Watch(std::size_t step) {
    return {[self = shared_from_this(), step] { self->stamps_[step].start = self->clock_(); },
            [self = shared_from_this(), step] { self->stamps_[step].end = self->clock_(); }};
  }
  const Stamp& of(std::size_t step) const { return stamps_[step]; }

 private:
  const std::function<double()> clock_;
  std::vector<Stamp> stamps_;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_EXECUTE_STAMPS_H_

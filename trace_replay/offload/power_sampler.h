// SPDX-License-Identifier: Apache-2.0
// The power that a device takes while iterations run, from samples of a thread.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_POWER_SAMPLER_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_POWER_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace tidepool::tool {

// Returns the watts that the device takes now; nullopt where it cannot tell.
using PowerSource = std::function<std::optional<double>()>;

// Tells when to take samples. Thread-safe.
class SampleTicks {
 public:
  virtual ~SampleTicks() = default;
  // Waits for the next tick. Returns false at once when no sample is wanted any more.
  virtual bool Next() = 0;
  // Ends the ticks, also one that is waited for.
  virtual void End() = 0;
};

// Returns ticks every ten milliseconds: NVML has new values no faster.
std::unique_ptr<SampleTicks> RegularTicks();

struct Power {
  double mean_watts = 0;
  double maximum_watts = 0;
  std::int64_t samples = 0;
};

class PowerSampler {
 public:
  // Takes a sample, and then one at each tick.
  PowerSampler(PowerSource source, std::unique_ptr<SampleTicks> ticks);
  ~PowerSampler();
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;

  // Ends the ticks, and returns the power of all samples; nullopt where the device told none.
  std::optional<Power> Finish();

 private:
  void Sample();

  const PowerSource source_;
  const std::unique_ptr<SampleTicks> ticks_;
  // Used by one thread at a time: the constructor's before, and that of Finish after `thread_`.
  double sum_ = 0;
  double maximum_ = 0;
  std::int64_t samples_ = 0;
  std::thread thread_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_POWER_SAMPLER_H_

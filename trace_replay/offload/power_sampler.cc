// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/power_sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace tidepool::tool {
namespace {

class TimedTicks : public SampleTicks {
 public:
  bool Next() override {
    constexpr std::chrono::milliseconds kPeriod(10);
    std::unique_lock<std::mutex> lock(mutex_);
    return !ended_.wait_for(lock, kPeriod, [this] { return has_ended_; });
  }
  void End() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<SampleTicks> RegularTicks() { return std::make_unique<TimedTicks>(); }

PowerSampler::PowerSampler(PowerSource source, std::unique_ptr<SampleTicks> ticks)
    : source_(std::move(source)), ticks_(std::move(ticks)) {
  Sample();
  thread_ = std::thread([this] {
    while (ticks_->Next()) Sample();
  });
}

PowerSampler::~PowerSampler() { Finish(); }

std::optional<Power> PowerSampler::Finish() {
  if (thread_.joinable()) {
    ticks_->End();
    thread_.join();
  }
  if (samples_ == 0) return std::nullopt;
  return Power{sum_ / static_cast<double>(samples_), maximum_, samples_};
}

void PowerSampler::Sample() {
  const std::optional<double> watts = source_();
  if (!watts.has_value()) return;
  sum_ += *watts;
  maximum_ = std::max(maximum_, *watts);
  ++samples_;
}

}  // namespace tidepool::tool

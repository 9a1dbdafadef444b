// SPDX-License-Identifier: Apache-2.0
// Measures tasks and copies: medians, because a run that the system disturbs takes longer.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/owned.h"
#include "tidepool/training/task_profile.h"

namespace tidepool {
namespace {

// Measures work by an event before and after it.
class Stopwatch {
 public:
  Stopwatch(Device& device, Stream stream) : device_(device), stream_(stream) {
    status_ = begin_.Ensure(device, EventKind::kTimed);
    if (status_.ok()) status_ = end_.Ensure(device, EventKind::kTimed);
  }

  absl::StatusOr<double> SecondsOf(const std::function<absl::Status()>& launch) const {
    absl::Status status = status_;
    if (status.ok()) status = device_.RecordEvent(begin_.get(), stream_);
    if (status.ok()) status = launch();
    if (status.ok()) status = device_.RecordEvent(end_.get(), stream_);
    if (status.ok()) status = device_.SynchronizeStream(stream_);
    if (!status.ok()) return status;
    return device_.SecondsBetween(begin_.get(), end_.get());
  }

 private:
  Device& device_;
  const Stream stream_;
  device::OwnedEvent begin_;
  device::OwnedEvent end_;
  absl::Status status_;
};

double MedianOf(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

// The memory of a measurement of copies, on both sides.
class CopyBuffers {
 public:
  CopyBuffers(Device& device, std::int64_t bytes) : device_(device) {
    status_ = Take(device::OwnedStream::Create(device), stream_);
    if (status_.ok()) status_ = Take(device_.AllocateMemory(bytes), memory_);
    if (status_.ok()) status_ = Take(device_.AllocatePinned(bytes), pinned_);
  }
  ~CopyBuffers() {
    // No work is left: each measured copy was waited for.
    if (pinned_ != nullptr) device_.FreePinned(pinned_).IgnoreError();
    if (memory_ != nullptr) device_.FreeMemory(memory_).IgnoreError();
  }
  CopyBuffers(const CopyBuffers&) = delete;
  CopyBuffers& operator=(const CopyBuffers&) = delete;

  const absl::Status& status() const { return status_; }
  Stream stream() const { return stream_.get(); }
  absl::Status Copy(CopyDirection direction, std::int64_t bytes) {
    const bool is_in = direction == CopyDirection::kToDevice;
    return device_.Copy(is_in ? memory_ : pinned_, is_in ? pinned_ : memory_, bytes, direction,
                        stream_.get());
  }

 private:
  template <typename Made, typename Kept>
  static absl::Status Take(absl::StatusOr<Made> made, Kept& kept) {
    if (made.ok()) kept = *std::move(made);
    return made.status();
  }

  Device& device_;
  device::OwnedStream stream_;
  void* memory_ = nullptr;
  void* pinned_ = nullptr;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<double> MedianSeconds(Device& device, Stream stream, int runs,
                                     const std::function<absl::Status()>& launch) {
  if (runs < 1) {
    return absl::InvalidArgumentError(absl::StrCat(runs, " runs, expected 1 or more"));
  }
  const Stopwatch stopwatch(device, stream);
  std::vector<double> times;
  for (int run = 0; run <= runs; ++run) {
    const absl::StatusOr<double> seconds = stopwatch.SecondsOf(launch);
    if (!seconds.ok()) return seconds.status();
    if (run > 0) times.push_back(*seconds);
  }
  return MedianOf(std::move(times));
}

absl::StatusOr<LinkTime> MeasureLink(Device& device, const LinkMeasurement& measurement) {
  const std::int64_t small = measurement.small_bytes;
  const std::int64_t large = measurement.large_bytes;
  if (small < 1 || large <= small) {
    return absl::InvalidArgumentError(absl::StrCat("copies of ", small, " and ", large,
                                                   " bytes, expected two ascending sizes from 1"));
  }
  CopyBuffers buffers(device, large);
  if (!buffers.status().ok()) return buffers.status();
  const auto median = [&](std::int64_t bytes) {
    return MedianSeconds(device, buffers.stream(), measurement.runs,
                         [&] { return buffers.Copy(measurement.direction, bytes); });
  };
  const absl::StatusOr<double> least = median(small);
  if (!least.ok()) return least.status();
  const absl::StatusOr<double> most = median(large);
  if (!most.ok()) return most.status();
  // A large copy that seems no slower than a small one gives the rate by itself.
  const double more = *most > *least ? *most - *least : std::max(*most, 1e-9);
  const double rate = std::min(static_cast<double>(large - small) / more, kMostLinkBytesPerSecond);
  return LinkTime{std::max(*least - static_cast<double>(small) / rate, 0.0), rate};
}

}  // namespace tidepool

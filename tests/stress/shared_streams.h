// SPDX-License-Identifier: Apache-2.0
// Streams that threads share: each thread may destroy a stream and put another in its place.
#ifndef TIDEPOOL_TESTS_STRESS_SHARED_STREAMS_H_
#define TIDEPOOL_TESTS_STRESS_SHARED_STREAMS_H_

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/stress/device_faults.h"
#include "tests/stress/stress.h"
#include "tidepool/device.h"

namespace tidepool::stress {

// Thread-safe.
class SharedStreams {
 public:
  SharedStreams(Device& device, std::size_t count) : device_(device) {
    for (std::size_t i = 0; i < count; ++i) streams_.push_back(New());
  }

  Stream Any(Dice& dice) {
    const std::lock_guard lock(mutex_);
    return dice.Pick(streams_);
  }
  void ReplaceOne(Dice& dice) {
    Stream stream = New();
    {
      const std::lock_guard lock(mutex_);
      std::swap(stream, streams_[dice.Below(streams_.size())]);
    }
    CheckOk(Again([&] { return device_.DestroyStream(stream); }), "DestroyStream");
  }

 private:
  Stream New() {
    const auto stream = Again([&] { return device_.CreateStream(); });
    CheckOk(stream.status(), "CreateStream");
    return *stream;
  }

  Device& device_;
  std::mutex mutex_;
  std::vector<Stream> streams_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_SHARED_STREAMS_H_

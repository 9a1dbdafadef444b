// SPDX-License-Identifier: Apache-2.0
// Work of a stream that does not end before a test lets it.
#ifndef TIDEPOOL_TESTS_MEMORY_POOL_GATE_H_
#define TIDEPOOL_TESTS_MEMORY_POOL_GATE_H_

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <utility>

#include "tidepool/device.h"

namespace tidepool {

class Gate {
 public:
  Gate() = default;
  // Opens, so that a test that fails does not hang.
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Makes the work that `stream` is given from now on wait for Open.
  void Close(Device& device, Stream stream) {
    EXPECT_TRUE(device.CallHost(stream, [latch = latch_] { latch->wait(); }).ok());
  }
  // Opens the gate for good; does nothing when called again.
  void Open() {
    if (!std::exchange(is_open_, true)) latch_->count_down();
  }

 private:
  std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
  bool is_open_ = false;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_POOL_GATE_H_

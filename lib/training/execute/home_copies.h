// SPDX-License-Identifier: Apache-2.0
// Data of a pool's schedule that begins on the host: its page-locked memory, and its copies to the
// device.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_HOME_COPIES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_HOME_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/device.h"
#include "tidepool/training/graph.h"

namespace tidepool::execute {

// Not thread-safe. Gives everything back at the end; objects that a device refuses to take back are
// lost, because no caller could act on the error.
class HomeCopies {
 public:
  HomeCopies(Device& device, const TaskGraph& graph) : device_(device), graph_(graph) {}
  // No work is queued any more.
  ~HomeCopies();
  HomeCopies(const HomeCopies&) = delete;
  HomeCopies& operator=(const HomeCopies&) = delete;

  // Takes memory and events.
  absl::Status Start();
  // Returns the page-locked memory of data that begins on the host; null for other data.
  void* AddressOf(std::size_t data) const { return homes_[data].address; }
  std::int64_t bytes() const { return bytes_; }

  // Queues a copy of the data to the device on the stream `in`, after the work that is queued on
  // `compute` now.
  absl::Status Fetch(std::size_t data, void* to, Stream compute, Stream in, const CopyWatch& watch);
  // Makes the stream that runs all tasks wait for the copy of the data, or for all copies.
  absl::Status Await(std::size_t data, Stream compute);
  absl::Status AwaitAll(Stream compute);

 private:
  struct Home {
    void* address = nullptr;
    Event arrival;
    bool is_arriving = false;
  };

  Device& device_;
  const TaskGraph& graph_;
  std::vector<Home> homes_;  // by data
  std::int64_t bytes_ = 0;
  void* memory_ = nullptr;
  Event queued_;  // recorded before a copy
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_HOME_COPIES_H_

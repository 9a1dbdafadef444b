// SPDX-License-Identifier: Apache-2.0
// Checks that buffers keep their contents: each gets a pattern of its own, written and read by work
// on streams, as in a program.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/owned.h"
#include "tidepool/device.h"

namespace tidepool::tool {

// A range of a device's memory with a number of its own.
struct Buffer {
  std::uint32_t number = 0;
  char* address = nullptr;
  std::int64_t bytes = 0;
};

// Checks buffers of a device with memory that the host can read and write. Not thread-safe.
class ContentsCheck {
 public:
  struct Damage {
    std::uint32_t number = 0;
    std::int64_t offset = 0;  // of the first wrong byte
  };

  // `streams`: every stream on which buffers are used.
  ContentsCheck(Device& device, std::vector<Stream> streams);
  // Waits for all queued work.
  ~ContentsCheck();
  ContentsCheck(const ContentsCheck&) = delete;
  ContentsCheck& operator=(const ContentsCheck&) = delete;

  // Queues writing all of `buffer` on `stream`.
  absl::Status Write(const Buffer& buffer, Stream stream);
  // Queues reading all of `buffer` on `stream`, after all work that is queued on `written_on` now.
  // Later work on `stream` runs after that work too.
  absl::Status Read(const Buffer& buffer, Stream written_on, Stream stream);
  // Waits for all queued work.
  absl::Status Await();
  // Waits for all queued work. Returns the damaged buffer with the smallest number among the
  // buffers that were read; nothing if all are intact.
  absl::StatusOr<std::optional<Damage>> FindDamage();

 private:
  absl::Status Order(Stream first, Stream second);
  absl::Status Queue(Stream stream, std::function<void()> function);
  void Compare(const Buffer& buffer);

  Device& device_;
  const std::vector<Stream> streams_;
  device::OwnedEvent event_;  // empty until one stream first waits for another
  std::int64_t queued_ = 0;

  locks::Mutex mutex_;
  std::optional<Damage> damage_ ABSL_GUARDED_BY(mutex_);  // written by work on streams
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_

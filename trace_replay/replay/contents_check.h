// Whether buffers keep what was written to them: a pattern that only one buffer has is written and
// read by work queued on streams, as a program would.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::tool {

// A part of a device's memory with a number of its own.
struct Buffer {
  std::uint32_t number = 0;
  char* address = nullptr;
  std::int64_t bytes = 0;
};

// Of a device whose memory the host can read and write. Not thread-safe.
class ContentsCheck {
 public:
  struct Damage {
    std::uint32_t number = 0;
    std::int64_t offset = 0;  // of the first wrong byte
  };

  // `streams` are all that buffers are used on.
  ContentsCheck(Device& device, std::vector<Stream> streams);
  // Waits for what was queued.
  ~ContentsCheck();
  ContentsCheck(const ContentsCheck&) = delete;
  ContentsCheck& operator=(const ContentsCheck&) = delete;

  // Queues writing all of `buffer` on `stream`.
  absl::Status Write(const Buffer& buffer, Stream stream);
  // Queues reading it on `stream`, after what was queued on `written_on` so far: work that is
  // queued on `stream` later comes after the write, too.
  absl::Status Read(const Buffer& buffer, Stream written_on, Stream stream);
  // Waits for what was queued, and says which buffer of those that were read so far was damaged:
  // that with the smallest number.
  absl::StatusOr<std::optional<Damage>> FindDamage();

 private:
  absl::Status Order(Stream first, Stream second);
  absl::Status Queue(Stream stream, std::function<void()> function);
  absl::Status Drain();
  void Compare(const Buffer& buffer);

  Device& device_;
  const std::vector<Stream> streams_;
  Event event_;  // none before streams first meet
  std::int64_t queued_ = 0;

  std::mutex mutex_;  // of what follows, which the streams write
  std::optional<Damage> damage_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_CONTENTS_CHECK_H_

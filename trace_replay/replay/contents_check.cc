// SPDX-License-Identifier: Apache-2.0
// Patterns of buffers: a sequence of words in which each word is the previous one plus a constant.
// The first word is a hash of the buffer's number, so two buffers differ at every offset, except by
// chance.
#include "trace_replay/replay/contents_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

namespace tidepool::tool {
namespace {

using Word = std::uint64_t;
constexpr std::int64_t kWordBytes = sizeof(Word);
constexpr Word kStep = 0x9e3779b97f4a7c15;

// Bounds the queued work: each item takes memory, and a trace may have more events than memory
// holds.
constexpr std::int64_t kMostQueued = 4096;

// The last step of SplitMix64.
Word FirstWord(std::uint32_t number) {
  Word word = (Word{number} + 1) * kStep;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

void WritePattern(const Buffer& buffer) {
  Word word = FirstWord(buffer.number);
  std::int64_t at = 0;
  for (; at + kWordBytes <= buffer.bytes; at += kWordBytes, word += kStep) {
    std::memcpy(buffer.address + at, &word, kWordBytes);
  }
  std::memcpy(buffer.address + at, &word, static_cast<std::size_t>(buffer.bytes - at));
}

// Returns how many of the `bytes` bytes at `address`, from the first on, equal those of `word`.
std::int64_t BytesAsIn(Word word, const char* address, std::int64_t bytes) {
  std::array<char, kWordBytes> expected;
  std::memcpy(expected.data(), &word, kWordBytes);
  return std::mismatch(address, address + bytes, expected.begin()).first - address;
}

// Returns the offset of the first damaged byte; the size of the buffer if it is intact.
std::int64_t FirstWrongByte(const Buffer& buffer) {
  Word word = FirstWord(buffer.number);
  std::int64_t at = 0;
  for (; at + kWordBytes <= buffer.bytes; at += kWordBytes, word += kStep) {
    Word found = 0;
    std::memcpy(&found, buffer.address + at, kWordBytes);
    if (found != word) break;
  }
  return at + BytesAsIn(word, buffer.address + at, std::min(kWordBytes, buffer.bytes - at));
}

}  // namespace

ContentsCheck::ContentsCheck(Device& device, std::vector<Stream> streams)
    : device_(device), streams_(std::move(streams)) {}

ContentsCheck::~ContentsCheck() { Await().IgnoreError(); }

absl::Status ContentsCheck::Write(const Buffer& buffer, Stream stream) {
  return Queue(stream, [buffer] { WritePattern(buffer); });
}

absl::Status ContentsCheck::Read(const Buffer& buffer, Stream written_on, Stream stream) {
  if (written_on.id != stream.id) {
    if (absl::Status status = Order(written_on, stream); !status.ok()) return status;
  }
  return Queue(stream, [this, buffer] { Compare(buffer); });
}

absl::StatusOr<std::optional<ContentsCheck::Damage>> ContentsCheck::FindDamage() {
  if (absl::Status status = Await(); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  return damage_;
}

// One event suffices: a wait covers the work that the event has recorded at the time of the call.
absl::Status ContentsCheck::Order(Stream first, Stream second) {
  absl::Status status = event_.Ensure(device_);
  if (status.ok()) status = device_.RecordEvent(event_.get(), first);
  return status.ok() ? device_.WaitEvent(second, event_.get()) : status;
}

absl::Status ContentsCheck::Queue(Stream stream, std::function<void()> function) {
  if (absl::Status status = device_.CallHost(stream, std::move(function)); !status.ok()) {
    return status;
  }
  return ++queued_ % kMostQueued == 0 ? Await() : absl::OkStatus();
}

absl::Status ContentsCheck::Await() {
  absl::Status first;
  for (const Stream stream : streams_) first.Update(device_.SynchronizeStream(stream));
  return first;
}

void ContentsCheck::Compare(const Buffer& buffer) {
  const std::int64_t offset = FirstWrongByte(buffer);
  if (offset == buffer.bytes) return;
  const locks::MutexLock lock(&mutex_);
  if (!damage_.has_value() || buffer.number < damage_->number) {
    damage_ = Damage{.number = buffer.number, .offset = offset};
  }
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/pool_user.h"

#include <limits>
#include <thread>
#include <utility>

#include "tests/stress/pattern.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;

Event NewEvent(Device& device) {
  const auto event = Again([&] { return device.CreateEvent(); });
  CheckOk(event.status(), "CreateEvent");
  return *event;
}

Hint AnyHint(Dice& dice) { return dice.Chance(0.5) ? Hint::kResident : Hint::kOffloadable; }

}  // namespace

PoolUser::PoolUser(Worker& worker, const PoolShare& share)
    : worker_(worker), share_(share), event_(NewEvent(share.device)) {}

PoolUser::~PoolUser() {
  CheckOk(Again([&] { return share_.device.DestroyEvent(event_); }), "DestroyEvent");
}

bool PoolUser::Take(std::int64_t bytes) {
  worker_.Begins("Allocate");
  const Stream stream = share_.streams.Any(dice());
  return Keep(bytes, stream,
              share_.pool.Allocate(static_cast<std::size_t>(bytes), stream, AnyHint(dice())));
}

bool PoolUser::TakeBlocking(std::int64_t bytes, absl::Time deadline) {
  const bool waits_for_ever = deadline == absl::InfiniteFuture();
  worker_.Begins(waits_for_ever ? "AllocateBlocking without a deadline" : "AllocateBlocking");
  const Stream stream = share_.streams.Any(dice());
  return Keep(bytes, stream,
              share_.pool.AllocateBlocking(static_cast<std::size_t>(bytes), stream, AnyHint(dice()),
                                           deadline));
}

bool PoolUser::Keep(std::int64_t bytes, Stream stream, const absl::StatusOr<void*>& address) {
  // NotFound: another thread destroyed the stream.
  if (!worker_.Ended(address.status(),
                     {StatusCode::kResourceExhausted, StatusCode::kDeadlineExceeded,
                      StatusCode::kNotFound, share_.faults.expected()})) {
    return false;
  }
  share_.live.Add(*address, bytes);
  buffers_.push_back({static_cast<std::uint8_t*>(*address), bytes, 0, stream, {}});
  Rewrite(buffers_.size() - 1);
  return true;
}

bool PoolUser::Order(Stream stream, Stream before) {
  CheckOk(Again([&] { return share_.device.RecordEvent(event_, before); }), "RecordEvent");
  const absl::Status status = Again([&] { return share_.device.WaitEvent(stream, event_); });
  if (absl::IsNotFound(status)) return false;
  CheckOk(status, "WaitEvent");
  return true;
}

void PoolUser::Move(Buffer& buffer) {
  Stream stream = share_.streams.Any(dice());
  while (!Order(stream, buffer.stream)) stream = share_.streams.Any(dice());
  buffer.stream = stream;
}

void PoolUser::Queue(Buffer& buffer, const std::function<void()>& work) {
  if (dice().Chance(0.3)) Move(buffer);
  for (;;) {
    const absl::Status status = Again([&] { return share_.device.CallHost(buffer.stream, work); });
    if (!absl::IsNotFound(status)) return CheckOk(status, "CallHost");
    Move(buffer);  // its stream was destroyed
  }
}

void PoolUser::Rewrite(std::size_t at) {
  Buffer& buffer = buffers_[at];
  while (!buffer.readers.empty()) {
    if (Order(buffer.stream, buffer.readers.back())) {
      buffer.readers.pop_back();
    } else {
      Move(buffer);
    }
  }
  buffer.seed = dice().Seed();
  // Slow work reveals memory that is given to another thread too early.
  const int naps = dice().Chance(0.1) ? 20 : 0;
  Queue(buffer, [to = buffer.address, bytes = buffer.bytes, seed = buffer.seed, naps] {
    for (int i = 0; i < naps; ++i) std::this_thread::yield();
    FillPattern(to, bytes, seed);
  });
}

std::function<void()> PoolUser::Checks(const Buffer& buffer) {
  ++worker_.counts().checks;
  return [from = buffer.address, bytes = buffer.bytes, seed = buffer.seed] {
    Check(HoldsPattern(from, bytes, seed), "memory of ", bytes,
          " bytes was changed while it was live, or before its stream was done with it");
  };
}

void PoolUser::CheckContents(std::size_t at) {
  worker_.Begins("check contents");
  Buffer& buffer = buffers_[at];
  if (dice().Chance(0.3)) return ReadBeside(buffer);
  Queue(buffer, Checks(buffer));
}

// Reads on another stream, for which the stream of the free does not wait.
void PoolUser::ReadBeside(Buffer& buffer) {
  const Stream reader = share_.streams.Any(dice());
  if (!Order(reader, buffer.stream)) return;
  absl::Status status = Again([&] { return share_.device.CallHost(reader, Checks(buffer)); });
  if (absl::IsNotFound(status)) return;
  CheckOk(status, "CallHost");
  worker_.Begins("RecordUse");
  if (worker_.Ended(share_.pool.RecordUse(buffer.address, reader),
                    {StatusCode::kNotFound, share_.faults.expected()})) {
    buffer.readers.push_back(reader);
    return;
  }
  while (!Order(buffer.stream, reader)) Move(buffer);
}

void PoolUser::Hand(Buffer& buffer, Stream stream) {
  if (stream == buffer.stream) return;
  if (dice().Chance(0.5) && share_.pool.RecordUse(buffer.address, buffer.stream).ok()) {
    buffer.stream = stream;
    return;
  }
  if (Order(stream, buffer.stream)) {
    buffer.stream = stream;
  } else {
    Move(buffer);
  }
}

void PoolUser::Free(std::size_t at) {
  Buffer buffer = std::exchange(buffers_[at], buffers_.back());
  buffers_.pop_back();
  Queue(buffer, Checks(buffer));
  share_.live.Remove(buffer.address);
  if (dice().Chance(0.3)) Hand(buffer, share_.streams.Any(dice()));
  const bool only_own = dice().Chance(0.2);
  if (only_own) {
    const auto own = share_.pool.AllocatedOn(buffer.address);
    CheckOk(own.status(), "AllocatedOn");
    Hand(buffer, *own);
  }
  for (;;) {
    worker_.Begins(only_own ? "FreeOwn" : "Free");
    const auto own = share_.pool.AllocatedOn(buffer.address);
    const absl::Status status = only_own && own.ok() && *own == buffer.stream
                                    ? share_.pool.FreeOwn(buffer.address, buffer.stream)
                                    : share_.pool.Free(buffer.address, buffer.stream);
    if (worker_.Ended(status, {StatusCode::kNotFound, share_.faults.expected()})) return;
    if (absl::IsNotFound(status)) Move(buffer);
  }
}

void PoolUser::FreeAll() {
  while (!buffers_.empty()) Free(dice().Below(buffers_.size()));
}

void PoolUser::Misuse() {
  worker_.Begins("misuse");
  const Stream stream = share_.streams.Any(dice());
  Pool& pool = share_.pool;
  // Returns an existing stream, or one that another thread destroyed meanwhile.
  const auto is_one_of = [](const absl::Status& status, StatusCode code) {
    return status.code() == code || absl::IsNotFound(status);
  };
  const auto zero = pool.Allocate(0, stream);
  Check(!zero.ok() || *zero == nullptr, "zero bytes have an address");
  Check(is_one_of(pool.Allocate(std::numeric_limits<std::size_t>::max(), stream).status(),
                  StatusCode::kResourceExhausted),
        "an allocation of all addresses was not refused");
  Check(absl::IsNotFound(pool.Allocate(1, {}).status()), "an allocation on no stream");
  Check(pool.Free(nullptr, stream).ok() || !share_.device.HasStream(stream), "null was not taken");
  std::uint8_t elsewhere = 0;
  void* const wrong = buffers_.empty() ? &elsewhere : dice().Pick(buffers_).address + 1;
  Check(is_one_of(pool.Free(wrong, stream), StatusCode::kInvalidArgument),
        "what is no allocation was freed");
  Check(is_one_of(pool.RecordUse(wrong, stream), StatusCode::kInvalidArgument),
        "what is no allocation was used");
  Check(absl::IsInvalidArgument(pool.AllocatedOn(wrong).status()),
        "what is no allocation has a stream");
  if (buffers_.empty()) return;
  void* const address = dice().Pick(buffers_).address;
  if (*pool.AllocatedOn(address) == stream) return;
  Check(is_one_of(pool.FreeOwn(address, stream), StatusCode::kFailedPrecondition),
        "memory was freed as its own on a stream that has it not");
}

}  // namespace tidepool::stress

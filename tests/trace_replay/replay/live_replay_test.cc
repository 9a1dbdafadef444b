// SPDX-License-Identifier: Apache-2.0
// Tests live replay on devices with faults that a host device never has.
#include "trace_replay/replay/live_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/forwarding_device.h"
#include "tidepool/host_device.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/replay/contents_check.h"
#include "trace_replay/replay/latencies.h"

namespace tidepool::tool {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMemory = 1 << 20;

std::unique_ptr<HostDevice> NewDevice() {
  return HostDevice::Create({.memory_bytes = kMemory}).value();
}

Trace Parse(const std::string& events) {
  return ParseTrace("op,id,size,hint,stream,time_ns\n" + events, "trace").value();
}

LiveReplayOptions Verified() {
  return {.pool = {.initial_bytes = kMemory, .max_bytes = kMemory}, .verify = true};
}

// A device that changes functions queued to run on the host, by their number.
class ChangingDevice final : public testing::ForwardingDevice {
 public:
  using Function = std::function<void()>;
  using Change = std::function<Function(int, Function)>;

  ChangingDevice(Device& device, Change change)
      : ForwardingDevice(device), change_(std::move(change)) {}

  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) override {
    absl::StatusOr<void*> base = ForwardingDevice::ReserveAddresses(bytes);
    if (base.ok()) base_ = static_cast<char*>(*base);
    return base;
  }
  absl::Status CallHost(Stream stream, Function function) override {
    return ForwardingDevice::CallHost(stream, change_(calls_++, std::move(function)));
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    return ignores_waits ? absl::OkStatus() : ForwardingDevice::WaitEvent(stream, event);
  }

  char* base() const { return base_; }

  bool ignores_waits = false;

 private:
  const Change change_;
  int calls_ = 0;
  char* base_ = nullptr;
};

TEST(LiveReplay, NamesTheBufferThatWasDamagedAndWhere) {
  const Trace trace = Parse("a,x,1000,,s,0\na,y,13,,s,1\na,z,8,,s,2\nf,x,,,s,3\nf,y,,,s,4\n");
  // Damages of y, which is at 1024: its last byte, a byte within a whole word, and the byte after
  // y.
  for (const auto& [byte, is_damage] : {std::pair{12, true}, {5, true}, {13, false}}) {
    const auto host = NewDevice();
    ChangingDevice* self = nullptr;
    ChangingDevice device(*host, [&, at = 1024 + byte](int call, ChangingDevice::Function f) {
      if (call != 1) return f;
      return ChangingDevice::Function([&, at, f = std::move(f)] {
        f();
        self->base()[at] ^= 1;
      });
    });
    self = &device;
    const absl::Status status = ReplayLive(trace, device, Verified()).status();
    EXPECT_EQ(status.code(), is_damage ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk);
    if (!is_damage) continue;
    EXPECT_THAT(status.message(), HasSubstr("allocation 1 ('y', 13 bytes) is damaged from byte " +
                                            std::to_string(byte) + " on"));
  }
}

TEST(LiveReplay, ChecksWhatIsNeverFreed) {
  const Trace trace = Parse("a,x,1000,,s,0\na,y,1000,,s,1\n");
  const auto host = NewDevice();
  ChangingDevice* self = nullptr;
  ChangingDevice device(*host, [&](int call, ChangingDevice::Function f) {
    if (call != 1) return f;
    return ChangingDevice::Function([&, f = std::move(f)] {
      f();
      self->base()[0] ^= 1;
      self->base()[1024] ^= 1;
    });
  });
  self = &device;
  EXPECT_THAT(ReplayLive(trace, device, Verified()).status().message(),
              HasSubstr("allocation 0 ('x', 1000 bytes) is damaged from byte 0 on"));
}

// The write of x, on a slow stream, runs after the write of y, which got the memory of x.
TEST(LiveReplay, FindsAStreamThatDoesNotWait) {
  const Trace trace = Parse("a,x,1000,,s,0\nf,x,,,s,1\na,y,1048576,,t,2\nf,y,,,t,3\n");
  const auto host = NewDevice();
  std::latch x_was_written(1);
  std::latch y_was_written(1);
  ChangingDevice device(*host, [&](int call, ChangingDevice::Function f) {
    return ChangingDevice::Function([&, call, f = std::move(f)] {
      if (call == 0) y_was_written.wait();
      if (call == 3) x_was_written.wait();
      f();
      if (call == 0) x_was_written.count_down();
      if (call == 2) y_was_written.count_down();
    });
  });
  device.ignores_waits = true;
  EXPECT_THAT(ReplayLive(trace, device, Verified()).status().message(),
              HasSubstr("allocation 1 ('y', 1048576 bytes) is damaged from byte 0 on"));
}

// Repeats this on a device that keeps the order; the freeing stream is not the one that wrote.
TEST(LiveReplay, IsInOrderOnStreamsThatFallBehind) {
  const Trace trace = Parse("a,x,1000,,s,0\nf,x,,,t,1\na,y,1048576,,u,2\nf,y,,,s,3\n");
  const auto host = NewDevice();
  std::latch all_is_queued(1);
  ChangingDevice device(*host, [&](int call, ChangingDevice::Function f) {
    if (call == 3) all_is_queued.count_down();
    return ChangingDevice::Function([&, f = std::move(f)] {
      all_is_queued.wait();
      f();
    });
  });
  const absl::StatusOr<LiveReplay> replay = ReplayLive(trace, device, Verified());
  ASSERT_TRUE(replay.ok()) << replay.status();
  // Events for the frees on t, and for the work of s before the pool knew a second stream.
  EXPECT_EQ(replay->pool.stream_waits, 2);
  EXPECT_EQ(replay->pool.event_records, 2);
}

TEST(LiveReplay, AnErrorOfTheDeviceIsNoRefusal) {
  const Trace trace = Parse("a,x,1000,,s,0\na,y,1000,,s,1\n");
  for (const auto call : {HostDevice::Call::kCallHost, HostDevice::Call::kCreateStream,
                          HostDevice::Call::kCreatePhysical, HostDevice::Call::kMap}) {
    const auto device = NewDevice();
    device->FailCall(call, 1);
    EXPECT_EQ(ReplayLive(trace, *device, Verified()).status().code(),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(device->used_bytes(), 0);
  }
  const auto device = NewDevice();
  device->FailCall(HostDevice::Call::kCreatePhysical, 1);
  EXPECT_EQ(ReplayLive(trace, *device, {.pool = {.max_bytes = kMemory}}).status().code(),
            absl::StatusCode::kUnavailable);
}

// Queues more work than the bound of the queues.
TEST(LiveReplay, TakesLongTraces) {
  std::string events;
  for (int i = 0; i < 5000; ++i) {
    events += "a,x,600,,s,0\nf,x,,," + std::string(i % 3 == 0 ? "s" : "t") + ",0\n";
  }
  const auto device = NewDevice();
  const absl::StatusOr<LiveReplay> replay = ReplayLive(Parse(events), *device, Verified());
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->pool.frees, 5000);
  EXPECT_TRUE(replay->pair.has_value());
}

TEST(Latencies, AreThoseOfTheNearestRank) {
  Latencies latencies;
  EXPECT_FALSE(latencies.Summarize().has_value());
  latencies.Add(7);
  EXPECT_EQ(latencies.Summarize()->median_ns, 7);
  EXPECT_EQ(latencies.Summarize()->p99_ns, 7);
  for (std::uint32_t i = 199; i > 0; --i) latencies.Add(1000 + i);
  EXPECT_EQ(latencies.Summarize()->median_ns, 1099);
  EXPECT_EQ(latencies.Summarize()->p99_ns, 1197);
}

}  // namespace
}  // namespace tidepool::tool

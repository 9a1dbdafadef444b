// SPDX-License-Identifier: Apache-2.0
// Random work on many streams, compared with the same work done sequentially.
//
// The test knows which work is ordered. Every stream, every event and the host have a vector clock:
// the finished part of each stream as seen by work that follows. The test records an event and
// waits only if two accesses to a buffer are not ordered yet. So a missing order in the device
// shows as a wrong byte, and under ThreadSanitizer as a race.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tidepool/host_device.h"

namespace tidepool {
namespace {

constexpr std::int64_t kBytes = 16 << 10;

using Clock = std::vector<std::uint64_t>;

std::uint64_t At(const Clock& clock, std::size_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

void Join(Clock& clock, const Clock& other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// A piece of work: the n-th work of a stream.
struct Point {
  std::size_t stream = 0;
  std::uint64_t count = 0;
};

struct StreamState {
  Stream stream;
  Clock clock;
  bool is_destroyed = false;
};

struct EventState {
  Event event;
  Clock clock;
};

struct Buffer {
  std::uint8_t* address = nullptr;
  bool is_on_device = false;
  PhysicalMemory physical = {};  // where its addresses may change
  std::vector<std::uint8_t> expected = std::vector<std::uint8_t>(kBytes, 0);
  Point writer = {};
  std::vector<Point> readers = {};
};

void Scramble(std::uint8_t* bytes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(bytes[i] * 5 + 1);
}

class Stress {
 public:
  Stress(HostDevice& device, std::uint64_t seed) : device_(device), random_(seed) {
    for (int i = 0; i < 5; ++i) AddStream();
    for (int i = 0; i < 4; ++i) events_.push_back({.event = *device.CreateEvent(), .clock = {}});
    for (int i = 0; i < 4; ++i) {
      AddBuffer({.address = static_cast<std::uint8_t*>(*device.AllocateMemory(kBytes)),
                 .is_on_device = true});
      AddBuffer({.address = static_cast<std::uint8_t*>(*device.AllocatePinned(kBytes))});
      AddBuffer({.address = NewAddresses(),
                 .is_on_device = true,
                 .physical = *device.CreatePhysical(kBytes)});
      EXPECT_TRUE(device.Map(buffers_.back().address, buffers_.back().physical).ok());
    }
    // Fresh device memory has arbitrary contents.
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].is_on_device) FillAll(i);
    }
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) Step();
    for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) Compare(buffer);
  }

 private:
  std::size_t Below(std::size_t bound) { return random_() % bound; }

  void AddStream() { streams_.push_back({.stream = *device_.CreateStream(), .clock = {}}); }
  void AddBuffer(Buffer buffer) {
    if (!buffer.is_on_device) std::memset(buffer.address, 0, kBytes);
    buffers_.push_back(std::move(buffer));
  }
  std::uint8_t* NewAddresses() {
    return static_cast<std::uint8_t*>(*device_.ReserveAddresses(kBytes));
  }

  std::size_t AnyStream() {
    for (;;) {
      const std::size_t stream = Below(streams_.size());
      if (!streams_[stream].is_destroyed) return stream;
    }
  }
  std::size_t AnyBuffer(bool on_device) {
    for (;;) {
      const std::size_t buffer = Below(buffers_.size());
      if (buffers_[buffer].is_on_device == on_device) return buffer;
    }
  }

  void Step() {
    switch (Below(20)) {
      case 0:
        return Record(Below(events_.size()), Below(streams_.size()));
      case 1:
        return Wait(AnyStream(), Below(events_.size()));
      case 2:
        return ReplaceEvent();
      case 3:
        return Query();
      case 4:
        return Below(8) == 0 ? ReplaceStream() : Synchronize();
      case 5:
        return Below(4) == 0 ? Compare(Below(buffers_.size())) : HostWrite();
      case 6:
        return Move();
      case 7:
      case 8:
        return FillAll(AnyBuffer(true));
      case 9:
      case 10:
        return CallHost();
      default:
        return Copy();
    }
  }

  // Operations on events and streams.

  void Record(std::size_t event, std::size_t stream) {
    ASSERT_TRUE(device_.RecordEvent(events_[event].event, streams_[stream].stream).ok());
    events_[event].clock = streams_[stream].clock;
  }
  void Wait(std::size_t stream, std::size_t event) {
    ASSERT_TRUE(device_.WaitEvent(streams_[stream].stream, events_[event].event).ok());
    Join(streams_[stream].clock, events_[event].clock);
  }
  void ReplaceEvent() {
    EventState& state = events_[Below(events_.size())];
    ASSERT_TRUE(device_.DestroyEvent(state.event).ok());
    state = {.event = *device_.CreateEvent(), .clock = {}};
  }
  void ReplaceStream() {
    StreamState& state = streams_[AnyStream()];
    ASSERT_TRUE(device_.DestroyStream(state.stream).ok());
    state.is_destroyed = true;
    AddStream();
  }
  void Query() {
    const EventState& state = events_[Below(events_.size())];
    if (*device_.QueryEvent(state.event)) Join(host_, state.clock);
  }
  void Synchronize() {
    const std::size_t stream = AnyStream();
    ASSERT_TRUE(device_.SynchronizeStream(streams_[stream].stream).ok());
    Join(host_, streams_[stream].clock);
  }

  // Returns an event for the position: one that has recorded it already, or a newly recorded event.
  std::size_t EventAfter(Point point) {
    const auto found = std::find_if(events_.begin(), events_.end(), [&](const EventState& state) {
      return At(state.clock, point.stream) >= point.count;
    });
    if (found != events_.end()) return static_cast<std::size_t>(found - events_.begin());
    const std::size_t event = Below(events_.size());
    Record(event, point.stream);
    return event;
  }

  void OrderStream(std::size_t stream, Point after) {
    if (At(streams_[stream].clock, after.stream) < after.count) Wait(stream, EventAfter(after));
  }
  void OrderHost(Point after) {
    if (At(host_, after.stream) >= after.count) return;
    const std::size_t event = EventAfter(after);
    ASSERT_TRUE(device_.SynchronizeEvent(events_[event].event).ok());
    Join(host_, events_[event].clock);
  }

  // Accesses to buffers. A stream's accesses come before its next work, which is counted
  // afterwards.

  void Reads(std::size_t stream, Buffer& buffer) {
    Join(streams_[stream].clock, host_);
    OrderStream(stream, buffer.writer);
    buffer.readers.push_back(NextOf(stream));
  }
  void Writes(std::size_t stream, Buffer& buffer) {
    Join(streams_[stream].clock, host_);
    OrderStream(stream, buffer.writer);
    for (const Point reader : buffer.readers) {
      // A copy within a buffer reads the buffer itself.
      if (reader.stream != stream) OrderStream(stream, reader);
    }
    buffer.writer = NextOf(stream);
    buffer.readers.clear();
  }
  Point NextOf(std::size_t stream) const {
    return {.stream = stream, .count = At(streams_[stream].clock, stream) + 1};
  }
  void Count(std::size_t stream) {
    Clock& clock = streams_[stream].clock;
    clock.resize(std::max(clock.size(), stream + 1));
    ++clock[stream];
  }
  void HostReads(const Buffer& buffer) { OrderHost(buffer.writer); }
  void HostWrites(Buffer& buffer) {
    OrderHost(buffer.writer);
    for (const Point reader : buffer.readers) OrderHost(reader);
    buffer.readers.clear();
  }

  // Work.

  void FillAll(std::size_t index) {
    Buffer& buffer = buffers_[index];
    const std::size_t stream = AnyStream();
    const auto value = static_cast<std::uint8_t>(random_());
    Writes(stream, buffer);
    ASSERT_TRUE(device_.Fill(buffer.address, value, kBytes, streams_[stream].stream).ok());
    Count(stream);
    std::fill(buffer.expected.begin(), buffer.expected.end(), value);
  }

  void CallHost() {
    Buffer& buffer = buffers_[AnyBuffer(false)];
    const std::size_t stream = AnyStream();
    Writes(stream, buffer);
    ASSERT_TRUE(device_
                    .CallHost(streams_[stream].stream,
                              [bytes = buffer.address] { Scramble(bytes, kBytes); })
                    .ok());
    Count(stream);
    Scramble(buffer.expected.data(), kBytes);
  }

  void Copy() {
    const auto direction = static_cast<CopyDirection>(Below(3));
    Buffer& from = buffers_[AnyBuffer(direction != CopyDirection::kToDevice)];
    Buffer& to = buffers_[AnyBuffer(direction != CopyDirection::kFromDevice)];
    const std::size_t stream = AnyStream();
    const auto bytes = static_cast<std::int64_t>(Below(kBytes + 1));
    const auto from_offset = static_cast<std::int64_t>(Below(kBytes - bytes + 1));
    const auto to_offset = static_cast<std::int64_t>(Below(kBytes - bytes + 1));
    Reads(stream, from);
    Writes(stream, to);
    ASSERT_TRUE(device_
                    .Copy(to.address + to_offset, from.address + from_offset, bytes, direction,
                          streams_[stream].stream)
                    .ok());
    Count(stream);
    std::memmove(to.expected.data() + to_offset, from.expected.data() + from_offset,
                 static_cast<std::size_t>(bytes));
  }

  void HostWrite() {
    Buffer& buffer = buffers_[AnyBuffer(false)];
    HostWrites(buffer);
    Scramble(buffer.address, kBytes);
    Scramble(buffer.expected.data(), kBytes);
  }

  // Maps a buffer at another address.
  void Move() {
    Buffer& buffer = buffers_[AnyBuffer(true)];
    if (buffer.physical.id == 0) return;
    HostWrites(buffer);
    ASSERT_TRUE(device_.Unmap(buffer.address).ok());
    std::uint8_t* address = NewAddresses();
    ASSERT_TRUE(device_.Map(address, buffer.physical).ok());
    ASSERT_TRUE(device_.ReleaseAddresses(buffer.address, kBytes).ok());
    buffer.address = address;
  }

  // Device memory is host memory here, so the test reads it directly while no work runs.
  void Compare(std::size_t index) {
    const Buffer& buffer = buffers_[index];
    HostReads(buffer);
    ASSERT_EQ(std::memcmp(buffer.address, buffer.expected.data(), kBytes), 0) << "buffer " << index;
  }

  HostDevice& device_;
  std::mt19937_64 random_;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<Buffer> buffers_;
  Clock host_;
};

TEST(HostDeviceStress, EqualsWorkDoneInOrder) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    const auto device = *HostDevice::Create({.memory_bytes = 1 << 20, .granularity = 4096});
    Stress(*device, seed).Run(2000);
  }
}

TEST(HostDeviceStress, EqualsWorkDoneInOrderWhenCopiesTakeTime) {
  const auto device = *HostDevice::Create({.memory_bytes = 1 << 20,
                                           .granularity = 4096,
                                           .copy_bytes_per_second = 1e9,
                                           .copy_latency_ns = 10'000});
  Stress(*device, 9).Run(2000);
}

TEST(HostDeviceStress, ServesManyThreads) {
  const auto device = *HostDevice::Create({.memory_bytes = 1 << 20, .granularity = 4096});
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 10; seed < 13; ++seed) {
    threads.emplace_back([&device, seed] { Stress(*device, seed).Run(2000); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The tests that every device must pass. They use only the Device interface. A device runs all of
// them with
//
// TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(MyDevice, MakeMyDevice);
//
// Other macros at the end are for devices without some of the functions: their suites check that
// the device says so.
//
// The tests allow for devices that wait. They read device memory only through copies, and use
// pinned host memory for asynchronous copies. They never need two host functions to run at once.
// They take and give back no memory while a stream is kept busy.
#ifndef TIDEPOOL_TESTS_MEMORY_DEVICE_CONFORMANCE_H_
#define TIDEPOOL_TESTS_MEMORY_DEVICE_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <ostream>
#include <set>
#include <vector>

#include "tidepool/device.h"

namespace tidepool {

// Makes a device with at least 64 MiB.
struct DeviceFactory {
  const char* name;
  std::unique_ptr<Device> (*make)();

  friend void PrintTo(const DeviceFactory& factory, std::ostream* out) { *out << factory.name; }
};

// Keeps a stream busy until Release.
class Blocker {
 public:
  Blocker(Device& device, Stream stream) {
    EXPECT_TRUE(device.CallHost(stream, [latch = latch_] { latch->wait(); }).ok());
  }
  ~Blocker() { Stop(); }
  Blocker(const Blocker&) = delete;
  Blocker& operator=(const Blocker&) = delete;

  void Stop() {
    if (!latch_->try_wait()) latch_->count_down();
  }

 private:
  std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
};

class DeviceConformance : public testing::TestWithParam<DeviceFactory> {
 protected:
  using Bytes = std::vector<std::uint8_t>;

  DeviceConformance() : device_(GetParam().make()), stream_(*device_->CreateStream()) {}

  Stream NewStream() { return *device_->CreateStream(); }
  Event NewEvent() { return *device_->CreateEvent(); }
  Event Recorded(Stream stream) {
    const Event event = NewEvent();
    EXPECT_TRUE(device_->RecordEvent(event, stream).ok());
    return event;
  }
  bool IsOver(Event event) { return *device_->QueryEvent(event); }

  std::uint8_t* NewMemory(std::int64_t bytes) {
    return static_cast<std::uint8_t*>(*device_->AllocateMemory(bytes));
  }
  std::uint8_t* NewPinned(std::int64_t bytes) {
    auto* address = static_cast<std::uint8_t*>(*device_->AllocatePinned(bytes));
    std::memset(address, 0, static_cast<std::size_t>(bytes));
    return address;
  }
  std::uint8_t* NewAddresses(std::int64_t bytes) {
    return static_cast<std::uint8_t*>(*device_->ReserveAddresses(bytes));
  }

  // Waits for the fill.
  void Fill(void* to, std::uint8_t value, std::int64_t bytes) {
    ASSERT_TRUE(device_->Fill(to, value, bytes, stream_).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  }
  // Returns the contents of device memory. Waits for the copy.
  Bytes Read(const void* from, std::int64_t bytes) {
    std::uint8_t* pinned = NewPinned(bytes);
    EXPECT_TRUE(device_->Copy(pinned, from, bytes, CopyDirection::kFromDevice, stream_).ok());
    EXPECT_TRUE(device_->SynchronizeStream(stream_).ok());
    Bytes read(pinned, pinned + bytes);
    EXPECT_TRUE(device_->FreePinned(pinned).ok());
    return read;
  }
  static Bytes Filled(std::uint8_t value, std::int64_t bytes) {
    return Bytes(static_cast<std::size_t>(bytes), value);
  }

  std::unique_ptr<Device> device_;
  Stream stream_;
};

// Streams. --------------------------------------------------------------------------------------

TEST_P(DeviceConformance, StreamsOfAllDevicesHaveNamesOfTheirOwn) {
  const std::unique_ptr<Device> other = GetParam().make();
  std::set<std::uint64_t> names = {0, stream_.id};
  for (int i = 0; i < 100; ++i) {
    const Stream mine = NewStream();
    const Stream others = *other->CreateStream();
    EXPECT_TRUE(names.insert(mine.id).second);
    EXPECT_TRUE(names.insert(others.id).second);
    EXPECT_TRUE(device_->HasStream(mine));
    EXPECT_FALSE(device_->HasStream(others));
  }
}

TEST_P(DeviceConformance, AStreamRunsItsWorkInOrder) {
  std::vector<int> ran;
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(device_->CallHost(stream_, [&ran, i] { ran.push_back(i); }).ok());
    expected.push_back(i);
  }
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_EQ(ran, expected);
}

TEST_P(DeviceConformance, StreamsDoNotWaitForEachOther) {
  std::uint8_t* memory = NewMemory(4096);
  std::uint8_t* pinned = NewPinned(4096);
  const Stream blocked = NewStream();
  const Event never_before_stop = NewEvent();
  Blocker blocker(*device_, blocked);
  ASSERT_TRUE(device_->RecordEvent(never_before_stop, blocked).ok());
  ASSERT_TRUE(device_->Fill(memory, 7, 4096, stream_).ok());
  ASSERT_TRUE(device_->Copy(pinned, memory, 4096, CopyDirection::kFromDevice, stream_).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_EQ(Bytes(pinned, pinned + 4096), Filled(7, 4096));
  EXPECT_FALSE(IsOver(never_before_stop));
  blocker.Stop();
  EXPECT_TRUE(device_->SynchronizeStream(blocked).ok());
  EXPECT_TRUE(IsOver(never_before_stop));
}

TEST_P(DeviceConformance, AFunctionIsGoneWhenItIsOver) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  ASSERT_TRUE(device_->CallHost(stream_, [held = std::move(held)] { ++*held; }).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_TRUE(watched.expired());
}

TEST_P(DeviceConformance, ADestroyedStreamRunsWhatItHas) {
  std::uint8_t* memory = NewMemory(512);
  Fill(memory, 1, 512);
  const Stream stream = NewStream();
  const Event event = NewEvent();
  Blocker blocker(*device_, stream);
  ASSERT_TRUE(device_->Fill(memory, 2, 512, stream).ok());
  ASSERT_TRUE(device_->DestroyStream(stream).ok());
  ASSERT_TRUE(device_->RecordEvent(event, stream).ok());
  EXPECT_FALSE(IsOver(event));
  blocker.Stop();
  ASSERT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_EQ(Read(memory, 512), Filled(2, 512));
}

TEST_P(DeviceConformance, ADestroyedStreamIsUnknownToAllButEvents) {
  std::uint8_t* memory = NewMemory(512);
  std::uint8_t* pinned = NewPinned(512);
  const Stream idle = NewStream();
  const Stream busy = NewStream();
  const Event event = NewEvent();
  Blocker blocker(*device_, busy);
  for (const Stream stream : {idle, busy}) {
    ASSERT_TRUE(device_->DestroyStream(stream).ok());
    EXPECT_FALSE(device_->HasStream(stream));
    EXPECT_TRUE(absl::IsNotFound(device_->DestroyStream(stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->SynchronizeStream(stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->WaitEvent(stream, event)));
    EXPECT_TRUE(absl::IsNotFound(device_->Fill(memory, 1, 512, stream)));
    EXPECT_TRUE(
        absl::IsNotFound(device_->Copy(pinned, memory, 512, CopyDirection::kFromDevice, stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->CallHost(stream, [] { ADD_FAILURE(); })));
  }
  blocker.Stop();
  for (int i = 0; i < 3; ++i) {
    for (const Stream stream : {idle, busy}) {
      ASSERT_TRUE(device_->RecordEvent(event, stream).ok());
      ASSERT_TRUE(device_->SynchronizeEvent(event).ok());
      EXPECT_TRUE(IsOver(event));
    }
  }
}

TEST_P(DeviceConformance, TheEpochGrowsWithEveryDestroyedStreamAndOnlyThen) {
  std::uint64_t epoch = device_->stream_epoch();
  const Stream first = NewStream();
  const Stream second = NewStream();
  ASSERT_TRUE(device_->SynchronizeStream(first).ok());
  EXPECT_EQ(device_->stream_epoch(), epoch);
  for (const Stream stream : {first, second}) {
    ASSERT_TRUE(device_->DestroyStream(stream).ok());
    EXPECT_GT(device_->stream_epoch(), epoch);
    epoch = device_->stream_epoch();
    EXPECT_FALSE(device_->DestroyStream(stream).ok());
    EXPECT_EQ(device_->stream_epoch(), epoch);
  }
}

TEST_P(DeviceConformance, StreamsAndEventsOfOthersAreNotFound) {
  const std::unique_ptr<Device> other = GetParam().make();
  const Event event = NewEvent();
  std::uint8_t* memory = NewMemory(512);
  const Stream destroyed = *other->CreateStream();
  ASSERT_TRUE(other->DestroyStream(destroyed).ok());
  for (const Stream stream : {Stream{}, Stream{.id = std::numeric_limits<std::uint64_t>::max()},
                              *other->CreateStream(), destroyed}) {
    EXPECT_FALSE(device_->HasStream(stream));
    EXPECT_TRUE(absl::IsNotFound(device_->DestroyStream(stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->SynchronizeStream(stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->RecordEvent(event, stream)));
    EXPECT_TRUE(absl::IsNotFound(device_->WaitEvent(stream, event)));
    EXPECT_TRUE(absl::IsNotFound(device_->Fill(memory, 1, 512, stream)));
  }
  for (const Event unknown :
       {Event{}, Event{.id = std::numeric_limits<std::uint64_t>::max()}, *other->CreateEvent()}) {
    EXPECT_TRUE(absl::IsNotFound(device_->DestroyEvent(unknown)));
    EXPECT_TRUE(absl::IsNotFound(device_->RecordEvent(unknown, stream_)));
    EXPECT_TRUE(absl::IsNotFound(device_->QueryEvent(unknown).status()));
    EXPECT_TRUE(absl::IsNotFound(device_->SynchronizeEvent(unknown)));
  }
  const Event gone = *other->CreateEvent();
  ASSERT_TRUE(other->DestroyEvent(gone).ok());
  for (const Event unknown :
       {Event{}, Event{.id = std::numeric_limits<std::uint64_t>::max()}, gone}) {
    EXPECT_TRUE(absl::IsNotFound(device_->WaitEvent(stream_, unknown)));
  }
}

// Events. ---------------------------------------------------------------------------------------

TEST_P(DeviceConformance, AnEventThatWasNeverRecordedStandsForNothing) {
  const Event event = NewEvent();
  EXPECT_TRUE(IsOver(event));
  EXPECT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_TRUE(device_->WaitEvent(stream_, event).ok());
  EXPECT_TRUE(device_->SynchronizeStream(stream_).ok());
}

TEST_P(DeviceConformance, AnEventStandsForWhatWasQueuedBefore) {
  bool ran = false;
  ASSERT_TRUE(device_->CallHost(stream_, [&] { ran = true; }).ok());
  const Event before = Recorded(stream_);
  Blocker blocker(*device_, stream_);
  const Event after = Recorded(stream_);
  ASSERT_TRUE(device_->SynchronizeEvent(before).ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(IsOver(before));
  EXPECT_FALSE(IsOver(after));
}

TEST_P(DeviceConformance, AnEventStandsForItsLastRecord) {
  const Stream blocked = NewStream();
  const Event event = NewEvent();
  Blocker blocker(*device_, blocked);
  ASSERT_TRUE(device_->RecordEvent(event, blocked).ok());
  EXPECT_FALSE(IsOver(event));
  ASSERT_TRUE(device_->RecordEvent(event, stream_).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_TRUE(IsOver(event));
  ASSERT_TRUE(device_->RecordEvent(event, blocked).ok());
  EXPECT_FALSE(IsOver(event));
}

TEST_P(DeviceConformance, AnEventStandsForTheWorkOfAllStreams) {
  const Event event = NewEvent();
  for (const bool is_destroyed : {false, true}) {
    const Stream busy = NewStream();
    Blocker blocker(*device_, busy);
    if (is_destroyed) {
      ASSERT_TRUE(device_->DestroyStream(busy).ok());
    }
    ASSERT_TRUE(device_->RecordAll(event).ok());
    ASSERT_TRUE(device_->WaitEvent(stream_, event).ok());
    const Event waited = Recorded(stream_);
    EXPECT_FALSE(IsOver(event));
    EXPECT_FALSE(IsOver(waited));
    blocker.Stop();
    ASSERT_TRUE(device_->SynchronizeEvent(waited).ok());
    EXPECT_TRUE(IsOver(event));
  }
  Blocker later(*device_, NewStream());
  EXPECT_TRUE(IsOver(event)) << "it stands for earlier work alone";
  ASSERT_TRUE(device_->DestroyEvent(event).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->RecordAll(event)));
}

TEST_P(DeviceConformance, StreamsOfTheDeviceDoNotEndByThemselves) {
  EXPECT_FALSE(device_->MayEnd(stream_));
}

TEST_P(DeviceConformance, AWaitIsForTheRecordAtTheTimeOfTheCall) {
  const Stream blocked = NewStream();
  const Stream waiting = NewStream();
  const Stream free = NewStream();
  const Event event = NewEvent();
  const Event waited = NewEvent();
  Blocker blocker(*device_, blocked);

  ASSERT_TRUE(device_->RecordEvent(event, blocked).ok());
  ASSERT_TRUE(device_->WaitEvent(waiting, event).ok());
  ASSERT_TRUE(device_->RecordEvent(event, free).ok());
  ASSERT_TRUE(device_->RecordEvent(waited, waiting).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_FALSE(IsOver(waited)) << "to record again must not free who waits";

  ASSERT_TRUE(device_->WaitEvent(free, event).ok());
  ASSERT_TRUE(device_->RecordEvent(event, blocked).ok());
  ASSERT_TRUE(device_->SynchronizeStream(free).ok()) << "to record again must not hold up others";

  blocker.Stop();
  EXPECT_TRUE(device_->SynchronizeStream(waiting).ok());
}

TEST_P(DeviceConformance, AWaitOutlivesItsEventAndItsStream) {
  const Stream blocked = NewStream();
  const Event event = NewEvent();
  const Event waited = NewEvent();
  bool ran = false;
  Blocker blocker(*device_, blocked);
  ASSERT_TRUE(device_->RecordEvent(event, blocked).ok());
  ASSERT_TRUE(device_->WaitEvent(stream_, event).ok());
  ASSERT_TRUE(device_->CallHost(stream_, [&] { ran = true; }).ok());
  ASSERT_TRUE(device_->RecordEvent(waited, stream_).ok());
  ASSERT_TRUE(device_->DestroyEvent(event).ok());
  ASSERT_TRUE(device_->DestroyStream(blocked).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->QueryEvent(event).status()));
  EXPECT_FALSE(IsOver(waited));
  blocker.Stop();
  ASSERT_TRUE(device_->SynchronizeEvent(waited).ok());
  EXPECT_TRUE(ran);
}

TEST_P(DeviceConformance, AStreamWaitsForAnEventOfAnotherDevice) {
  const std::unique_ptr<Device> other = GetParam().make();
  const Stream others = *other->CreateStream();
  const Event event = *other->CreateEvent();
  ASSERT_TRUE(device_->WaitEvent(stream_, event).ok()) << "never recorded";
  Blocker blocker(*other, others);
  ASSERT_TRUE(other->RecordEvent(event, others).ok());
  ASSERT_TRUE(device_->WaitEvent(stream_, event).ok());
  const Event after = Recorded(stream_);
  EXPECT_FALSE(IsOver(after));
  blocker.Stop();
  ASSERT_TRUE(device_->SynchronizeEvent(after).ok());
  EXPECT_TRUE(*other->QueryEvent(event));
}

TEST_P(DeviceConformance, AStreamMayWaitForItself) {
  const Event event = NewEvent();
  Blocker blocker(*device_, stream_);
  ASSERT_TRUE(device_->RecordEvent(event, stream_).ok());
  ASSERT_TRUE(device_->WaitEvent(stream_, event).ok());
  blocker.Stop();
  EXPECT_TRUE(device_->SynchronizeStream(stream_).ok());
}

TEST_P(DeviceConformance, WaitsOrderWorkAcrossManyStreams) {
  constexpr int kStreams = 8;
  constexpr std::int64_t kBytes = 1 << 20;
  std::vector<std::uint8_t*> memory;
  std::vector<Stream> streams;
  for (int i = 0; i < kStreams; ++i) {
    memory.push_back(NewMemory(kBytes));
    Fill(memory.back(), 0, kBytes);
    streams.push_back(NewStream());
  }
  const Event event = NewEvent();
  Blocker blocker(*device_, streams[0]);
  ASSERT_TRUE(device_->Fill(memory[0], 42, kBytes, streams[0]).ok());
  for (int i = 1; i < kStreams; ++i) {
    ASSERT_TRUE(device_->RecordEvent(event, streams[i - 1]).ok());
    ASSERT_TRUE(device_->WaitEvent(streams[i], event).ok());
    ASSERT_TRUE(
        device_->Copy(memory[i], memory[i - 1], kBytes, CopyDirection::kOnDevice, streams[i]).ok());
  }
  blocker.Stop();
  ASSERT_TRUE(device_->SynchronizeStream(streams.back()).ok());
  EXPECT_EQ(Read(memory.back(), kBytes), Filled(42, kBytes));
}

// Work. -----------------------------------------------------------------------------------------

TEST_P(DeviceConformance, CopiesAndFillsDoExactlyTheirBytes) {
  constexpr std::int64_t kBytes = 10000;
  std::uint8_t* first = NewMemory(kBytes);
  std::uint8_t* second = NewMemory(kBytes);
  std::uint8_t* pinned = NewPinned(kBytes);
  for (const std::int64_t bytes : {0, 1, 7, 511, 512, 4097, 9000}) {
    Bytes expected = Filled(9, kBytes);
    Fill(second, 9, kBytes);
    for (std::int64_t i = 0; i < bytes; ++i) {
      pinned[i] = static_cast<std::uint8_t>(i * 31 + bytes);
      expected[static_cast<std::size_t>(i + 5)] = pinned[i];
    }
    ASSERT_TRUE(device_->Copy(first + 3, pinned, bytes, CopyDirection::kToDevice, stream_).ok());
    ASSERT_TRUE(
        device_->Copy(second + 5, first + 3, bytes, CopyDirection::kOnDevice, stream_).ok());
    ASSERT_TRUE(device_->Fill(second + 5 + bytes, 77, 2, stream_).ok());
    ASSERT_TRUE(device_->Fill(second, 78, 0, stream_).ok());
    expected[static_cast<std::size_t>(5 + bytes)] = 77;
    expected[static_cast<std::size_t>(6 + bytes)] = 77;
    EXPECT_EQ(Read(second, kBytes), expected);
  }
}

TEST_P(DeviceConformance, RefusesNullAndNegativeSizes) {
  std::uint8_t* memory = NewMemory(512);
  std::uint8_t* pinned = NewPinned(512);
  for (const CopyDirection direction :
       {CopyDirection::kToDevice, CopyDirection::kFromDevice, CopyDirection::kOnDevice}) {
    void* to = direction == CopyDirection::kFromDevice ? pinned : memory;
    void* from = direction == CopyDirection::kToDevice ? pinned : memory;
    EXPECT_TRUE(absl::IsInvalidArgument(device_->Copy(nullptr, from, 1, direction, stream_)));
    EXPECT_TRUE(absl::IsInvalidArgument(device_->Copy(to, nullptr, 1, direction, stream_)));
    EXPECT_TRUE(absl::IsInvalidArgument(device_->Copy(to, from, -1, direction, stream_)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Fill(nullptr, 0, 1, stream_)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Fill(memory, 0, -1, stream_)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->CallHost(stream_, nullptr)));
}

TEST_P(DeviceConformance, WorkThatTakesTimeRunsInOrder) {
  bool ran = false;
  ASSERT_TRUE(device_->SpendTime(stream_, 0).ok());
  ASSERT_TRUE(device_->SpendTime(stream_, 1000).ok());
  ASSERT_TRUE(device_->CallHost(stream_, [&] { ran = true; }).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(absl::IsInvalidArgument(device_->SpendTime(stream_, -1)));
  EXPECT_TRUE(absl::IsNotFound(device_->SpendTime(Stream(), 1)));
}

// Whole allocations. ----------------------------------------------------------------------------

TEST_P(DeviceConformance, AllocationsAreAlignedAndApart) {
  std::vector<std::uint8_t*> memory;
  for (std::uint8_t i = 0; i < 50; ++i) {
    memory.push_back(NewMemory(i * 100 + 1));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.back()) % 512, 0);
    ASSERT_TRUE(device_->Fill(memory.back(), i, i * 100 + 1, stream_).ok());
  }
  for (std::uint8_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Read(memory[i], i * 100 + 1), Filled(i, i * 100 + 1));
    EXPECT_TRUE(device_->FreeMemory(memory[i]).ok());
  }
}

TEST_P(DeviceConformance, RefusesSizesThatItCannotTake) {
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(device_->AllocateMemory(bytes).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(device_->AllocatePinned(bytes).status()));
  }
  const std::int64_t used = device_->used_bytes();
  EXPECT_TRUE(
      absl::IsResourceExhausted(device_->AllocateMemory(device_->memory_bytes() + 1).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      device_->AllocateMemory(std::numeric_limits<std::int64_t>::max()).status()));
  EXPECT_EQ(device_->used_bytes(), used);
}

TEST_P(DeviceConformance, FreesWhatWasAllocatedOnce) {
  std::uint8_t* memory = NewMemory(1024);
  std::uint8_t* pinned = NewPinned(1024);
  EXPECT_TRUE(absl::IsNotFound(device_->FreeMemory(nullptr)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreeMemory(memory + 512)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreeMemory(pinned)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreePinned(memory)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreePinned(nullptr)));
  Fill(memory, 3, 1024);
  std::memset(pinned, 3, 1024);
  EXPECT_TRUE(device_->FreeMemory(memory).ok());
  EXPECT_TRUE(device_->FreePinned(pinned).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->FreeMemory(memory)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreePinned(pinned)));
}

// Timed events. ---------------------------------------------------------------------------------

class DeviceTimedEvents : public DeviceConformance {};

// The time may be longer than the work alone: a device begins and ends it.
TEST_P(DeviceTimedEvents, TimedEventsTellTheTimeBetweenThem) {
  constexpr std::int64_t kNanoseconds = 1'000'000;
  constexpr double kLeast = 0.9e-3;  // a device's clock may be coarse
  const Event first = *device_->CreateEvent(EventKind::kTimed);
  const Event second = *device_->CreateEvent(EventKind::kTimed);
  const auto between = [&] { return device_->SecondsBetween(first, second); };
  EXPECT_TRUE(absl::IsFailedPrecondition(between().status())) << "never recorded";
  ASSERT_TRUE(device_->SpendTime(stream_, 0).ok());
  ASSERT_TRUE(device_->RecordEvent(first, stream_).ok());
  ASSERT_TRUE(device_->SpendTime(stream_, kNanoseconds).ok());
  const Event spent = Recorded(stream_);
  const Stream other = NewStream();
  ASSERT_TRUE(device_->WaitEvent(other, spent).ok());
  ASSERT_TRUE(device_->RecordEvent(second, other).ok());
  ASSERT_TRUE(device_->SynchronizeStream(other).ok());
  ASSERT_TRUE(between().ok()) << between().status();
  EXPECT_GE(*between(), kLeast);
  EXPECT_LE(*device_->SecondsBetween(second, first), -kLeast);
  EXPECT_TRUE(absl::IsFailedPrecondition(device_->SecondsBetween(first, spent).status()));
  {
    Blocker blocker(*device_, stream_);
    ASSERT_TRUE(device_->RecordEvent(second, stream_).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(between().status())) << "not reached";
  }
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_TRUE(between().ok()) << between().status();
  ASSERT_TRUE(device_->RecordAll(second).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(second).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(between().status()));
  ASSERT_TRUE(device_->DestroyEvent(second).ok());
  EXPECT_TRUE(absl::IsNotFound(between().status()));
}

// Memory of the host. ---------------------------------------------------------------------------

class DeviceRegisteredMemory : public DeviceConformance {};

TEST_P(DeviceRegisteredMemory, CopiesReachRegisteredMemory) {
  constexpr std::int64_t kBytes = 3 * 4096;
  std::uint8_t* memory = NewMemory(kBytes);
  Bytes here(static_cast<std::size_t>(kBytes));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(device_->RegisterHostMemory(here.data(), kBytes).ok());
    Fill(memory, static_cast<std::uint8_t>(round + 1), kBytes);
    ASSERT_TRUE(
        device_->Copy(here.data(), memory, kBytes, CopyDirection::kFromDevice, stream_).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
    EXPECT_EQ(here, Filled(static_cast<std::uint8_t>(round + 1), kBytes));
    here[5] = 99;
    ASSERT_TRUE(device_->Copy(memory, here.data(), 6, CopyDirection::kToDevice, stream_).ok());
    EXPECT_EQ(Read(memory, 6), Bytes(here.begin(), here.begin() + 6));
    ASSERT_TRUE(device_->UnregisterHostMemory(here.data()).ok());
    EXPECT_EQ(here[5], 99) << "the memory stays the caller's";
  }
}

TEST_P(DeviceRegisteredMemory, RegistersWhatIsNotRegistered) {
  constexpr std::int64_t kBytes = 4 * 4096;
  Bytes here(static_cast<std::size_t>(kBytes));
  std::uint8_t* pinned = NewPinned(4096);
  const std::int64_t used = device_->used_bytes();
  EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(nullptr, kBytes)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(here.data(), 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(here.data(), -1)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(pinned, 4096)));
  auto* const nowhere = reinterpret_cast<void*>(std::uintptr_t{4096});
  EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(nowhere, 4096)));
  ASSERT_TRUE(device_->RegisterHostMemory(here.data() + 4096, 2 * 4096).ok());
  for (const std::int64_t begin : {0, 1, 2}) {
    std::uint8_t* const overlapping = here.data() + begin * 4096;
    EXPECT_TRUE(absl::IsInvalidArgument(device_->RegisterHostMemory(overlapping, 2 * 4096)));
  }
  EXPECT_EQ(device_->used_bytes(), used);
  EXPECT_TRUE(device_->UnregisterHostMemory(here.data() + 4096).ok());
  EXPECT_TRUE(device_->RegisterHostMemory(here.data(), kBytes).ok());
  EXPECT_TRUE(device_->UnregisterHostMemory(here.data()).ok());
}

TEST_P(DeviceRegisteredMemory, UnregistersWhatWasRegisteredOnce) {
  constexpr std::int64_t kBytes = 2 * 4096;
  Bytes here(static_cast<std::size_t>(kBytes));
  std::uint8_t* pinned = NewPinned(4096);
  EXPECT_TRUE(absl::IsNotFound(device_->UnregisterHostMemory(nullptr)));
  EXPECT_TRUE(absl::IsNotFound(device_->UnregisterHostMemory(here.data())));
  EXPECT_TRUE(absl::IsNotFound(device_->UnregisterHostMemory(pinned)));
  ASSERT_TRUE(device_->RegisterHostMemory(here.data(), kBytes).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->UnregisterHostMemory(here.data() + 4096)));
  EXPECT_TRUE(absl::IsNotFound(device_->FreePinned(here.data())));
  EXPECT_TRUE(device_->UnregisterHostMemory(here.data()).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->UnregisterHostMemory(here.data())));
}

// Virtual memory. -------------------------------------------------------------------------------

class DeviceVirtualMemory : public DeviceConformance {
 protected:
  const std::int64_t granule_ = device_->granularity();
};

TEST_P(DeviceVirtualMemory, TakesMultiplesOfTheGranularity) {
  EXPECT_GT(granule_, 0);
  EXPECT_EQ(granule_ & (granule_ - 1), 0);
  for (const std::int64_t bytes :
       {granule_ - 1, granule_ + 1, granule_ + granule_ / 2, std::int64_t{0}, std::int64_t{-1},
        std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(device_->ReserveAddresses(bytes).status())) << bytes;
    EXPECT_TRUE(absl::IsInvalidArgument(device_->CreatePhysical(bytes).status())) << bytes;
  }
}

TEST_P(DeviceVirtualMemory, ReservesMoreThanTheDeviceHas) {
  const std::int64_t used = device_->used_bytes();
  const std::int64_t bytes = (device_->memory_bytes() / granule_ + 1) * granule_;
  std::uint8_t* range = NewAddresses(bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range) % static_cast<std::uintptr_t>(granule_), 0);
  EXPECT_EQ(device_->used_bytes(), used);
  EXPECT_TRUE(absl::IsResourceExhausted(device_->CreatePhysical(bytes).status()));
  EXPECT_TRUE(device_->ReleaseAddresses(range, bytes).ok());
}

TEST_P(DeviceVirtualMemory, ReleasesWholeRangesOnce) {
  std::uint8_t* range = NewAddresses(4 * granule_);
  const PhysicalMemory memory = *device_->CreatePhysical(granule_);
  EXPECT_TRUE(absl::IsNotFound(device_->ReleaseAddresses(nullptr, granule_)));
  EXPECT_TRUE(absl::IsNotFound(device_->ReleaseAddresses(range + granule_, 3 * granule_)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->ReleaseAddresses(range, 3 * granule_)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->ReleaseAddresses(range, 5 * granule_)));
  ASSERT_TRUE(device_->Map(range + 3 * granule_, memory).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(device_->ReleaseAddresses(range, 4 * granule_)));
  Fill(range + 3 * granule_, 1, granule_);
  ASSERT_TRUE(device_->Unmap(range + 3 * granule_).ok());
  EXPECT_TRUE(device_->ReleaseAddresses(range, 4 * granule_).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->ReleaseAddresses(range, 4 * granule_)));
  EXPECT_TRUE(device_->ReleasePhysical(memory).ok());
}

TEST_P(DeviceVirtualMemory, ContentsMoveWithThePhysicalMemory) {
  std::uint8_t* here = NewAddresses(8 * granule_);
  std::uint8_t* there = NewAddresses(2 * granule_);
  const PhysicalMemory first = *device_->CreatePhysical(granule_);
  const PhysicalMemory second = *device_->CreatePhysical(2 * granule_);
  ASSERT_TRUE(device_->Map(here + 5 * granule_, second).ok());
  ASSERT_TRUE(device_->Map(here + 4 * granule_, first).ok());
  Fill(here + 4 * granule_, 1, granule_);
  Fill(here + 5 * granule_, 2, 2 * granule_);
  ASSERT_TRUE(device_->Unmap(here + 5 * granule_).ok());
  ASSERT_TRUE(device_->Map(there, second).ok());
  EXPECT_EQ(Read(here + 4 * granule_, granule_), Filled(1, granule_));
  EXPECT_EQ(Read(there, 2 * granule_), Filled(2, 2 * granule_));
  ASSERT_TRUE(device_->Unmap(here + 4 * granule_).ok());
  ASSERT_TRUE(device_->Map(here + 6 * granule_, first).ok());
  EXPECT_EQ(Read(here + 6 * granule_, granule_), Filled(1, granule_));
}

TEST_P(DeviceVirtualMemory, WorkCrossesTheBorderOfMappings) {
  std::uint8_t* range = NewAddresses(3 * granule_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(device_->Map(range + i * granule_, *device_->CreatePhysical(granule_)).ok());
  }
  Fill(range, 1, 3 * granule_);
  Fill(range + granule_ / 2, 2, 2 * granule_);
  Bytes expected = Filled(1, 3 * granule_);
  std::fill_n(expected.begin() + granule_ / 2, 2 * granule_, std::uint8_t{2});
  EXPECT_EQ(Read(range, 3 * granule_), expected);
}

TEST_P(DeviceVirtualMemory, PhysicalMemoryMayHaveSeveralAddresses) {
  std::uint8_t* range = NewAddresses(2 * granule_);
  const PhysicalMemory memory = *device_->CreatePhysical(granule_);
  ASSERT_TRUE(device_->Map(range, memory).ok());
  ASSERT_TRUE(device_->Map(range + granule_, memory).ok());
  Fill(range, 5, granule_);
  EXPECT_EQ(Read(range + granule_, granule_), Filled(5, granule_));
  ASSERT_TRUE(device_->Unmap(range).ok());
  ASSERT_TRUE(device_->ReleasePhysical(memory).ok());
  EXPECT_EQ(Read(range + granule_, granule_), Filled(5, granule_));
}

TEST_P(DeviceVirtualMemory, AMapThatIsRefusedChangesNothing) {
  std::uint8_t* range = NewAddresses(4 * granule_);
  std::uint8_t* memory = NewMemory(granule_);
  const PhysicalMemory one = *device_->CreatePhysical(granule_);
  const PhysicalMemory two = *device_->CreatePhysical(2 * granule_);
  const PhysicalMemory released = *device_->CreatePhysical(granule_);
  ASSERT_TRUE(device_->ReleasePhysical(released).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->Map(range, released)));
  EXPECT_TRUE(absl::IsNotFound(device_->Map(range, PhysicalMemory{})));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(nullptr, one)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(memory, one)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range + granule_ / 2, one)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range + 3 * granule_, two))) << "over the end";

  ASSERT_TRUE(device_->Map(range + granule_, two).ok());
  Fill(range + granule_, 6, 2 * granule_);
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range, two))) << "its end is mapped";
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range + granule_, one)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range + 2 * granule_, one)));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Map(range + 2 * granule_, two)));
  EXPECT_EQ(Read(range + granule_, 2 * granule_), Filled(6, 2 * granule_));
  EXPECT_TRUE(device_->Map(range, one).ok());
}

TEST_P(DeviceVirtualMemory, UnmapsWhatWasMappedOnce) {
  std::uint8_t* range = NewAddresses(4 * granule_);
  const PhysicalMemory memory = *device_->CreatePhysical(2 * granule_);
  EXPECT_TRUE(absl::IsNotFound(device_->Unmap(range)));
  ASSERT_TRUE(device_->Map(range + granule_, memory).ok());
  Fill(range + granule_, 8, 2 * granule_);
  EXPECT_TRUE(absl::IsNotFound(device_->Unmap(nullptr)));
  EXPECT_TRUE(absl::IsNotFound(device_->Unmap(range)));
  EXPECT_TRUE(absl::IsNotFound(device_->Unmap(range + 2 * granule_))) << "amid the mapping";
  EXPECT_EQ(Read(range + granule_, 2 * granule_), Filled(8, 2 * granule_));
  EXPECT_TRUE(device_->Unmap(range + granule_).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->Unmap(range + granule_)));
}

TEST_P(DeviceVirtualMemory, PhysicalMemoryIsGivenBackWhenItIsMappedNowhere) {
  const std::int64_t bytes = device_->memory_bytes() / 2 / granule_ * granule_ + granule_;
  std::uint8_t* range = NewAddresses(bytes);
  const PhysicalMemory memory = *device_->CreatePhysical(bytes);
  ASSERT_TRUE(device_->Map(range, memory).ok());
  ASSERT_TRUE(device_->ReleasePhysical(memory).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->ReleasePhysical(memory)));
  Fill(range, 4, granule_);
  EXPECT_EQ(Read(range, granule_), Filled(4, granule_));
  EXPECT_TRUE(absl::IsResourceExhausted(device_->CreatePhysical(bytes).status()));
  ASSERT_TRUE(device_->Unmap(range).ok());
  const absl::StatusOr<PhysicalMemory> next = device_->CreatePhysical(bytes);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(device_->ReleasePhysical(*next).ok());
}

class DeviceWithoutVirtualMemory : public DeviceConformance {};

TEST_P(DeviceWithoutVirtualMemory, SaysSo) {
  EXPECT_EQ(device_->granularity(), 0);
  int anything = 0;
  EXPECT_TRUE(absl::IsUnimplemented(device_->ReserveAddresses(1 << 20).status()));
  EXPECT_TRUE(absl::IsUnimplemented(device_->ReleaseAddresses(&anything, 1 << 20)));
  EXPECT_TRUE(absl::IsUnimplemented(device_->CreatePhysical(1 << 20).status()));
  EXPECT_TRUE(absl::IsUnimplemented(device_->ReleasePhysical({.id = 1})));
  EXPECT_TRUE(absl::IsUnimplemented(device_->Map(&anything, {.id = 1})));
  EXPECT_TRUE(absl::IsUnimplemented(device_->Unmap(&anything)));
  EXPECT_EQ(device_->used_bytes(), 0);
}

// A device that leaves all that it may to the defaults.
class DeviceOfDefaults : public DeviceConformance {};

TEST_P(DeviceOfDefaults, SaysThatItHasNoTimes) {
  const Event first = *device_->CreateEvent(EventKind::kTimed);
  const Event second = *device_->CreateEvent(EventKind::kTimed);
  ASSERT_TRUE(device_->RecordEvent(first, stream_).ok());
  ASSERT_TRUE(device_->RecordEvent(second, stream_).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream_).ok());
  EXPECT_TRUE(absl::IsUnimplemented(device_->SecondsBetween(first, second).status()));
}

TEST_P(DeviceOfDefaults, SaysThatItRegistersNoMemory) {
  Bytes here(4096);
  EXPECT_TRUE(absl::IsUnimplemented(device_->RegisterHostMemory(here.data(), 4096)));
  EXPECT_TRUE(absl::IsUnimplemented(device_->UnregisterHostMemory(here.data())));
}

// gtest reports a suite without instances as a failure. So each program uses the macros below with
// a device of each kind, or allows the suites that it has no device for.
#define TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, suite) \
  INSTANTIATE_TEST_SUITE_P(name, suite, testing::Values(DeviceFactory{#name, factory}))
#define TIDEPOOL_INSTANTIATE_DEVICE_CONFORMANCE(name, factory)              \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceConformance);      \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceTimedEvents);      \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceRegisteredMemory); \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceVirtualMemory)
#define TIDEPOOL_INSTANTIATE_CONFORMANCE_WITHOUT_VIRTUAL_MEMORY(name, factory) \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceConformance);         \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceTimedEvents);         \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceRegisteredMemory);    \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceWithoutVirtualMemory)
#define TIDEPOOL_INSTANTIATE_CONFORMANCE_OF_DEFAULTS(name, factory)    \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceConformance); \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceOfDefaults);  \
  TIDEPOOL_INSTANTIATE_DEVICE_SUITE(name, factory, DeviceWithoutVirtualMemory)

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_DEVICE_CONFORMANCE_H_

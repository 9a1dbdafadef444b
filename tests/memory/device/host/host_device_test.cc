// SPDX-License-Identifier: Apache-2.0
// Features of the host device beyond the Device interface: ordered faults, held copies, the time of
// copies, exact accounting, and memory that costs nothing until it is touched.
#include "tidepool/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <latch>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace tidepool {
namespace {

using Call = HostDevice::Call;

constexpr std::int64_t kGranule = 16 << 10;

std::unique_ptr<HostDevice> NewDevice(HostDeviceOptions options = {}) {
  options.granularity = kGranule;
  return *HostDevice::Create(options);
}

std::uint8_t* NewMemory(HostDevice& device, std::int64_t bytes) {
  return static_cast<std::uint8_t*>(*device.AllocateMemory(bytes));
}
std::uint8_t* NewPinned(HostDevice& device, std::int64_t bytes) {
  return static_cast<std::uint8_t*>(*device.AllocatePinned(bytes));
}
std::uint8_t* NewAddresses(HostDevice& device, std::int64_t bytes) {
  return static_cast<std::uint8_t*>(*device.ReserveAddresses(bytes));
}

Event Recorded(HostDevice& device, Stream stream) {
  const Event event = *device.CreateEvent();
  EXPECT_TRUE(device.RecordEvent(event, stream).ok());
  return event;
}

TEST(HostDeviceOptions, RefusesWhatIsOutOfRange) {
  const std::vector<HostDeviceOptions> refused = {
      {.memory_bytes = 0},
      {.memory_bytes = -1},
      {.granularity = -4096},
      {.granularity = 512},
      {.granularity = 3 * 4096},
      {.granularity = std::numeric_limits<std::int64_t>::min()},
      {.copy_bytes_per_second = -1},
      {.copy_bytes_per_second = std::nan("")},
      {.copy_bytes_per_second = std::numeric_limits<double>::infinity()},
      {.copy_latency_ns = -1}};
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(HostDevice::Create(refused[i]).status())) << i;
  }
  EXPECT_TRUE(HostDevice::Create({}).ok());
}

// Faults. ---------------------------------------------------------------------------------------

// One object of every kind, for one call of any kind.
struct World {
  explicit World(HostDevice& device)
      : stream(*device.CreateStream()),
        event(*device.CreateEvent()),
        timed(*device.CreateEvent(EventKind::kTimed)),
        memory(NewMemory(device, kGranule)),
        pinned(NewPinned(device, kGranule)),
        registered(static_cast<std::size_t>(kGranule)),
        empty(NewAddresses(device, kGranule)),
        mapped(NewAddresses(device, kGranule)),
        physical(*device.CreatePhysical(kGranule)) {
    EXPECT_TRUE(device.Map(mapped, *device.CreatePhysical(kGranule)).ok());
    EXPECT_TRUE(device.RegisterHostMemory(registered.data(), kGranule).ok());
    EXPECT_TRUE(device.RecordEvent(timed, stream).ok());
    EXPECT_TRUE(device.SynchronizeEvent(timed).ok());
  }

  Stream stream;
  Event event;
  Event timed;  // and recorded
  std::uint8_t* memory;
  std::uint8_t* pinned;
  std::vector<char> registered;
  std::vector<char> plain = std::vector<char>(100);
  std::uint8_t* empty;   // reserved, without memory
  std::uint8_t* mapped;  // reserved, with memory
  PhysicalMemory physical;
  std::shared_ptr<int> functions_run = std::make_shared<int>(0);
};

struct CallCase {
  Call call;
  const char* name;
  absl::Status (*make)(HostDevice&, World&);

  friend void PrintTo(const CallCase& tested, std::ostream* out) { *out << tested.name; }
};

const CallCase kCallCases[] = {
    {Call::kCreateStream, "CreateStream",
     [](HostDevice& d, World&) { return d.CreateStream().status(); }},
    {Call::kDestroyStream, "DestroyStream",
     [](HostDevice& d, World& w) { return d.DestroyStream(w.stream); }},
    {Call::kSynchronizeStream, "SynchronizeStream",
     [](HostDevice& d, World& w) { return d.SynchronizeStream(w.stream); }},
    {Call::kCreateEvent, "CreateEvent",
     [](HostDevice& d, World&) { return d.CreateEvent().status(); }},
    {Call::kDestroyEvent, "DestroyEvent",
     [](HostDevice& d, World& w) { return d.DestroyEvent(w.event); }},
    {Call::kRecordEvent, "RecordEvent",
     [](HostDevice& d, World& w) { return d.RecordEvent(w.event, w.stream); }},
    {Call::kRecordAll, "RecordAll", [](HostDevice& d, World& w) { return d.RecordAll(w.event); }},
    {Call::kWaitEvent, "WaitEvent",
     [](HostDevice& d, World& w) { return d.WaitEvent(w.stream, w.event); }},
    {Call::kQueryEvent, "QueryEvent",
     [](HostDevice& d, World& w) { return d.QueryEvent(w.event).status(); }},
    {Call::kSynchronizeEvent, "SynchronizeEvent",
     [](HostDevice& d, World& w) { return d.SynchronizeEvent(w.event); }},
    {Call::kSecondsBetween, "SecondsBetween",
     [](HostDevice& d, World& w) { return d.SecondsBetween(w.timed, w.timed).status(); }},
    {Call::kCopy, "Copy",
     [](HostDevice& d, World& w) {
       return d.Copy(w.memory, w.pinned, kGranule, CopyDirection::kToDevice, w.stream);
     }},
    {Call::kFill, "Fill",
     [](HostDevice& d, World& w) { return d.Fill(w.memory, 1, kGranule, w.stream); }},
    {Call::kSpendTime, "SpendTime",
     [](HostDevice& d, World& w) { return d.SpendTime(w.stream, 1); }},
    {Call::kCallHost, "CallHost",
     [](HostDevice& d, World& w) {
       return d.CallHost(w.stream, [run = w.functions_run] { ++*run; });
     }},
    {Call::kAllocateMemory, "AllocateMemory",
     [](HostDevice& d, World&) { return d.AllocateMemory(1).status(); }},
    {Call::kFreeMemory, "FreeMemory",
     [](HostDevice& d, World& w) { return d.FreeMemory(w.memory); }},
    {Call::kAllocatePinned, "AllocatePinned",
     [](HostDevice& d, World&) { return d.AllocatePinned(1).status(); }},
    {Call::kFreePinned, "FreePinned",
     [](HostDevice& d, World& w) { return d.FreePinned(w.pinned); }},
    {Call::kRegisterHostMemory, "RegisterHostMemory",
     [](HostDevice& d, World& w) { return d.RegisterHostMemory(w.plain.data(), 100); }},
    {Call::kUnregisterHostMemory, "UnregisterHostMemory",
     [](HostDevice& d, World& w) { return d.UnregisterHostMemory(w.registered.data()); }},
    {Call::kReserveAddresses, "ReserveAddresses",
     [](HostDevice& d, World&) { return d.ReserveAddresses(kGranule).status(); }},
    {Call::kReleaseAddresses, "ReleaseAddresses",
     [](HostDevice& d, World& w) { return d.ReleaseAddresses(w.empty, kGranule); }},
    {Call::kCreatePhysical, "CreatePhysical",
     [](HostDevice& d, World&) { return d.CreatePhysical(kGranule).status(); }},
    {Call::kReleasePhysical, "ReleasePhysical",
     [](HostDevice& d, World& w) { return d.ReleasePhysical(w.physical); }},
    {Call::kMap, "Map", [](HostDevice& d, World& w) { return d.Map(w.empty, w.physical); }},
    {Call::kUnmap, "Unmap", [](HostDevice& d, World& w) { return d.Unmap(w.mapped); }},
};

class HostDeviceFault : public testing::TestWithParam<CallCase> {};

TEST_P(HostDeviceFault, StrikesTheNthCallWhichHasDoneNothing) {
  const CallCase& tested = GetParam();
  const auto device = NewDevice();
  std::vector<World> worlds;
  for (int i = 0; i < 4; ++i) worlds.emplace_back(*device);
  const std::int64_t before = device->CountCalls(tested.call);

  device->FailCall(tested.call, 3);
  EXPECT_TRUE(tested.make(*device, worlds[0]).ok());
  EXPECT_TRUE(tested.make(*device, worlds[1]).ok());
  const std::int64_t used = device->used_bytes();
  const std::uint64_t epoch = device->stream_epoch();
  const absl::Status failed = tested.make(*device, worlds[2]);
  EXPECT_TRUE(absl::IsUnavailable(failed));
  EXPECT_THAT(std::string(failed.message()), testing::StartsWith(tested.name));
  EXPECT_EQ(device->used_bytes(), used);
  EXPECT_EQ(device->stream_epoch(), epoch);
  EXPECT_TRUE(tested.make(*device, worlds[3]).ok());
  EXPECT_TRUE(tested.make(*device, worlds[2]).ok()) << "the same again, as if it had not been";
  EXPECT_EQ(device->CountCalls(tested.call), before + 5);
}

TEST_P(HostDeviceFault, AnyCallCanBeStruck) {
  const CallCase& tested = GetParam();
  const auto device = NewDevice();
  World world(*device);
  const std::int64_t before = device->CountCalls(Call::kAny);
  device->FailCall(Call::kAny, 2);
  EXPECT_TRUE(device->CreateEvent().ok());
  EXPECT_TRUE(absl::IsUnavailable(tested.make(*device, world)));
  EXPECT_TRUE(tested.make(*device, world).ok());
  EXPECT_EQ(device->CountCalls(Call::kAny), before + 3);
}

TEST_P(HostDeviceFault, AnOrderCanBeTakenBack) {
  const CallCase& tested = GetParam();
  const auto device = NewDevice();
  World world(*device);
  device->FailCall(tested.call, 1);
  device->FailCall(tested.call, 0);
  EXPECT_TRUE(tested.make(*device, world).ok());
}

INSTANTIATE_TEST_SUITE_P(EveryCall, HostDeviceFault, testing::ValuesIn(kCallCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HostDevice, WorkThatWasToFailIsNotQueued) {
  const auto device = NewDevice();
  World world(*device);
  std::memset(world.memory, 9, kGranule);
  for (const CallCase& tested : kCallCases) {
    if (tested.call != Call::kCopy && tested.call != Call::kFill && tested.call != Call::kCallHost)
      continue;
    device->FailCall(tested.call, 1);
    EXPECT_FALSE(tested.make(*device, world).ok());
  }
  ASSERT_TRUE(device->SynchronizeStream(world.stream).ok());
  EXPECT_EQ(*world.functions_run, 0);
  EXPECT_EQ(std::count(world.memory, world.memory + kGranule, 9), kGranule);
}

TEST(HostDevice, ARecordAndAWaitThatWereToFailAreNotMade) {
  const auto device = NewDevice();
  const Stream held = *device->CreateStream();
  const Stream free = *device->CreateStream();
  const Event event = *device->CreateEvent();
  std::uint8_t* memory = NewMemory(*device, 1);
  device->HoldCopies();
  ASSERT_TRUE(device->Copy(memory, memory, 1, CopyDirection::kOnDevice, held).ok());
  device->FailCall(Call::kRecordEvent, 1);
  EXPECT_FALSE(device->RecordEvent(event, held).ok());
  EXPECT_TRUE(*device->QueryEvent(event));
  ASSERT_TRUE(device->RecordEvent(event, held).ok());
  EXPECT_FALSE(*device->QueryEvent(event));
  device->FailCall(Call::kWaitEvent, 1);
  EXPECT_FALSE(device->WaitEvent(free, event).ok());
  EXPECT_TRUE(device->SynchronizeStream(free).ok());
  device->ReleaseCopies();
}

TEST(HostDevice, CountsCallsThatFail) {
  const auto device = NewDevice();
  EXPECT_FALSE(device->FreeMemory(nullptr).ok());
  EXPECT_FALSE(device->DestroyStream({}).ok());
  EXPECT_EQ(device->CountCalls(Call::kFreeMemory), 1);
  EXPECT_EQ(device->CountCalls(Call::kDestroyStream), 1);
  EXPECT_EQ(device->CountCalls(Call::kAllocateMemory), 0);
  EXPECT_EQ(device->CountCalls(Call::kAny), 2);
}

// Copies. ---------------------------------------------------------------------------------------

struct Direction {
  CopyDirection direction;
  const char* name;

  friend void PrintTo(const Direction& direction, std::ostream* out) { *out << direction.name; }
};

class HostDeviceHold : public testing::TestWithParam<Direction> {
 protected:
  HostDeviceHold() {
    std::memset(device_memory_, 1, kGranule);
    std::memset(pinned_, 2, kGranule);
  }

  absl::Status Copy() {
    void* to = GetParam().direction == CopyDirection::kFromDevice ? pinned_ : device_memory_;
    const void* from = GetParam().direction == CopyDirection::kToDevice ? pinned_ : device_memory_;
    return device_->Copy(to, from, kGranule, GetParam().direction, stream_);
  }

  std::unique_ptr<HostDevice> device_ = NewDevice();
  Stream stream_ = *device_->CreateStream();
  std::uint8_t* device_memory_ = NewMemory(*device_, kGranule);
  std::uint8_t* pinned_ = NewPinned(*device_, kGranule);
};

TEST_P(HostDeviceHold, HoldsCopiesUntilTheyAreReleased) {
  const Stream other = *device_->CreateStream();
  std::latch reached(1);
  device_->HoldCopies();
  ASSERT_TRUE(device_->CallHost(stream_, [&] { reached.count_down(); }).ok());
  const Event before = Recorded(*device_, stream_);
  ASSERT_TRUE(Copy().ok());
  const Event after = Recorded(*device_, stream_);
  reached.wait();
  ASSERT_TRUE(device_->SynchronizeEvent(before).ok());
  std::uint8_t* elsewhere = NewMemory(*device_, 16 << 20);
  ASSERT_TRUE(device_->Fill(elsewhere, 3, 16 << 20, other).ok());
  ASSERT_TRUE(device_->SynchronizeStream(other).ok()) << "what is no copy is not held";
  EXPECT_FALSE(*device_->QueryEvent(after));
  EXPECT_EQ(device_memory_[kGranule - 1], 1);
  EXPECT_EQ(pinned_[kGranule - 1], 2);

  device_->ReleaseCopies();
  ASSERT_TRUE(device_->SynchronizeEvent(after).ok());
  if (GetParam().direction != CopyDirection::kOnDevice) {
    EXPECT_EQ(device_memory_[kGranule - 1], pinned_[kGranule - 1]);
  }
  ASSERT_TRUE(Copy().ok());
  EXPECT_TRUE(device_->SynchronizeStream(stream_).ok()) << "copies are held no more";
}

TEST_P(HostDeviceHold, HoldsWhatIsQueuedBetweenHoldAndRelease) {
  std::latch latch(1);
  ASSERT_TRUE(device_->CallHost(stream_, [&] { latch.wait(); }).ok());
  ASSERT_TRUE(Copy().ok());
  device_->HoldCopies();
  latch.count_down();
  EXPECT_TRUE(device_->SynchronizeStream(stream_).ok()) << "queued before";
  ASSERT_TRUE(Copy().ok());
  device_->ReleaseCopies();
  device_->HoldCopies();
  EXPECT_TRUE(device_->SynchronizeStream(stream_).ok()) << "released before it was held again";
}

INSTANTIATE_TEST_SUITE_P(EveryDirection, HostDeviceHold,
                         testing::Values(Direction{CopyDirection::kToDevice, "ToDevice"},
                                         Direction{CopyDirection::kFromDevice, "FromDevice"},
                                         Direction{CopyDirection::kOnDevice, "OnDevice"}),
                         [](const auto& test) { return std::string(test.param.name); });

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(HostDevice, CopiesOfOneDirectionShareItsBandwidth) {
  const auto device = NewDevice({.copy_bytes_per_second = 100e6});
  for (const CopyDirection direction : {CopyDirection::kToDevice, CopyDirection::kFromDevice}) {
    std::vector<Stream> streams;
    const Stopwatch stopwatch;
    for (int i = 0; i < 3; ++i) {
      streams.push_back(*device->CreateStream());
      void* memory = NewMemory(*device, 1'000'000);
      void* pinned = NewPinned(*device, 1'000'000);
      const bool is_to_device = direction == CopyDirection::kToDevice;
      ASSERT_TRUE(device
                      ->Copy(is_to_device ? memory : pinned, is_to_device ? pinned : memory,
                             1'000'000, direction, streams.back())
                      .ok());
    }
    for (const Stream stream : streams) ASSERT_TRUE(device->SynchronizeStream(stream).ok());
    EXPECT_GE(stopwatch.seconds(), 0.03);
  }
}

TEST(HostDevice, EveryCopyHasItsLatency) {
  const auto device = NewDevice({.copy_latency_ns = 2'000'000});
  const Stream stream = *device->CreateStream();
  void* memory = NewMemory(*device, 1);
  void* pinned = NewPinned(*device, 1);
  const Stopwatch stopwatch;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(device->Copy(memory, pinned, 0, CopyDirection::kToDevice, stream).ok());
  }
  ASSERT_TRUE(device->SynchronizeStream(stream).ok());
  EXPECT_GE(stopwatch.seconds(), 0.02);
}

// A copy that would take thirty years delays only copies of its direction, and not the device's
// end.
TEST(HostDevice, DirectionsDoNotWaitForEachOther) {
  auto device = NewDevice({.copy_bytes_per_second = 1e-3});
  const Stream slow = *device->CreateStream();
  const Stream fast = *device->CreateStream();
  std::uint8_t* memory = NewMemory(*device, 1'000'000);
  std::vector<std::uint8_t> host(1'000'000, 1);
  std::memset(memory, 2, 1'000'000);
  ASSERT_TRUE(device->Copy(host.data(), memory, 1'000'000, CopyDirection::kFromDevice, slow).ok());
  const Event event = Recorded(*device, slow);
  std::uint8_t* other = NewMemory(*device, 1'000'000);
  ASSERT_TRUE(device->Copy(other, memory, 1'000'000, CopyDirection::kOnDevice, fast).ok());
  ASSERT_TRUE(device->Copy(other, &event, 0, CopyDirection::kToDevice, fast).ok());
  ASSERT_TRUE(device->SynchronizeStream(fast).ok());
  EXPECT_EQ(other[999'999], 2);
  EXPECT_FALSE(*device->QueryEvent(event));
  device.reset();
  EXPECT_EQ(host.back(), 2);
}

TEST(HostDevice, KnowsItsMemory) {
  const auto device = NewDevice();
  const auto other = NewDevice();
  const Stream stream = *device->CreateStream();
  std::vector<std::uint8_t> host(kGranule);
  std::uint8_t* memory = NewMemory(*device, kGranule);
  std::uint8_t* others = NewMemory(*other, kGranule);
  std::uint8_t* pinned = NewPinned(*device, kGranule);
  std::uint8_t* freed = NewMemory(*device, kGranule);
  ASSERT_TRUE(device->FreeMemory(freed).ok());
  std::uint8_t* range = NewAddresses(*device, 4 * kGranule);
  ASSERT_TRUE(device->Map(range + kGranule, *device->CreatePhysical(kGranule)).ok());
  ASSERT_TRUE(device->Map(range + 2 * kGranule, *device->CreatePhysical(kGranule)).ok());
  auto* highest = reinterpret_cast<std::uint8_t*>(std::numeric_limits<std::uintptr_t>::max() - 7);

  struct Range {
    std::uint8_t* address;
    std::int64_t bytes;
  };
  const std::vector<Range> on_device = {{memory, kGranule},
                                        {memory + kGranule - 1, 1},
                                        {range + kGranule, 2 * kGranule},
                                        {range + 2 * kGranule - 1, 2}};
  const std::vector<Range> on_host = {{host.data(), kGranule}, {pinned, kGranule}};
  const std::vector<Range> across = {{memory - 1, 2},
                                     {memory + 1, kGranule},
                                     {memory, std::numeric_limits<std::int64_t>::max()},
                                     {range, 2 * kGranule},
                                     {range + 3 * kGranule - 1, 2}};
  for (const auto [address, bytes] : on_device) {
    EXPECT_TRUE(device->Fill(address, 1, bytes, stream).ok());
    EXPECT_TRUE(
        device
            ->Copy(address, pinned, bytes > kGranule ? 1 : bytes, CopyDirection::kToDevice, stream)
            .ok());
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(pinned, address, 1, CopyDirection::kToDevice, stream)));
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(address, memory, 1, CopyDirection::kFromDevice, stream)));
  }
  for (const auto [address, bytes] : on_host) {
    EXPECT_TRUE(device->Copy(address, memory, bytes, CopyDirection::kFromDevice, stream).ok());
    EXPECT_TRUE(device->Copy(memory, address, bytes, CopyDirection::kToDevice, stream).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(address, memory, bytes, CopyDirection::kOnDevice, stream)));
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(memory, address, bytes, CopyDirection::kOnDevice, stream)));
  }
  EXPECT_TRUE(device->Copy(memory, others, kGranule, CopyDirection::kFromPeer, stream).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      device->Copy(others, memory, kGranule, CopyDirection::kFromPeer, stream)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      device->Copy(memory, nullptr, kGranule, CopyDirection::kFromPeer, stream)));
  for (const auto [address, bytes] : across) {
    EXPECT_TRUE(absl::IsInvalidArgument(device->Fill(address, 1, bytes, stream)));
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(host.data(), address, bytes, CopyDirection::kFromDevice, stream)));
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(memory, address, bytes, CopyDirection::kToDevice, stream)));
  }
  for (std::uint8_t* address :
       {range, range + 3 * kGranule, freed, others, host.data(), pinned, highest}) {
    EXPECT_TRUE(absl::IsInvalidArgument(device->Fill(address, 1, 8, stream)));
    EXPECT_TRUE(absl::IsInvalidArgument(
        device->Copy(address, memory, 8, CopyDirection::kOnDevice, stream)));
  }
  EXPECT_TRUE(device->SynchronizeStream(stream).ok());
}

// The end of a device. --------------------------------------------------------------------------

TEST(HostDevice, FinishesWhatWasQueuedWhenItIsDestroyed) {
  std::atomic<int> ran = 0;
  auto device = NewDevice({.copy_latency_ns = 1'000'000'000'000});
  std::uint8_t* memory = NewMemory(*device, 512);
  device->HoldCopies();
  Stream previous = *device->CreateStream();
  std::latch latch(1);
  ASSERT_TRUE(device->CallHost(previous, [&] { latch.wait(); }).ok());
  for (int i = 0; i < 20; ++i) {
    const Stream stream = *device->CreateStream();
    ASSERT_TRUE(device->WaitEvent(stream, Recorded(*device, previous)).ok());
    ASSERT_TRUE(device->Copy(memory, memory, 512, CopyDirection::kOnDevice, stream).ok());
    ASSERT_TRUE(device->Copy(memory, &latch, 1, CopyDirection::kToDevice, stream).ok());
    ASSERT_TRUE(device->CallHost(stream, [&] { ++ran; }).ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(device->DestroyStream(stream).ok());
    }
    previous = stream;
  }
  EXPECT_EQ(ran, 0);
  latch.count_down();
  device.reset();
  EXPECT_EQ(ran, 20);
}

TEST(HostDevice, ForgetsStreamsThatAreDestroyed) {
  const auto device = NewDevice();
  const Event event = *device->CreateEvent();
  const Stream first = *device->CreateStream();
  int ran = 0;
  Stream previous = first;
  // More than the number of threads or stacks that a process may have.
  for (int i = 0; i < 10'000; ++i) {
    const Stream stream = *device->CreateStream();
    ASSERT_TRUE(device->RecordEvent(event, previous).ok());
    ASSERT_TRUE(device->WaitEvent(stream, event).ok());
    ASSERT_TRUE(device->CallHost(stream, [&] { ++ran; }).ok());
    ASSERT_TRUE(device->DestroyStream(previous).ok());
    if (i % 50 == 0) {
      ASSERT_TRUE(device->SynchronizeStream(stream).ok());
    }
    previous = stream;
  }
  ASSERT_TRUE(device->SynchronizeStream(previous).ok());
  EXPECT_EQ(ran, 10'000);
  EXPECT_TRUE(device->RecordEvent(event, first).ok()) << "destroyed long ago, but known";
  EXPECT_TRUE(*device->QueryEvent(event));
}

// Memory. ---------------------------------------------------------------------------------------

TEST(HostDevice, EnforcesItsMemoryOverAllKinds) {
  const auto device = NewDevice({.memory_bytes = 4 * kGranule});
  EXPECT_EQ(device->memory_bytes(), 4 * kGranule);
  EXPECT_EQ(device->used_bytes(), 0);
  std::uint8_t* memory = NewMemory(*device, kGranule + 1);
  const PhysicalMemory physical = *device->CreatePhysical(2 * kGranule);
  EXPECT_EQ(device->used_bytes(), 3 * kGranule + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocateMemory(kGranule).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(device->CreatePhysical(kGranule).status()));
  EXPECT_EQ(device->used_bytes(), 3 * kGranule + 1);
  EXPECT_TRUE(device->AllocateMemory(kGranule - 1).ok()) << "to the last byte";
  EXPECT_TRUE(device->AllocatePinned(kGranule).ok()) << "that is memory of the host";
  EXPECT_EQ(device->used_bytes(), 4 * kGranule);
  ASSERT_TRUE(device->FreeMemory(memory).ok());
  ASSERT_TRUE(device->ReleasePhysical(physical).ok());
  EXPECT_EQ(device->used_bytes(), kGranule - 1);
}

TEST(HostDevice, TakesNothingFromTheHostBeforeItIsTouched) {
  // Few hosts have as much memory; ThreadSanitizer has no addresses for more.
  constexpr std::int64_t kHuge = std::int64_t{128} << 30;
  const auto device = NewDevice({.memory_bytes = 4 * kHuge});
  const Stream stream = *device->CreateStream();
  std::uint8_t* memory = NewMemory(*device, kHuge);
  std::uint8_t* range = NewAddresses(*device, 2 * kHuge);
  ASSERT_TRUE(device->Map(range + kHuge, *device->CreatePhysical(kHuge)).ok());
  for (std::uint8_t* address : {memory, range + kHuge}) {
    for (std::uint8_t* byte : {address, address + kHuge - 1}) {
      ASSERT_TRUE(device->Fill(byte, 5, 1, stream).ok());
      ASSERT_TRUE(device->SynchronizeStream(stream).ok());
      EXPECT_EQ(*byte, 5);
    }
  }
}

std::ptrdiff_t OpenFiles() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST(HostDevice, ManyPhysicalMemoriesNeedNoFileEach) {
  constexpr int kMemories = 3000;
  const auto device = NewDevice();
  const std::ptrdiff_t files = OpenFiles();
  std::mt19937_64 random(1);
  std::uint8_t* range = NewAddresses(*device, 2 * kMemories * kGranule);
  std::vector<PhysicalMemory> memories;
  for (int i = 0; i < kMemories; ++i) memories.push_back(*device->CreatePhysical(kGranule));
  std::shuffle(memories.begin(), memories.end(), random);
  for (int i = 0; i < kMemories; ++i) {
    ASSERT_TRUE(device->Map(range + 2 * i * kGranule, memories[i]).ok());
    std::memcpy(range + 2 * i * kGranule, &i, sizeof(i));
  }
  EXPECT_EQ(OpenFiles(), files);
  for (int i = 0; i < kMemories; ++i) {
    EXPECT_EQ(std::memcmp(range + 2 * i * kGranule, &i, sizeof(i)), 0);
    ASSERT_TRUE(device->Unmap(range + 2 * i * kGranule).ok());
    ASSERT_TRUE(device->ReleasePhysical(memories[i]).ok());
  }
  EXPECT_EQ(device->used_bytes(), 0);
  EXPECT_TRUE(device->ReleaseAddresses(range, 2 * kMemories * kGranule).ok());
}

TEST(HostDevice, AlignsAddressesToALargeGranularity) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 30;
  const auto device = *HostDevice::Create({.granularity = kLarge});
  for (int i = 0; i < 5; ++i) {
    std::uint8_t* range = NewAddresses(*device, kLarge);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range) % kLarge, 0);
  }
}

int Touch(const std::uint8_t* address) {
  return *static_cast<const volatile std::uint8_t*>(address);
}

TEST(HostDeviceDeathTest, WhoTouchesWhatIsNotThereFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto device = NewDevice();
  std::uint8_t* range = NewAddresses(*device, 2 * kGranule);
  ASSERT_TRUE(device->Map(range, *device->CreatePhysical(kGranule)).ok());
  EXPECT_EQ(Touch(range), 0);
  EXPECT_DEATH(Touch(range + kGranule), "") << "never mapped";
  ASSERT_TRUE(device->Unmap(range).ok());
  EXPECT_DEATH(Touch(range), "") << "not mapped any more";
  std::uint8_t* memory = NewMemory(*device, 1);
  EXPECT_EQ(Touch(memory), 0);
  ASSERT_TRUE(device->FreeMemory(memory).ok());
  EXPECT_DEATH(Touch(memory), "") << "freed";
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Compressed copies of host devices: the bytes that arrive, the bytes that are sent, and whole
// iterations.
#include "tidepool/training/host_compressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/training/execute/program_rig.h"
#include "tidepool/host_device.h"

namespace tidepool {
namespace {

using testing::FixedProgram;
using testing::ProgramRig;
using testing::RandomPrograms;

Machine WithCompressor() {
  const double infinite = std::numeric_limits<double>::infinity();
  Machine machine;
  machine.links[0].out_bytes_per_second = machine.links[0].in_bytes_per_second = infinite;
  machine.devices[0].compressor = {infinite, infinite};
  return machine;
}

std::vector<std::byte> WordsOf(std::size_t bytes, double density) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> words(bytes);
  for (std::size_t at = 0; at < bytes; at += 4) {
    if (!std::bernoulli_distribution(density)(random)) continue;
    const auto word = static_cast<std::uint32_t>(random()) | 1;
    std::memcpy(words.data() + at, &word, std::min<std::size_t>(4, bytes - at));
  }
  return words;
}

class HostCompressorTest : public ::testing::Test {
 protected:
  HostCompressorTest() : device_(HostDevice::Create({}).value()) {
    Device* const devices[] = {device_.get()};
    compressor_ = HostCompressor::Create(devices, WithCompressor()).value();
    stream_ = device_->CreateStream().value();
  }

  // Sends data from the device to the host, and other data of this size back. Returns the bytes
  // that the first copy sent.
  std::int64_t SendAndFetch(const std::vector<std::byte>& data) {
    const auto bytes = static_cast<std::int64_t>(data.size());
    void* const on_device = device_->AllocateMemory(bytes).value();
    std::vector<std::byte> host(data.size(), std::byte{7});
    std::memcpy(on_device, data.data(), data.size());
    const std::int64_t before = compressor_->sent_bytes();
    Carry(host.data(), on_device, bytes, CopyDirection::kFromDevice);
    const std::int64_t sent = compressor_->sent_bytes() - before;
    EXPECT_TRUE(host == data);
    std::reverse(host.begin(), host.end());
    Carry(on_device, host.data(), bytes, CopyDirection::kToDevice);
    EXPECT_EQ(std::memcmp(on_device, host.data(), host.size()), 0);
    EXPECT_EQ(device_->FreeMemory(on_device), absl::OkStatus());
    return sent;
  }

  void Carry(void* to, const void* from, std::int64_t bytes, CopyDirection direction) {
    EXPECT_EQ(
        compressor_->Copy(
            {.to = to, .from = from, .bytes = bytes, .direction = direction, .stream = stream_}),
        absl::OkStatus());
    EXPECT_EQ(device_->SynchronizeStream(stream_), absl::OkStatus());
  }

  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<HostCompressor> compressor_;
  Stream stream_;
};

TEST_F(HostCompressorTest, SendsFewerBytesAndAllArrive) {
  for (const std::size_t bytes : {1u << 20, (1u << 20) + 3, 100'001u, 4096u}) {
    for (const double density : {0.0, 0.1, 0.5, 0.9}) {
      const std::int64_t sent = SendAndFetch(WordsOf(bytes, density));
      // The bytes of the machine's model, and the headers of the codec.
      const double planned = static_cast<double>(bytes) * SentShare(density);
      EXPECT_LT(sent, 1.1 * planned + 512) << bytes << " bytes of density " << density;
      // Blocks of zeros have no bits for their words.
      EXPECT_GT(sent, density > 0 ? 0.9 * planned - 512 : 0) << bytes << " bytes of " << density;
    }
  }
}

TEST_F(HostCompressorTest, SendsBytesThatDoNotCompressAsTheyAre) {
  for (const std::size_t bytes : {1u, 2u, 7u, 1000u, 1u << 20}) {
    EXPECT_EQ(SendAndFetch(WordsOf(bytes, 1)), static_cast<std::int64_t>(bytes));
  }
}

// Lets the process map no more memory than it has and a little for threads.
void ForbidMoreMemory() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{16} << 20);
  const rlimit limit = {bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
}

TEST(HostCompressorDeathTest, SendsBytesAsTheyAreWithoutMemoryToPackThem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto device = HostDevice::Create({}).value();
        Device* const devices[] = {device.get()};
        const auto compressor = HostCompressor::Create(devices, WithCompressor()).value();
        const Stream stream = device->CreateStream().value();
        const std::vector<std::byte> from(std::size_t{256} << 20, std::byte{0});
        std::vector<std::byte> to(from.size(), std::byte{7});
        ForbidMoreMemory();
        const auto bytes = static_cast<std::int64_t>(from.size());
        const bool is_sent =
            compressor
                ->Copy({.to = to.data(), .from = from.data(), .bytes = bytes, .stream = stream})
                .ok() &&
            device->SynchronizeStream(stream).ok();
        std::_Exit(is_sent && to == from && compressor->sent_bytes() == bytes ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(HostCompressorTest, RefusesDevicesWithoutACompressor) {
  EXPECT_TRUE(absl::IsInvalidArgument(compressor_->Copy({.device = 1, .stream = stream_})));
  Device* const devices[] = {device_.get(), device_.get()};
  EXPECT_TRUE(absl::IsInvalidArgument(HostCompressor::Create(devices, WithCompressor()).status()));
  const auto without = HostCompressor::Create(absl::MakeSpan(devices).first(1), Machine()).value();
  EXPECT_TRUE(absl::IsInvalidArgument(without->Copy({})));
}

// Random programs, in which tasks check the bytes that they read.
TEST(CompressedIterations, ReadTheSameBytesAsAPlainRun) {
  int compressed = 0;
  for (int seed = 0; seed < testing::Rounds(60); ++seed) {
    RandomPrograms random = FixedProgram(static_cast<std::uint64_t>(seed));
    std::vector<std::unique_ptr<HostDevice>> owned;
    std::vector<Device*> devices;
    for (std::size_t i = 0; i < random.schedule.devices; ++i) {
      devices.push_back(owned.emplace_back(HostDevice::Create({}).value()).get());
    }
    Machine machine = random.machine;
    for (MachineLink& link : machine.links) {
      link.out_bytes_per_second = link.in_bytes_per_second = 1e12;
      link.latency_seconds = 0;
    }
    for (MachineDevice& device : machine.devices) {
      if (device.compressor.exists()) device.compressor = {1e12, 1e12};
    }
    const auto compressor = HostCompressor::Create(devices, machine).value();
    ProgramRig rig(random, devices);
    const auto copy = [&](const CompressedCopy& one) {
      ++compressed;
      return compressor->Copy(one);
    };
    ASSERT_EQ(rig.Create({.copy_compressed = copy}), absl::OkStatus());
    const auto hashes = rig.Run(2);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, rig.Expected(2)) << "seed " << seed;
  }
  EXPECT_GT(compressed, 10);
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Machines out of range.
#include "tidepool/training/machine.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace tidepool {
namespace {

std::string ErrorAfter(const std::function<void(Machine&)>& change) {
  Machine machine;
  change(machine);
  return std::string(ValidateMachine(machine).message());
}

TEST(ValidateMachine, AcceptsMachinesInRange) {
  EXPECT_EQ(ErrorAfter([](Machine&) {}), "");
  EXPECT_EQ(ErrorAfter([](Machine& m) {
              m.links[0].in_bytes_per_second = std::numeric_limits<double>::infinity();
              m.devices.resize(kMostMachineDevices);
              m.host.cores = kMostHostCores;
            }),
            "");
}

TEST(ValidateMachine, NamesTheNumberThatIsOutOfRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.devices.clear(); }), "0 devices, expected 1 to 64");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.links.resize(65); }), "65 links, expected 1 to 64");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.devices[0].link = 1; }),
            "device 0: link 1, expected a number below 1");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.devices[0].memory_bytes = -1; }),
            "device 0: memory of -1 bytes, expected 0 or more");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.devices[0].compute_streams = 0; }),
            "0 compute streams of device 0, expected 1 to 16");
  EXPECT_EQ(ErrorAfter([](Machine& m) {
              m.devices[0].compressor = {1e9, 0};
            }),
            "device 0: a decompressor of 0 bytes per second, expected at least 1");
  EXPECT_EQ(ErrorAfter([&](Machine& m) {
              m.devices[0].compressor = {kNan, 1e9};
            }),
            "device 0: a compressor of nan bytes per second, expected at least 1");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.links[0].out_bytes_per_second = 0; }),
            "link 0: a rate out of 0 bytes per second, expected at least 1");
  EXPECT_EQ(ErrorAfter([&](Machine& m) { m.links[0].in_bytes_per_second = kNan; }),
            "link 0: a rate in of nan bytes per second, expected at least 1");
  EXPECT_EQ(ErrorAfter([&](Machine& m) { m.links[0].latency_seconds = kNan; }),
            "link 0: a latency of nan seconds, expected 0 to 10^9");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.links[0].sharing = static_cast<LinkSharing>(2); }),
            "link 0: sharing 2, expected equal parts or first come");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.host.cores = 257; }),
            "257 cores of the host, expected 0 to 256");
  EXPECT_EQ(ErrorAfter([](Machine& m) { m.host.update_bytes_per_second = 0.5; }),
            "host: updates of 0.5 bytes per second, expected at least 1");
}

TEST(CopyCompressor, SendsABitForEachWordAndTheOtherWords) {
  EXPECT_EQ(SentShare(0), 1.0 / 32);
  EXPECT_EQ(SentShare(0.5), 17.0 / 32);
  EXPECT_EQ(SentShare(1), 1);
}

TEST(LinkSharingName, NamesAreThoseOfFiles) {
  EXPECT_EQ(LinkSharingName(LinkSharing::kEqualParts), "equal-parts");
  EXPECT_EQ(LinkSharingName(LinkSharing::kFirstComeFirstServed), "first-come-first-served");
}

}  // namespace
}  // namespace tidepool

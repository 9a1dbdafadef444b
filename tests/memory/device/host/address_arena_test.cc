// SPDX-License-Identifier: Apache-2.0
// Memory at addresses in an order that is known.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "tests/support/sizes.h"
#include "tidepool/host_device.h"

namespace tidepool {
namespace {

std::unique_ptr<HostDevice> DeviceWith(AddressOrder order) {
  return HostDevice::Create({.memory_bytes = 64 * kMiB, .addresses = order}).value();
}

char* Allocate(HostDevice& device, std::int64_t bytes) {
  return static_cast<char*>(device.AllocateMemory(bytes).value());
}

TEST(AddressOrder, AscendingAddressesTakeTheLowestThatAreFree) {
  const auto device = DeviceWith(AddressOrder::kAscending);
  char* const first = Allocate(*device, 1);
  char* const second = Allocate(*device, 3 * kMiB);
  char* const third = Allocate(*device, 2 * kMiB);
  EXPECT_EQ(second, first + 2 * kMiB);
  EXPECT_EQ(third, second + 4 * kMiB);
  ASSERT_TRUE(device->FreeMemory(second).ok());
  EXPECT_EQ(Allocate(*device, 6 * kMiB), third + 2 * kMiB);
  EXPECT_EQ(Allocate(*device, 2 * kMiB), second);
  EXPECT_EQ(Allocate(*device, 2 * kMiB), second + 2 * kMiB);
}

TEST(AddressOrder, FallingAddressesTakeTheHighestThatAreFree) {
  const auto device = DeviceWith(AddressOrder::kFalling);
  char* const first = Allocate(*device, 1);
  char* const second = Allocate(*device, 3 * kMiB);
  EXPECT_EQ(second, first - 4 * kMiB);
  char* const third = Allocate(*device, 2 * kMiB);
  EXPECT_EQ(third, second - 2 * kMiB);
  ASSERT_TRUE(device->FreeMemory(second).ok());
  EXPECT_EQ(Allocate(*device, 2 * kMiB), second + 2 * kMiB);
  EXPECT_EQ(Allocate(*device, 6 * kMiB), third - 6 * kMiB);
  EXPECT_EQ(Allocate(*device, 2 * kMiB), second);
}

TEST(AddressOrder, MemoryThatIsTakenAgainIsZero) {
  const auto device = DeviceWith(AddressOrder::kAscending);
  char* const memory = Allocate(*device, 3 * kMiB);
  std::memset(memory, 7, 3 * kMiB);
  ASSERT_TRUE(device->FreeMemory(memory).ok());
  char* const again = Allocate(*device, 3 * kMiB);
  ASSERT_EQ(again, memory);
  EXPECT_EQ(std::string(again, 3 * kMiB), std::string(3 * kMiB, '\0'));
}

TEST(AddressOrder, TheBudgetHolds) {
  const auto device = DeviceWith(AddressOrder::kFalling);
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocateMemory(64 * kMiB + 1).status()));
  EXPECT_TRUE(device->AllocateMemory(64 * kMiB).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocateMemory(1).status()));
}

}  // namespace
}  // namespace tidepool

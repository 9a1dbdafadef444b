// SPDX-License-Identifier: Apache-2.0
// Events and streams end with their owner, and with it alone.
#include "lib/memory/device/owned.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <utility>

#include "tidepool/host_device.h"

namespace tidepool::device {
namespace {

class OwnedEventTest : public ::testing::Test {
 protected:
  bool Exists(Event event) { return device_->QueryEvent(event).ok(); }

  std::unique_ptr<HostDevice> device_ = HostDevice::Create({.memory_bytes = 1 << 20}).value();
};

TEST_F(OwnedEventTest, IsDestroyedWithItsOwner) {
  Event event;
  {
    const OwnedEvent owned = OwnedEvent::Create(*device_).value();
    event = owned.get();
    EXPECT_FALSE(owned.is_empty());
    EXPECT_TRUE(Exists(event));
  }
  EXPECT_FALSE(Exists(event));
}

TEST_F(OwnedEventTest, MovesToAnotherOwner) {
  OwnedEvent first = OwnedEvent::Create(*device_).value();
  OwnedEvent second = OwnedEvent::Create(*device_).value();
  const Event kept = first.get();
  const Event dropped = second.get();
  second = std::move(first);
  EXPECT_TRUE(first.is_empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), kept);
  EXPECT_TRUE(Exists(kept));
  EXPECT_FALSE(Exists(dropped));
  const OwnedEvent third = std::move(second);
  EXPECT_TRUE(Exists(third.get()));
}

TEST_F(OwnedEventTest, IsCreatedOnce) {
  OwnedEvent owned;
  EXPECT_EQ(owned.get(), Event());
  ASSERT_TRUE(owned.Ensure(*device_).ok());
  const Event event = owned.get();
  ASSERT_TRUE(owned.Ensure(*device_).ok());
  EXPECT_EQ(owned.get(), event);
  owned = {};
  EXPECT_FALSE(Exists(event));
}

TEST_F(OwnedEventTest, RefusesAStreamThatDoesNotExist) {
  EXPECT_TRUE(absl::IsNotFound(OwnedEvent::Record(*device_, Stream{.id = 99}).status()));
}

TEST(OwnedStreamTest, IsDestroyedWithItsOwnerWhileItsWorkRuns) {
  const auto device = HostDevice::Create({.memory_bytes = 1 << 20}).value();
  const auto end = OwnedEvent::Create(*device).value();
  std::promise<void> may_run;
  bool has_run = false;
  Stream stream;
  {
    OwnedStream first = OwnedStream::Create(*device).value();
    const OwnedStream owned = std::move(first);
    stream = owned.get();
    ASSERT_TRUE(device
                    ->CallHost(stream,
                               [&] {
                                 may_run.get_future().wait();
                                 has_run = true;
                               })
                    .ok());
    ASSERT_TRUE(device->RecordEvent(end.get(), stream).ok());
    EXPECT_TRUE(device->HasStream(stream));
  }
  EXPECT_FALSE(device->HasStream(stream));
  may_run.set_value();
  ASSERT_TRUE(device->SynchronizeEvent(end.get()).ok());
  EXPECT_TRUE(has_run);
}

TEST(OwnedStreamTest, IsEmptyByDefault) {
  const OwnedStream owned;
  EXPECT_TRUE(owned.is_empty());
  EXPECT_EQ(owned.get(), Stream());
}

}  // namespace
}  // namespace tidepool::device

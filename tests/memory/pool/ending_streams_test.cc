// SPDX-License-Identifier: Apache-2.0
// Streams that their owner destroys without a word: the pool does not name them to the device
// outside of a call that names them, and no memory goes to another stream early.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

// Streams may end, but for those of `Keep`. The work of an ended stream still runs; a call that
// names it is a fault.
class EndingStreamsDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Keep(Stream stream) { kept_.insert(stream.id); }
  void End(Stream stream) { ended_.insert(stream.id); }
  int records_of_all() const { return records_of_all_; }

  bool MayEnd(Stream stream) const override { return !kept_.contains(stream.id); }
  absl::Status RecordEvent(Event event, Stream stream) override {
    ExpectNotEnded(stream);
    return ForwardingDevice::RecordEvent(event, stream);
  }
  absl::Status RecordAll(Event event) override {
    ++records_of_all_;
    return ForwardingDevice::RecordAll(event);
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    ExpectNotEnded(stream);
    return ForwardingDevice::WaitEvent(stream, event);
  }
  absl::Status SynchronizeStream(Stream stream) override {
    ExpectNotEnded(stream);
    return ForwardingDevice::SynchronizeStream(stream);
  }

 private:
  void ExpectNotEnded(Stream stream) const {
    EXPECT_FALSE(ended_.contains(stream.id)) << "stream " << stream.id << " has ended";
  }

  std::set<std::uint64_t> kept_;
  std::set<std::uint64_t> ended_;
  int records_of_all_ = 0;
};

class EndingStreamsTest : public PoolFixture {
 protected:
  static constexpr std::int64_t kBytes = 64 * kKiB;  // all of the pool

  EndingStreamsTest() { ending_.Keep(kept_); }

  // Frees the whole pool on `stream` under a copy that is held, ends the stream, takes the memory
  // on another and overwrites it there. Returns whether the copy still found its bytes.
  bool IsIntactAfterItsEnd(Pool& pool, Stream stream) {
    std::vector<char> read(kBytes);
    void* const p = *pool.Allocate(kBytes, stream);
    EXPECT_TRUE(device_->Fill(p, 1, kBytes, stream).ok());
    EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
    device_->HoldCopies();
    EXPECT_TRUE(device_->Copy(read.data(), p, kBytes, CopyDirection::kFromDevice, stream).ok());
    EXPECT_TRUE(pool.Free(p, stream).ok());
    ending_.End(stream);
    void* const q = *pool.Allocate(kBytes, kept_);
    EXPECT_EQ(p, q);
    EXPECT_TRUE(device_->Fill(q, 2, kBytes, kept_).ok());
    const Event filled = *device_->CreateEvent();
    EXPECT_TRUE(device_->RecordEvent(filled, kept_).ok());
    EXPECT_FALSE(*device_->QueryEvent(filled)) << "it waits, on the device";
    device_->ReleaseCopies();
    EXPECT_TRUE(device_->SynchronizeEvent(filled).ok());
    EXPECT_TRUE(pool.Free(q, kept_).ok());
    return std::count(read.begin(), read.end(), 1) == kBytes;
  }

  EndingStreamsDevice ending_{*device_};
  const Stream kept_ = NewStream();
  std::unique_ptr<Pool> pool_ = Pool::Create(&ending_, {.max_bytes = kBytes}).value();
};

TEST_F(EndingStreamsTest, TheFirstStreamOfAPoolIsFollowedByTheWorkOfAll) {
  EXPECT_TRUE(IsIntactAfterItsEnd(*pool_, NewStream()));
  EXPECT_EQ(ending_.records_of_all(), 1);
}

TEST_F(EndingStreamsTest, FreesAreRecordedOnceSeveralStreamsUseThePool) {
  const Stream other = NewStream();
  for (const Stream stream : {kept_, other}) {
    EXPECT_TRUE(pool_->Free(*pool_->Allocate(kBytes, stream), stream).ok());
  }
  const int before = ending_.records_of_all();
  EXPECT_TRUE(IsIntactAfterItsEnd(*pool_, NewStream()));
  EXPECT_TRUE(IsIntactAfterItsEnd(*pool_, NewStream()));
  EXPECT_EQ(ending_.records_of_all(), before);
}

TEST_F(EndingStreamsTest, AUserThatEndedIsFollowedByTheWorkOfAll) {
  const Stream user = NewStream();
  EXPECT_TRUE(pool_->Free(*pool_->Allocate(kBytes, user), user).ok());
  void* const p = *pool_->Allocate(kBytes, kept_);
  ASSERT_TRUE(pool_->RecordUse(p, user).ok());
  std::vector<char> read(kBytes);
  EXPECT_TRUE(device_->Fill(p, 1, kBytes, user).ok());
  EXPECT_TRUE(device_->SynchronizeStream(user).ok());
  device_->HoldCopies();
  EXPECT_TRUE(device_->Copy(read.data(), p, kBytes, CopyDirection::kFromDevice, user).ok());
  ending_.End(user);
  EXPECT_TRUE(pool_->Free(p, kept_).ok());
  void* const q = *pool_->Allocate(kBytes, kept_);
  EXPECT_TRUE(device_->Fill(q, 2, kBytes, kept_).ok());
  device_->ReleaseCopies();
  EXPECT_TRUE(device_->SynchronizeStream(kept_).ok());
  EXPECT_EQ(std::count(read.begin(), read.end(), 1), kBytes);
  EXPECT_TRUE(pool_->Free(q, kept_).ok());
}

// Caches and slabs of streams keep frees to themselves, so streams that may end have none.
TEST_F(EndingStreamsTest, SmallFreesOfAnEndedStreamAreRecordedToo) {
  auto pool = Pool::Create(&ending_, {.initial_bytes = 64 * kMiB, .max_bytes = 64 * kMiB}).value();
  const std::vector<Stream> streams = {NewStream(), NewStream()};
  for (const Stream stream : streams) {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_TRUE(pool->Free(*pool->Allocate(512 + 512 * (i % 7), stream), stream).ok());
    }
  }
  const int before = ending_.records_of_all();
  for (const Stream stream : streams) ending_.End(stream);
  void* const all = *pool->Allocate(64 * kMiB, kept_);
  EXPECT_TRUE(pool->Free(all, kept_).ok());
  EXPECT_EQ(ending_.records_of_all(), before);
}

// A device that cannot record a free is asked for the work of all streams later.
TEST_F(EndingStreamsTest, AFreeThatIsNotRecordedIsSafeToo) {
  const Stream other = NewStream();
  for (const Stream stream : {kept_, other}) {
    EXPECT_TRUE(pool_->Free(*pool_->Allocate(kBytes, stream), stream).ok());
  }
  const Stream ended = NewStream();
  void* const p = *pool_->Allocate(kBytes, ended);
  device_->FailCall(HostDevice::Call::kRecordEvent, 1);
  EXPECT_TRUE(pool_->Free(p, ended).ok());
  ending_.End(ended);
  const int before = ending_.records_of_all();
  void* const q = *pool_->Allocate(kBytes, kept_);
  EXPECT_EQ(ending_.records_of_all(), before + 1);
  EXPECT_TRUE(pool_->Free(q, kept_).ok());
}

}  // namespace
}  // namespace tidepool

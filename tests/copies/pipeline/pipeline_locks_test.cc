// SPDX-License-Identifier: Apache-2.0
// A call of the pipeline that the device holds up keeps no transfer from its end.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <latch>
#include <utility>

#include "tests/copies/pipeline/pipeline_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

// A device with a stream that takes no record until there is room in its queue. Held copies go on
// when a thread waits for that.
class FullStreamDevice final : public testing::ForwardingDevice {
 public:
  explicit FullStreamDevice(HostDevice& host)
      : ForwardingDevice(host), full_(host.CreateStream().value()), host_(host) {}
  Stream full() const { return full_; }
  void MakeRoom() { has_room_.count_down(); }

  absl::Status RecordEvent(Event event, Stream stream) override {
    if (stream == full_) {
      host_.ReleaseCopies();
      has_room_.wait();
    }
    return ForwardingDevice::RecordEvent(event, stream);
  }

 private:
  const Stream full_;
  HostDevice& host_;
  std::latch has_room_{1};
};

class PipelineLocksTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Directions, PipelineLocksTest, ::testing::Bool());

// The end of the first transfer makes the room that the second waits for.
TEST_P(PipelineLocksTest, AFullStreamHoldsUpNoTransferThatItWaitsFor) {
  const bool is_out = GetParam();
  PipelineFixture fixture;
  FullStreamDevice device(fixture.device());
  const auto pipeline = CompressionPipeline::Create(&device, &fixture.staging(), &fixture.pages(),
                                                    {.ring = {.slots = 3, .slot_bytes = 32 * kKiB}})
                            .value();
  const std::int64_t bytes = 150 * kKiB;
  const Bytes contents = ActivationBytes(bytes, 0.5, 1);
  void* const memory = fixture.NewMemory(contents);
  void* const other = fixture.NewMemory(bytes);
  const Stored stored = fixture.Offload(memory, bytes).value();
  fixture.device().HoldCopies();
  ASSERT_TRUE(pipeline
                  ->Offload(memory, bytes, ZeroValueWord::k32Bits, {},
                            [&](const absl::StatusOr<Stored>& end) {
                              EXPECT_TRUE(end.ok()) << end.status();
                              device.MakeRoom();
                            })
                  .ok());
  std::promise<absl::Status> over;
  const absl::Status begun =
      is_out ? pipeline->Offload(
                   memory, bytes, ZeroValueWord::k32Bits, device.full(),
                   [&](const absl::StatusOr<Stored>& end) { over.set_value(end.status()); })
             : pipeline->Prefetch(stored, other, device.full(),
                                  [&](absl::Status end) { over.set_value(std::move(end)); });
  ASSERT_TRUE(begun.ok()) << begun;
  EXPECT_TRUE(over.get_future().get().ok());
  if (!is_out) {
    EXPECT_EQ(fixture.Read(other, bytes), contents);
  }
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Densities of buffers that are out, raw and compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/copies/offload/offloader_fixture.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kWords = 100'000;
constexpr std::int64_t kFixtureBytes = 4 * kWords;

class OffloaderDensityTest : public ::testing::TestWithParam<bool> {
 protected:
  // Makes a buffer in which every `period`-th word is not zero.
  BufferId New(std::int64_t period) {
    const BufferId buffer = fixture_.New(kFixtureBytes, 1);
    void* const address = offloader_.Use(buffer, fixture_.stream()).value();
    EXPECT_TRUE(fixture_.device()
                    .CallHost(fixture_.stream(),
                              [=] {
                                auto* const words = static_cast<std::uint32_t*>(address);
                                std::memset(address, 0, kFixtureBytes);
                                for (std::int64_t i = 0; i < kWords; i += period) words[i] = 1;
                              })
                    .ok());
    return buffer;
  }
  void SendAndAwait(BufferId buffer) {
    ASSERT_TRUE(fixture_.Send(buffer).ok());
    ASSERT_TRUE(offloader_.Await(buffer).ok());
  }

  OffloaderFixture fixture_{{.compresses = GetParam()}};
  Offloader& offloader_ = fixture_.offloader();
};
INSTANTIATE_TEST_SUITE_P(Copies, OffloaderDensityTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Compressed" : "Raw"; });

TEST_P(OffloaderDensityTest, IsThatOfTheDataThatLeft) {
  for (const std::int64_t period : {1, 2, 5, 100}) {
    const BufferId buffer = New(period);
    SendAndAwait(buffer);
    const DensityEstimate estimate = offloader_.ProbeDensity(buffer).value();
    EXPECT_EQ(estimate.is_exact, GetParam());
    EXPECT_NEAR(estimate.density, 1.0 / static_cast<double>(period), estimate.error + 1e-5);
    EXPECT_LT(estimate.error, 0.04);
    // A probe changes nothing.
    ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
    const void* const address = offloader_.Use(buffer, fixture_.stream()).value();
    ASSERT_TRUE(fixture_.device().SynchronizeStream(fixture_.stream()).ok());
    EXPECT_EQ(static_cast<const std::uint32_t*>(address)[period % kWords], 1);
    ASSERT_TRUE(offloader_.Free(buffer).ok());
  }
}

TEST_P(OffloaderDensityTest, OfABufferOnTheDeviceIsRefused) {
  const BufferId buffer = New(2);
  const absl::Status status = offloader_.ProbeDensity(buffer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a buffer that is out"));
  EXPECT_EQ(offloader_.ProbeDensity({987'654'321}).status().code(), absl::StatusCode::kNotFound);
  SendAndAwait(buffer);
  EXPECT_EQ(offloader_.ProbeDensity(buffer, {.lines = 1}).ok(), GetParam());
  EXPECT_EQ(offloader_.ProbeDensity(buffer, {.word = ZeroValueWord::k16Bits}).ok(), !GetParam());
}

}  // namespace
}  // namespace tidepool

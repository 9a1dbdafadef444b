// SPDX-License-Identifier: Apache-2.0
// Compression chosen again: bands of densities, and choices equal to those of new schedules.
#include "tidepool/training/adaptive_compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class AdaptiveCompressionTest : public ::testing::Test {
 protected:
  AdaptiveCompressionTest() {
    options_.set = OffloadSet::kAll;
    options_.machine.memory() = std::int64_t{8} << 30;
    options_.machine.placing.placement = "planned";
    CompressionProfile& profile = options_.machine.placing.compression;
    profile.words32 = {{0.01, 0.01}, {0.01, 0.01}, 1};
    profile.slot_ns = 0;
  }

  std::vector<double> All(double density) const {
    return std::vector<double>(graph_.data.size(), density);
  }

  AdaptiveCompression Make(double density) {
    options_.densities = All(density);
    const Schedule schedule = testing::MakePoolSchedule("vdnn++", graph_, options_).value();
    const Timeline timeline = Simulate(graph_, schedule, options_.machine).value();
    return AdaptiveCompression::Create(graph_, timeline,
                                       {.machine = options_.machine.machine,
                                        .placing = options_.machine.placing,
                                        .densities = options_.densities})
        .value();
  }

  // Notes an exact density of all data.
  void NoteAll(AdaptiveCompression& adaptive, double density) const {
    for (std::size_t i = 0; i < graph_.data.size(); ++i) {
      adaptive.Note(i, {.density = density, .is_exact = true});
    }
  }

  static int Compressed(const Schedule& schedule) {
    int compressed = 0;
    for (const ScheduleStep& step : schedule.steps) compressed += step.density >= 0 ? 1 : 0;
    return compressed;
  }

  const TaskGraph graph_ = MakeModel("alexnet", testing::PaperModel(64, "gtx-1080-ti")).value();
  testing::PoolPolicy options_;
};

TEST_F(AdaptiveCompressionTest, ChoicesAreThoseOfNewSchedules) {
  AdaptiveCompression adaptive = Make(1);
  EXPECT_EQ(Compressed(adaptive.schedule()), 0);
  for (const double density : {0.3, 0.8, 0.1, 1.0, 0.5}) {
    NoteAll(adaptive, density);
    const absl::StatusOr<std::optional<Timeline>> timeline = adaptive.ChooseAgain();
    ASSERT_TRUE(timeline.ok() && timeline->has_value()) << timeline.status();
    // A saving must be certain in the whole band.
    options_.densities = All(std::min(density + 0.02, 1.0));
    const Schedule fresh = testing::MakePoolSchedule("vdnn++", graph_, options_).value();
    EXPECT_EQ(Compressed(adaptive.schedule()), Compressed(fresh)) << density;
    EXPECT_EQ(Compressed(adaptive.schedule()) > 0, density < 0.95) << density;
    EXPECT_EQ((*timeline)->seconds,
              Simulate(graph_, adaptive.schedule(), options_.machine)->seconds);
  }
  EXPECT_EQ(adaptive.choices(), 5);
}

TEST_F(AdaptiveCompressionTest, WithinTheBandTheChoiceStands) {
  AdaptiveCompression adaptive = Make(0.5);
  const Schedule before = adaptive.schedule();
  for (const double density : {0.5, 0.485, 0.515, 0.51}) {
    NoteAll(adaptive, density);
    EXPECT_FALSE(adaptive.ChooseAgain()->has_value()) << density;
  }
  EXPECT_EQ(adaptive.choices(), 0);
  EXPECT_EQ(adaptive.schedule(), before);
  EXPECT_EQ(adaptive.noted(), 4 * static_cast<std::int64_t>(graph_.data.size()));
}

// The band is [0.48, 0.52].
TEST_F(AdaptiveCompressionTest, AnEstimateLeavesWithItsWholeInterval) {
  AdaptiveCompression adaptive = Make(0.5);
  adaptive.Note(3, {.density = 0.6, .error = 0.081});
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
  adaptive.Note(3, {.density = 0.4, .error = 0.081});
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
  adaptive.Note(3, {.density = 0.6, .error = 0.079});
  EXPECT_TRUE(adaptive.ChooseAgain()->has_value());
  // The new band is [0.521, 0.679].
  adaptive.Note(3, {.density = 0.5, .error = 0.022});
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
  adaptive.Note(3, {.density = 0.5, .error = 0.02});
  EXPECT_TRUE(adaptive.ChooseAgain()->has_value());
  EXPECT_EQ(adaptive.choices(), 2);
}

TEST_F(AdaptiveCompressionTest, OnlyTheLatestDensityCounts) {
  AdaptiveCompression adaptive = Make(0.5);
  adaptive.Note(3, {.density = 0.9, .is_exact = true});
  adaptive.Note(3, {.density = 0.5, .is_exact = true});
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
}

// Compressed data fits the host; dense data would stay on the device.
TEST_F(AdaptiveCompressionTest, DataThatLeavesNeverStays) {
  options_.machine.host_memory() = std::int64_t{150} << 20;
  AdaptiveCompression adaptive = Make(0.1);
  ASSERT_GT(Compressed(adaptive.schedule()), 0);
  const Schedule before = adaptive.schedule();
  NoteAll(adaptive, 1);
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
  EXPECT_EQ(adaptive.schedule(), before);
  EXPECT_FALSE(adaptive.ChooseAgain()->has_value());
  EXPECT_EQ(adaptive.choices(), 0);
}

TEST_F(AdaptiveCompressionTest, RefusesWhatCannotBe) {
  const Schedule schedule = testing::MakePoolSchedule("vdnn++", graph_, options_).value();
  const Timeline timeline = Simulate(graph_, schedule, options_.machine).value();
  const auto error = [&](const AdaptiveCompressionOptions& options) {
    const auto made = AdaptiveCompression::Create(graph_, timeline, options);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  EXPECT_THAT(error({.densities = {0.5}}), HasSubstr("1 densities, expected"));
  EXPECT_THAT(error({.densities = All(2)}), HasSubstr("expected 0 to 1"));
}

}  // namespace
}  // namespace tidepool

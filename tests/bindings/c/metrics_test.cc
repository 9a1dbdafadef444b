// SPDX-License-Identifier: Apache-2.0
// The figures of all pools as text for Prometheus.
#include <gmock/gmock.h>

#include <cstddef>
#include <string>
#include <thread>

#include "tests/bindings/c/fixture.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Asks again where the text has grown, as any caller does while pools come and go.
std::string Metrics() {
  std::string text;
  std::size_t size = 0;
  do {
    text.resize(size);
    EXPECT_EQ(tidepool_get_metrics(text.data(), text.size() + 1, &size), TIDEPOOL_OK);
  } while (size > text.size());
  text.resize(size);
  return text;
}

// Returns the value of a sample of the pool with a budget of `budget` bytes; -1 without one.
double SampleOf(const std::string& family, std::size_t budget, const std::string& more = "") {
  const std::string text = Metrics();
  const std::string value = "} " + std::to_string(budget) + "\n";
  const std::size_t end = text.find(value);
  const std::size_t begin = text.rfind('{', end);
  if (end == std::string::npos) return -1;
  const std::string sample = "\n" + family + text.substr(begin, end - begin) + more + "} ";
  const std::size_t found = text.find(sample);
  return found == std::string::npos ? -1 : std::stod(text.substr(found + sample.size()));
}

TEST(MetricsTest, HasTheFiguresOfEachPool) {
  constexpr std::size_t kBudget = 3 << 20;
  constexpr std::size_t kOther = 5 << 20;
  const CPool pool("device=host,budget=3MiB");
  const CPool other("device=host,budget=5MiB");
  void* const address = pool.Allocate(1000);
  pool.Free(pool.Allocate(5000));
  EXPECT_EQ(SampleOf("tidepool_live_bytes", kBudget), 1024);
  EXPECT_EQ(SampleOf("tidepool_live_count", kBudget), 1);
  EXPECT_EQ(SampleOf("tidepool_allocations_total", kBudget), 2);
  EXPECT_EQ(SampleOf("tidepool_frees_total", kBudget), 1);
  EXPECT_EQ(SampleOf("tidepool_allocations_total", kOther), 0);
  pool.Free(address);
  EXPECT_EQ(SampleOf("tidepool_live_bytes", kBudget), 0);
}

TEST(MetricsTest, TellsTypesAndMeanings) {
  const CPool pool;
  const std::string text = Metrics();
  EXPECT_THAT(text, HasSubstr("# HELP tidepool_live_bytes bytes of live allocations\n"
                              "# TYPE tidepool_live_bytes gauge\ntidepool_live_bytes{pool=\""));
  EXPECT_THAT(text, HasSubstr("\n# TYPE tidepool_failures_total counter\n"));
  EXPECT_THAT(text, HasSubstr("\",device=\"host\"} 0\n"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(MetricsTest, CountsOwnersAndEscapesTheirNames) {
  constexpr std::size_t kBudget = 7 << 20;
  const CPool pool("device=host,budget=7MiB");
  std::size_t owner = 0;
  ASSERT_EQ(tidepool_add_owner(pool.get(), "a\"b\\c\nd", &owner), TIDEPOOL_OK);
  void* address = nullptr;
  ASSERT_EQ(tidepool_allocate_for(pool.get(), owner, 512, nullptr, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_OK);
  const std::string label = ",owner=\"a\\\"b\\\\c\\nd\"";
  EXPECT_EQ(SampleOf("tidepool_owner_live_bytes", kBudget, label), 512);
  EXPECT_EQ(SampleOf("tidepool_owner_allocations_total", kBudget, label), 1);
  pool.Free(address);
  EXPECT_EQ(SampleOf("tidepool_owner_live_bytes", kBudget, label), 0);
}

TEST(MetricsTest, HasTheFiguresOfRegions) {
  constexpr std::size_t kBudget = 13 << 20;
  const CPool pool("device=host,budget=13MiB");
  void* address = nullptr;
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "kv \"1\"", 512, nullptr, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_OK);
  const std::string label = ",region=\"kv \\\"1\\\"\"";
  EXPECT_EQ(SampleOf("tidepool_region_live_bytes", kBudget, label), 512);
  EXPECT_EQ(SampleOf("tidepool_region_is_asleep", kBudget, label), 0);
  EXPECT_EQ(SampleOf("tidepool_region_blocked_total", kBudget, label), 0);
  ASSERT_EQ(tidepool_pause(pool.get(), "kv \"1\"", TIDEPOOL_PAUSE_DISCARD, nullptr), TIDEPOOL_OK);
  EXPECT_EQ(SampleOf("tidepool_region_is_asleep", kBudget, label), 1);
  EXPECT_EQ(SampleOf("tidepool_region_pauses_total", kBudget, label), 1);
  EXPECT_EQ(SampleOf("tidepool_region_reserved_bytes", kBudget, label), 0);
  pool.Free(address);
}

TEST(MetricsTest, FitsTheCallersMemory) {
  const CPool pool;
  const std::string whole = Metrics();
  std::string text(11, 'x');
  std::size_t size = 0;
  ASSERT_EQ(tidepool_get_metrics(text.data(), 10, &size), TIDEPOOL_OK);
  EXPECT_EQ(size, whole.size());
  EXPECT_EQ(text, whole.substr(0, 9) + '\0' + 'x');
  EXPECT_EQ(tidepool_get_metrics(nullptr, 1, &size), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_get_metrics(text.data(), 1, nullptr), TIDEPOOL_INVALID_ARGUMENT);
}

TEST(MetricsTest, LeavesOutPoolsThatWereDestroyed) {
  { const CPool pool("device=host,budget=11MiB"); }
  EXPECT_THAT(Metrics(), Not(HasSubstr(std::to_string(11 << 20))));
}

TEST(MetricsTest, MayRunWhilePoolsEnd) {
  std::thread maker([] {
    for (int i = 0; i < 200; ++i) const CPool pool("device=host,device_memory=1MiB");
  });
  for (int i = 0; i < 200; ++i) EXPECT_THAT(Metrics(), HasSubstr("tidepool_live_bytes"));
  maker.join();
}

}  // namespace
}  // namespace tidepool

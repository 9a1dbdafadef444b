// SPDX-License-Identifier: Apache-2.0
// Files of schedules: valid ones, refused ones, and the lines in errors.
#include "tidepool/training/schedule_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/reader_faults.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_files.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomGraphs;
using testing::Rounds;
using ::testing::StartsWith;

constexpr char kSmall[] = R"({"tidepool_schedule": 2, "policy": "example", "graph": "small",
"fingerprint": "00000000000000ff", "memory": "fixed", "alignment": 64, "devices": 2,
"machine": {
 "devices": [{"memory": 1000, "link": 1, "compute_streams": 2}, {"memory": 2000, "compressor": 2e11, "decompressor": "infinite"}],
 "links": [{"out": 1e9, "in": "infinite"},
           {"out": 1, "in": 2, "latency": 1e-5, "full_duplex": false, "sharing": "first-come-first-served"}],
 "host": {"memory": 5, "cores": 3, "accumulation": 7, "update": 8}},
"rounds": [{"steps": 3, "times": 4, "batch": 16}, {"steps": 5}],
"steps": [
["allocate", 1, 64, 1, "offloadable"],
["run", 2, 1, 128, "host", 3],
["offload", 3, 8, 16, 0, 0.25],
["prefetch", 4, 0, -1, 192],
["drop", 5, 8],
["free", 6],
["free", 7],
["synchronize"]]}
)";

std::string With(const std::string& from, const std::string& to) {
  return testing::Replaced(kSmall, from, to);
}

std::string ErrorOf(const std::string& json) {
  return testing::FaultOf(ParseSchedule(json, "s.json"), json, "s.json");
}

TEST(ScheduleFile, IsReadInWords) {
  const absl::StatusOr<ScheduleFile> file = ParseSchedule(kSmall, "s.json");
  ASSERT_TRUE(file.ok()) << file.status();
  const Schedule& schedule = file->schedule;
  EXPECT_EQ(schedule.policy, "example");
  EXPECT_EQ(file->graph, "small");
  EXPECT_EQ(schedule.fingerprint, 255);
  EXPECT_EQ(schedule.memory, ScheduleMemory::kFixed);
  EXPECT_EQ(schedule.alignment, 64);
  EXPECT_EQ(schedule.devices, 2);
  EXPECT_THAT(schedule.rounds, ElementsAre(ScheduleRound{0, 3, 4, 16}, ScheduleRound{3, 5, 1, 0}));
  std::vector<ScheduleStep> steps(8);
  steps[0] = {.kind = StepKind::kAllocate,
              .index = 1,
              .hint = Hint::kOffloadable,
              .device = 1,
              .offset = 64};
  steps[1] = {.index = 2, .algorithm = 1, .device = kHostDevice, .stream = 3, .offset = 128};
  steps[2] = {.kind = StepKind::kOffload, .index = 3, .density = 0.25, .begin = 8, .end = 16};
  steps[3] = {.kind = StepKind::kPrefetch, .index = 4, .offset = 192};
  steps[4] = {.kind = StepKind::kDrop, .index = 5, .begin = 8};
  steps[5] = {StepKind::kFree, 6};
  steps[6] = {StepKind::kFree, 7};
  steps[7] = {StepKind::kSynchronize};
  EXPECT_EQ(schedule.steps, steps);
  EXPECT_THAT(file->step_lines, ElementsAre(10, 11, 12, 13, 14, 15, 16, 17));
  Machine machine;
  machine.devices = {{1000, 1, 2}, {2000, 0, 1}};
  machine.devices[1].compressor = {2e11, std::numeric_limits<double>::infinity()};
  machine.links = {{1e9, std::numeric_limits<double>::infinity()},
                   {1, 2, 1e-5, false, LinkSharing::kFirstComeFirstServed}};
  machine.host = {5, 3, 7, 8};
  EXPECT_EQ(file->machine, machine);
}

ScheduleFile Comparable(ScheduleFile file) {
  file.source.clear();
  file.step_lines.clear();
  return file;
}
void ExpectSame(const ScheduleFile& a, const ScheduleFile& b) {
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.machine, b.machine);
  EXPECT_EQ(a.batch_normalization, b.batch_normalization);
}

TEST(ScheduleFile, IsReadAsItWasWritten) {
  ScheduleFile file = Comparable(ParseSchedule(kSmall, "s.json").value());
  EXPECT_EQ(file.batch_normalization, BatchNormalization::kUnknown);
  file.batch_normalization = BatchNormalization::kGhost;
  const absl::StatusOr<ScheduleFile> again = ParseSchedule(ScheduleJson(file), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(*again, file);
  EXPECT_EQ(ScheduleJson(*again), ScheduleJson(file));
  const std::string path = TemporaryFile("schedule.json.gz");
  ASSERT_EQ(WriteSchedule(file, path), absl::OkStatus());
  ExpectSame(ReadSchedule(path).value(), file);
}

TEST(ScheduleFileProperty, IsReadAsItWasWritten) {
  RandomGraphs random(31);
  for (int i = 0; i < Rounds(300); ++i) {
    ScheduleFile file;
    if (random.Chance(0.5)) {
      const TaskGraph graph = random.Valid(1 + random.Below(20));
      file = {testing::RandomSchedules(graph, random).Valid(), "a \"name\"\n"};
    } else {
      const TaskGraph graph = testing::RandomTraining(random).Make(1 + random.Below(3));
      auto schedule =
          testing::RandomDeviceSchedules(graph, random, ScheduleMemory::kFixed, 1 + random.Below(2))
              .Valid(1 + random.Below(3));
      if (!schedule.has_value()) continue;
      file = {*std::move(schedule), "x"};
      ASSERT_EQ(ValidateScheduleFile({&graph, 1}, file), absl::OkStatus());
    }
    for (ScheduleStep& step : file.schedule.steps) {
      // Only memory has a hint in files.
      const bool takes = step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch;
      if (!takes) step.hint = Hint::kResident;
    }
    const absl::StatusOr<ScheduleFile> again = ParseSchedule(ScheduleJson(file), "again");
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*again, file);
  }
}

TEST(ScheduleFile, RefusesWrongValues) {
  EXPECT_EQ(ErrorOf(With("schedule\": 2", "schedule\": 3")),
            "s.json:1: tidepool_schedule of a schedule is 3, expected 1 or 2");
  EXPECT_EQ(
      ErrorOf(With("\"00000000000000ff\"", "\"ff\"")),
      "s.json:2: fingerprint of a schedule is the text 'ff', expected a text of 16 hexadecimal "
      "digits");
  EXPECT_EQ(
      ErrorOf(With("\"fixed\"", "\"loose\"")),
      "s.json:2: memory of a schedule is the text 'loose', expected 'pool', 'fixed' or 'paged'");
  EXPECT_EQ(ErrorOf(With("\"alignment\": 64", "\"alignment\": -64")),
            "s.json:2: alignment of a schedule is -64, expected a whole number from 0 to 2^63 - 1");
  EXPECT_EQ(ErrorOf(With("\"devices\": 2", "\"devices\": 1e3")),
            "s.json:2: devices of a schedule is 1e3, expected a whole number from 0 to 2^63 - 1");
  EXPECT_EQ(ErrorOf(With("\"devices\": 2", "\"batch_normalization\": \"some\"")),
            "s.json:2: batch_normalization of a schedule is the text 'some', expected 'batch' or "
            "'ghost'");
  EXPECT_EQ(ErrorOf(With("\"full_duplex\": false", "\"full_duplex\": 0")),
            "s.json:6: full_duplex of a link is 0, expected true or false");
  EXPECT_EQ(
      ErrorOf(With("first-come-", "last-come-")),
      "s.json:6: sharing of a link is the text 'last-come-first-served', expected 'equal-parts' or "
      "'first-come-first-served'");
  EXPECT_EQ(ErrorOf(With("\"out\": 1e9", "\"out\": null")),
            "s.json:5: out of a link is null, expected a number, or 'infinite'");
  EXPECT_THAT(ErrorOf(With("\"link\": 1", "\"link\": 2")), HasSubstr("link 2"));
  EXPECT_EQ(ErrorOf(With("\"times\": 4", "\"time\": 4")),
            "s.json:8: the unknown key 'time' in a round, expected steps, times, batch");
  EXPECT_EQ(ErrorOf(With("\"times\": 4", "\"steps\": 4")),
            "s.json:8: the key 'steps' is in a round twice, expected it once");
  EXPECT_EQ(ErrorOf(With("{\"steps\": 5}", "{\"times\": 5}")),
            "s.json:8: a round without steps, expected every required key");
  EXPECT_EQ(ErrorOf(With("\"memory\": \"fixed\", ", "")),
            "s.json:17: a schedule without memory, expected every required key");
}

// There an offload of a pool gave memory back too.
TEST(ScheduleFile, FilesOfFormat1AreOfFixedAddressesAndPages) {
  const auto read = [](const std::string& memory) {
    return ParseSchedule(
        absl::StrCat("{\"tidepool_schedule\": 1, \"fingerprint\": \"0000000000000000\",\n",
                     "\"memory\": \"", memory, "\", \"steps\": [[\"offload\", 1]]\n}"),
        "s.json");
  };
  for (const char* memory : {"fixed", "paged"}) {
    EXPECT_THAT(read(memory)->schedule.steps, ElementsAre(testing::Offload(1)));
  }
  EXPECT_EQ(read("pool").status().message(),
            "s.json:3: a pool in format 1, where an offload gave memory back, expected format 2: "
            "make the schedule again");
}

TEST(ScheduleFile, RefusesWrongSteps) {
  EXPECT_EQ(ErrorOf(With("\"drop\"", "\"dorp\"")),
            "s.json:14: the text 'dorp' begins a step, expected allocate, free, run, offload, "
            "prefetch, synchronize, drop, receive or add");
  EXPECT_EQ(ErrorOf(With("[\"free\", 6]", "[\"free\"]")),
            "s.json:15: a step is cut off, expected its kind and its number");
  EXPECT_EQ(ErrorOf(With("[\"free\", 6]", "[]")),
            "s.json:15: a step is cut off, expected its kind and its number");
  EXPECT_EQ(ErrorOf(With("[\"free\", 7]", "[\"free\", 7, 0, 1]")),
            "s.json:16: 1 in a step of kind free, expected at most 2 values after the kind");
  EXPECT_EQ(ErrorOf(With("[\"free\", 7]", "[\"free\", -1]")),
            "s.json:16: number of a step is -1, expected a whole number");
  EXPECT_EQ(ErrorOf(With("0, 0.25]", "0, \"much\"]")),
            "s.json:12: density of a step is the text 'much', expected a number");
  EXPECT_EQ(ErrorOf(With("\"host\", 3]", "\"guest\", 3]")),
            "s.json:11: device of a step is the text 'guest', expected a whole number, or 'host'");
  EXPECT_EQ(ErrorOf(With("\"offloadable\"]", "\"\"]")),
            "s.json:10: hint of a step is the text '', expected 'resident' or 'offloadable'");
  EXPECT_EQ(ErrorOf(With("-1, 192", "-2, 192")),
            "s.json:13: end of a step is -2, expected a whole number, or -1");
  EXPECT_EQ(ErrorOf(With("[\"free\", 7]", "7")),
            "s.json:16: 7 in the list of steps, expected an array for each step");
  EXPECT_EQ(ErrorOf(With("[\"free\", 7]", "[\"free\", [7]]")),
            "s.json:16: an array in a step, expected texts and numbers");
}

TEST(ScheduleFile, RefusesBrokenJson) {
  EXPECT_EQ(ErrorOf("[]"), "s.json:1: an array, expected a schedule: an object");
  EXPECT_THAT(ErrorOf(With("\"rounds\"", "rounds")), StartsWith("s.json:8: broken JSON ("));
  EXPECT_EQ(ErrorOf(With("\"rounds\": [", "\"rounds\": {")).substr(0, 20), "s.json:8: rounds of ");
  const std::string whole = kSmall;
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) ErrorOf(whole.substr(0, size));
  const std::string nested =
      absl::StrCat(whole.substr(0, whole.find("\"host\", 3]")), std::string(100'000, '['));
  EXPECT_EQ(ErrorOf(nested), "s.json:11: an array in a step, expected texts and numbers");
  EXPECT_THAT(std::string(ReadSchedule("/no/such/file").status().message()),
              StartsWith("/no/such/file: "));
}

TEST(ScheduleFile, FaultsOfStepsHaveTheirLine) {
  const TaskGraph graph = testing::SmallGraph();
  ScheduleFile file = {testing::Of(graph, testing::PlainSteps()), "small"};
  const auto error = [&](const ScheduleFile& one) {
    const absl::StatusOr<ScheduleFile> read = ParseSchedule(ScheduleJson(one), "s.json");
    EXPECT_TRUE(read.ok()) << read.status();
    return std::string(ValidateScheduleFile({&graph, 1}, *read).message());
  };
  EXPECT_EQ(error(file), "");
  // Seven lines of header come before the list of steps.
  file.schedule.steps[4].index = 2;
  EXPECT_THAT(error(file), StartsWith("s.json:13: step 4, allocate 'map': the data was allocated"));
  file.schedule.memory = ScheduleMemory::kPaged;
  EXPECT_THAT(error(file), StartsWith("s.json:13: step 4, allocate 'map': the data was allocated"));
  file.schedule.rounds = {{0, 3}};
  EXPECT_THAT(error(file), StartsWith("s.json: the rounds have 3 steps, expected all 15"));
  file.schedule.fingerprint += 1;
  EXPECT_THAT(error(file),
              StartsWith("s.json: the schedule is one of a graph with the fingerprint"));
}

TEST(ScheduleFile, RefusesDevicesThatTheMachineLacks) {
  const TaskGraph graph = testing::SmallGraph();
  ScheduleFile file = {testing::Of(graph, testing::PlainSteps()), "small"};
  file.schedule.memory = ScheduleMemory::kPaged;
  file.schedule.devices = 2;
  file.source = "s.json";
  EXPECT_EQ(ValidateScheduleFile({&graph, 1}, file), absl::OkStatus());
  file.machine.emplace();
  EXPECT_EQ(ValidateScheduleFile({&graph, 1}, file).message(),
            "s.json: 2 devices, expected at most the 1 of the machine");
}

}  // namespace
}  // namespace tidepool

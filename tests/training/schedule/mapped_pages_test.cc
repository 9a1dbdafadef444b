// SPDX-License-Identifier: Apache-2.0
// The pages of programs, against a slow model that knows for each page and each address the
// operations that use it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/training/graph/task_uses.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_program.h"
#include "tidepool/training/program.h"

namespace tidepool {
namespace {

using testing::RandomPrograms;
using Kind = ProgramOperation::Kind;
using Page = std::pair<std::size_t, std::int64_t>;  // device and position

class SlowPages {
 public:
  SlowPages(const RandomPrograms& random, const Program& program)
      : random_(random), program_(program), granule_(random.schedule.alignment) {}

  void Check() {
    ReadMappings();
    FindOrder();
    for (at_ = 0; at_ < program_.operations.size(); ++at_) CheckOperation();
  }
  // Returns the number of uses of pages that another datum had before.
  std::size_t handed_on() const { return handed_on_; }

 private:
  // The operations of the last owner: a datum, or a buffer, which has another number each.
  struct Uses {
    std::size_t owner = SIZE_MAX;
    std::vector<std::size_t> operations;
  };

  // One page lies at each address, in the memory of the device, and the pages that are used are
  // counted.
  void ReadMappings() {
    std::map<std::size_t, std::set<std::int64_t>> used;
    for (const ProgramMapping& mapping : program_.mappings) {
      for (std::int64_t at = 0; at < mapping.bytes; at += granule_) {
        const std::int64_t position = mapping.position + at;
        ASSERT_EQ(position % granule_, 0);
        ASSERT_GE(position, 0);
        ASSERT_LE(position + granule_, random_.machine.devices[mapping.device].memory_bytes);
        used[mapping.device].insert(position);
        ASSERT_LE(mapping.offset + at + granule_, program_.address_bytes[mapping.device]);
        ASSERT_TRUE(pages_.emplace(Page{mapping.device, mapping.offset + at}, position).second);
      }
    }
    for (std::size_t device = 0; device < program_.pool_bytes.size(); ++device) {
      const auto pages = static_cast<std::int64_t>(used[device].size());
      ASSERT_EQ(program_.pool_bytes[device], pages * granule_);
    }
  }

  // Finds the operations that end before each operation begins.
  void FindOrder() {
    std::map<std::uint16_t, std::size_t> last;
    before_.resize(program_.operations.size());
    for (std::size_t i = 0; i < before_.size(); ++i) {
      const ProgramOperation& own = program_.operations[i];
      const auto add = [&](std::size_t other) {
        before_[i].insert(other);
        before_[i].insert(before_[other].begin(), before_[other].end());
      };
      if (last.contains(own.stream)) add(last[own.stream]);
      for (std::uint32_t k = 0; k < own.waits; ++k) {
        add(program_.waits[own.first_wait + k].operation);
      }
      last[own.stream] = i;
    }
  }

  void CheckOperation() {
    const ProgramOperation& own = program_.operations[at_];
    const ScheduleStep& step = random_.schedule.steps[own.step];
    if (step.device == kHostDevice) return;
    const TaskGraph& graph = GraphOf(own.step);
    const std::int64_t* offset = &program_.offsets[own.first_offset];
    if (own.kind != Kind::kTask) {
      return CheckUse(step.device, own.index, *offset, own.end - own.begin);
    }
    const GraphTask& task = graph.tasks[own.index];
    for (const std::size_t data : graph::UsesOf(task)) {
      CheckUse(step.device, data, *offset++, graph.data[data].bytes);
    }
    const std::int64_t workspace = task.algorithms[own.algorithm].workspace_bytes;
    ASSERT_EQ(*offset >= 0, workspace > 0);
    CheckUse(step.device, graph.data.size() + at_, *offset, workspace);
  }

  const TaskGraph& GraphOf(std::size_t step) const {
    for (const ScheduleRound& round : random_.schedule.rounds) {
      const bool is_within = step >= round.first_step && step < round.first_step + round.steps;
      if (is_within && round.batch == random_.graphs.back().batch) return random_.graphs.back();
    }
    return random_.graphs.front();
  }

  // An operation uses a page after all others of other data have ended.
  void CheckUse(std::size_t device, std::size_t owner, std::int64_t offset, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += granule_) {
      const auto page = pages_.find({device, offset + at});
      ASSERT_NE(page, pages_.end()) << "operation " << at_;
      Uses& uses = uses_[{device, page->second}];
      if (uses.owner != owner) {
        for (const std::size_t other : uses.operations) {
          ASSERT_TRUE(before_[at_].contains(other)) << "operations " << other << " and " << at_;
        }
        handed_on_ += uses.operations.empty() ? 0 : 1;
        uses = {owner, {}};
      }
      uses.operations.push_back(at_);
    }
  }

  const RandomPrograms& random_;
  const Program& program_;
  const std::int64_t granule_;
  std::map<Page, std::int64_t> pages_;  // position of the page, by device and address
  std::vector<std::set<std::size_t>> before_;
  std::map<Page, Uses> uses_;
  std::size_t at_ = 0;
  std::size_t handed_on_ = 0;
};

TEST(MappedPagesTest, APageHasOneOwnerAtATime) {
  std::size_t handed_on = 0;
  std::size_t moves = 0;
  const int rounds = testing::Rounds(300);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPrograms random(static_cast<std::uint64_t>(seed));
    if (random.schedule.memory != ScheduleMemory::kPaged) continue;
    const absl::StatusOr<Program> program =
        LowerSchedule(random.graphs, random.schedule, random.machine, {.maps_pages = true});
    ASSERT_TRUE(program.ok()) << program.status();
    SlowPages pages(random, *program);
    ASSERT_NO_FATAL_FAILURE(pages.Check());
    if (::testing::Test::HasFatalFailure()) return;
    handed_on += pages.handed_on();
    moves += program->moves.size();
  }
  EXPECT_GT(handed_on, static_cast<std::size_t>(rounds) * 10);
  EXPECT_GT(moves, 0);
}

// Data that leaves before its first use needs no values of the last iteration.
TEST(MappedPagesTest, DataThatIsMadeAgainDoesNotMove) {
  const std::vector<TaskAlgorithm> only = {{.name = "only"}};
  TaskGraph graph = {
      .name = "gradient",
      .data = {{"sum", 512, DataKind::kWeightGradient}, {"map", 512}},
      .tasks = {{.name = "first", .writes = {1}, .algorithms = only},
                {.name = "second", .reads = {1}, .writes = {0}, .algorithms = only}}};
  graph.data[0].before = graph.data[0].after = DataHome::kDevice;
  const auto moves_after = [&](const std::vector<ScheduleStep>& steps) {
    Schedule schedule;
    schedule.memory = ScheduleMemory::kPaged;
    schedule.steps = {{.kind = StepKind::kAllocate, .index = 0},
                      {.kind = StepKind::kAllocate, .index = 1}};
    schedule.steps.insert(schedule.steps.end(), steps.begin(), steps.end());
    schedule.steps.push_back({.kind = StepKind::kAllocate, .index = 0});
    schedule.steps.push_back({.kind = StepKind::kRun, .index = 1});
    Machine machine;
    machine.devices.front().memory_bytes = 3 * schedule.alignment;
    return LowerSchedule({&graph, 1}, schedule, machine, {.maps_pages = true})->moves.size();
  };
  const ScheduleStep run = {.kind = StepKind::kRun, .index = 0};
  const ScheduleStep drop = {.kind = StepKind::kDrop, .index = 0};
  EXPECT_EQ(moves_after({drop, run}), 0);
  graph.tasks[0].updates = {0};
  EXPECT_EQ(moves_after({run, drop}), 2);
}

// Devices exchange a part of a page: the next owner of the page waits for that copy too.
TEST(MappedPagesTest, APartOfAPageKeepsItFromOthers) {
  const std::vector<TaskAlgorithm> only = {{.name = "only"}};
  const TaskGraph graph = {.name = "exchange",
                           .data = {{"sum", 32, DataKind::kWeightGradient}, {"map", 32}},
                           .tasks = {{.name = "first", .writes = {0}, .algorithms = only},
                                     {.name = "second", .writes = {1}, .algorithms = only}}};
  Schedule schedule;
  schedule.memory = ScheduleMemory::kPaged;
  schedule.devices = 2;
  for (const std::size_t device : {0, 1}) {
    schedule.steps.push_back({.kind = StepKind::kAllocate, .index = 0, .device = device});
    schedule.steps.push_back({.kind = StepKind::kRun, .index = 0, .device = device});
  }
  schedule.steps.push_back({.kind = StepKind::kReceive, .index = 0, .begin = 16, .source = 1});
  schedule.steps.push_back({.kind = StepKind::kFree, .index = 0});
  schedule.steps.push_back({.kind = StepKind::kAllocate, .index = 1});
  schedule.steps.push_back({.kind = StepKind::kRun, .index = 1});
  Machine machine;
  machine.devices.assign(2, {.memory_bytes = schedule.alignment});
  machine.peers.bytes_per_second = 1e9;
  const Program program = LowerSchedule({&graph, 1}, schedule, machine).value();
  constexpr std::uint32_t kReceive = 2;
  const ProgramOperation& last = program.operations.back();
  ASSERT_EQ(last.waits, 1);
  EXPECT_EQ(program.waits[last.first_wait].operation, kReceive);
  EXPECT_EQ(program.waits[last.first_wait].reason, ProgramWait::Reason::kMemory);
}

// Operations, waits and times are the same with addresses and without.
TEST(MappedPagesTest, AddressesChangeNoWait) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPrograms random(seed);
    const auto lower = [&](bool maps) {
      return LowerSchedule(random.graphs, random.schedule, random.machine, {.maps_pages = maps})
          .value();
    };
    const Program plain = lower(false);
    const Program mapped = lower(true);
    ASSERT_EQ(plain.waits.size(), mapped.waits.size());
    for (std::size_t i = 0; i < plain.waits.size(); ++i) {
      EXPECT_EQ(plain.waits[i].operation, mapped.waits[i].operation);
    }
    EXPECT_TRUE(plain.mappings.empty());
    const bool is_paged = random.schedule.memory == ScheduleMemory::kPaged;
    EXPECT_EQ(mapped.mappings.empty(), !is_paged);
  }
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Names of any bytes in emitted programs: they hide no statement and add none, and the user's
// functions get them as they are.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/training/emit/compiled_program.h"
#include "tests/training/emit/small_networks.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using testing::kSmallBatch;
using testing::ProgramFolder;

constexpr const char* kStandards[] = {"-std=c++14", "-std=c++17"};
constexpr std::uint64_t kSeeds[] = {1, 2};

// Characters that end comments, literals, lines and formats, or begin escapes, trigraphs and
// macros.
constexpr std::string_view kCharacters =
    "\\\\\\?\?\?//*\n\r\v\f\t \"'%#{};()nxuR1f\x1b\x7f\x85\xe2\x80\xa8\xae\xff";
constexpr const char* kEnds[] = {"", "\\", "\\ ", "?\?/", "?\?/\t", "?\?/\?\?/", "\"", "\n"};

// Makes names that differ by their numbers.
class RandomNames {
 public:
  explicit RandomNames(std::uint64_t seed) : random_(seed) {}

  std::string Next() {
    std::string name = absl::StrCat(++names_, "_");
    for (std::uint64_t count = random_() % 8; count > 0; --count) {
      name += kCharacters[random_() % kCharacters.size()];
    }
    return name + kEnds[random_() % std::size(kEnds)];
  }

 private:
  std::mt19937_64 random_;
  int names_ = 0;
};

MadeSchedule AtBound(const GraphFamily& family) {
  const TaskGraph graph = GraphAt(family, kSmallBatch).value();
  return testing::MakeFixed(family, "modnn", kSmallBatch, LeastMemory(graph, 512).bytes);
}

// Renames all that has a name.
MadeSchedule Renamed(MadeSchedule made, std::uint64_t seed) {
  RandomNames names(seed);
  made.schedule.policy = names.Next();
  TaskGraph& graph = made.graphs.front();
  graph.name = names.Next();
  for (GraphData& data : graph.data) data.name = names.Next();
  for (GraphTask& task : graph.tasks) {
    task.name = names.Next();
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.name = names.Next();
  }
  made.schedule.fingerprint = GraphFingerprint(graph);
  return made;
}

std::string Emitted(const MadeSchedule& made, const EmitOptions& options) {
  return EmitProgram(made.graphs, made.schedule, made.machine, options).value();
}

// Counts the lines of a program that are no comment. Before C++17 a trigraph joins lines too.
std::size_t CountLines(const std::string& program) {
  std::size_t count = 0;
  bool is_comment = false;
  std::istringstream lines(program);
  for (std::string line; std::getline(lines, line);) {
    is_comment = is_comment || line.substr(0, line.find("//")).find_first_not_of(' ') == line.npos;
    if (!is_comment) ++count;
    is_comment = is_comment && (line.ends_with("\\") || line.ends_with("?\?/"));
  }
  return count;
}

class NamesTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Compiles a program for the standard and runs it.
  std::string OutputOf(const std::string& text) {
    ProgramFolder folder;
    const testing::ProgramResult result =
        testing::RunCommand(folder.Compile(text, GetParam()) + " 3");
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  }
};

TEST_P(NamesTest, ProgramsWithKernelsKeepTheirStatements) {
  const MadeSchedule plain = AtBound(testing::SmallFamily(testing::AddSmallVgg));
  const std::string plain_text = Emitted(plain, {});
  const std::string losses = OutputOf(plain_text);
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    const std::string text = Emitted(Renamed(plain, seed), {});
    EXPECT_EQ(CountLines(text), CountLines(plain_text));
    EXPECT_EQ(OutputOf(text), losses);
  }
}

// Functions that print each name in hexadecimal digits.
constexpr char kPrintingFunctions[] = R"cpp(
  void Print(const char* kind, const char* name) {
    std::printf("%s ", kind);
    while (*name != 0) std::printf("%02x", static_cast<unsigned>(*name++) & 255U);
    std::printf("\n");
  }
  void LaunchTask(const TaskCall& call) {
    Print("task", call.task);
    Print("algorithm", call.algorithm);
  }
  void FillData(const char* data, void*, std::int64_t, int) { Print("data", data); }
  void EndIteration(int) {}
)cpp";

// Returns the output of these functions for three iterations of a schedule with one round.
std::string ExpectedNames(const MadeSchedule& made) {
  const TaskGraph& graph = made.graphs.front();
  std::string homes;
  std::string inputs;
  for (const GraphData& data : graph.data) {
    const bool is_home = ExistsBefore(data);
    std::string& text = data.kind == DataKind::kInput ? inputs : homes;
    if (is_home) absl::StrAppend(&text, "data ", absl::BytesToHexString(data.name), "\n");
  }
  std::string tasks;
  for (const ScheduleStep& step : made.schedule.steps) {
    if (step.kind != StepKind::kRun) continue;
    const GraphTask& task = graph.tasks[step.index];
    absl::StrAppend(&tasks, "task ", absl::BytesToHexString(task.name), "\nalgorithm ",
                    absl::BytesToHexString(task.algorithms[step.algorithm].name), "\n");
  }
  for (int i = 0; i < 3; ++i) absl::StrAppend(&homes, inputs, tasks);
  return homes;
}

TEST_P(NamesTest, CallbacksGetEachNameAsItIs) {
  const MadeSchedule plain = AtBound(testing::SmallFamily(testing::AddSmallVgg));
  const std::size_t lines = CountLines(Emitted(plain, {.callbacks = true}));
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    const MadeSchedule made = Renamed(plain, seed);
    const std::string text = Emitted(made, {.callbacks = true});
    EXPECT_EQ(CountLines(text), lines);
    EXPECT_EQ(OutputOf(text + kPrintingFunctions), ExpectedNames(made));
  }
}

INSTANTIATE_TEST_SUITE_P(Standards, NamesTest, ::testing::ValuesIn(kStandards),
                         [](const auto& standard) {
                           return std::string(standard.param).substr(8);
                         });

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Programs with the user's functions: each task gets the values of the data that it reads.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/training/emit/compiled_program.h"
#include "tests/training/emit/small_networks.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using testing::kSmallBatch;
using testing::MakeFixed;
using testing::ProgramFolder;

// Functions that write a hash of all bytes that a task reads into its results. Sizes come from a
// table.
constexpr char kFunctions[] = R"cpp(
#include <cstring>

  unsigned long long Hash(unsigned long long hash, const void* memory, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      hash = (hash ^ static_cast<const unsigned char*>(memory)[i]) * 1099511628211ULL;
    }
    return hash;
  }

  unsigned long long total = 0;

  struct Work {
    const TaskSizes* sizes;
    void* addresses[16];
  };

  void Run(void* data) {
    Work* work = static_cast<Work*>(data);
    unsigned long long hash =
        Hash(14695981039346656037ULL, work->sizes->name, std::strlen(work->sizes->name));
    const int uses = work->sizes->reads + work->sizes->writes + work->sizes->updates;
    for (int i = 0; i < uses; ++i) {
      const bool is_written = i >= work->sizes->reads && i < work->sizes->reads + work->sizes->writes;
      if (!is_written) hash = Hash(hash, work->addresses[i], work->sizes->bytes[i]);
    }
    for (int i = work->sizes->reads; i < uses; ++i) {
      std::memset(work->addresses[i], static_cast<int>(hash >> (8 * (i % 8))) & 255,
                  work->sizes->bytes[i]);
    }
    total = total * 31 + hash;
    delete work;
  }

  void LaunchTask(const TaskCall& call) {
    const TaskSizes* sizes = kTasks;
    while (std::strcmp(sizes->name, call.task) != 0) ++sizes;
    Work* work = new Work{sizes, {}};
    void** next = work->addresses;
    for (int i = 0; i < sizes->reads; ++i) *next++ = call.reads[i];
    for (int i = 0; i < sizes->writes; ++i) *next++ = call.writes[i];
    for (int i = 0; i < sizes->updates; ++i) *next++ = call.updates[i];
    if (cudaLaunchHostFunc(call.stream, Run, work) != cudaSuccess) std::exit(1);
  }
  void FillData(const char* data, void* memory, std::int64_t bytes, int iteration) {
    std::memset(
        memory,
        static_cast<int>(Hash(static_cast<unsigned>(iteration), data, std::strlen(data))) & 255,
        static_cast<std::size_t>(bytes));
  }
  void EndIteration(int iteration) { std::printf("%d %llx\n", iteration, total); }
)cpp";

std::string SizesOf(const TaskGraph& graph) {
  std::string text =
      "\n#include <cstddef>\nstruct TaskSizes { const char* name; int reads, writes, updates; "
      "std::size_t bytes[16]; };\nconst TaskSizes kTasks[] = {\n";
  for (const GraphTask& task : graph.tasks) {
    absl::StrAppend(&text, "  {\"", task.name, "\", ", task.reads.size(), ", ", task.writes.size(),
                    ", ", task.updates.size(), ", {");
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) absl::StrAppend(&text, graph.data[data].bytes, ", ");
    }
    absl::StrAppend(&text, "}},\n");
  }
  return text + "};\n";
}

std::string OutputOf(const MadeSchedule& made) {
  ProgramFolder folder;
  const std::string program =
      folder.Compile(made, {.callbacks = true}, SizesOf(made.graphs.front()) + kFunctions);
  const testing::ProgramResult result = testing::RunCommand(program + " 3");
  EXPECT_EQ(result.status, 0) << result.output;
  return result.output;
}

TEST(CallbacksTest, TasksWithoutParametersReadTheSameValuesWithOffload) {
  GraphFamily family =
      testing::SmallFamily(testing::AddSmallDenseNet, {.fused_batch_normalization = true,
                                                       .optimizer = Optimizer::kAdam,
                                                       .inputs = DataHome::kDevice});
  for (GraphTask& task : family.graph.tasks) task.parameters = {};
  const std::string output =
      OutputOf(MakeFixed(family, "none", kSmallBatch, std::int64_t{1} << 30));
  EXPECT_FALSE(output.empty());
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, kSmallBatch);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::int64_t bound = LeastMemory(*graph, 512).bytes;
  EXPECT_EQ(OutputOf(MakeFixed(family, "modnn", kSmallBatch, bound)), output);
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The memory manager that the papers compare with: nothing leaves the device. Places data once, and
// gradients in chunks that they take in turn.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::layerwise {
namespace {

// The addresses of the base manager of vDNN++ (Shriram et al., IPDPS 2019, section V). From low to
// high they are: all data but gradients, each datum at an address of its own; chunks, which
// gradients of layers take in turn; one workspace, which tasks take in turn.
//
// A gradient takes the first chunk that is free. Of layers in a row two gradients are live at a
// time, so there are two chunks. Other networks have as many chunks as live gradients.
struct BaseAddresses {
  std::vector<std::int64_t> offsets;  // by data of the graph
  std::int64_t workspace_offset = 0;  // all bytes but the workspace
};

struct BaseSchedule {
  Schedule schedule;
  std::int64_t memory_bytes = 0;  // with the workspace
};

// Returns whether the data takes a chunk: a gradient that the iteration makes and uses up.
bool TakesChunk(const GraphData& data) {
  return data.kind == DataKind::kGradient && !ExistsBefore(data) && !ExistsAfter(data);
}

// Returns the gradients in chunks that end with a task, in the order of its uses.
std::vector<std::size_t> EndingWith(const TaskGraph& graph, const graph::DataUsers& users,
                                    std::size_t task) {
  std::vector<std::size_t> ending;
  for (const std::size_t data : graph::UsesOf(graph.tasks[task])) {
    if (TakesChunk(graph.data[data]) && users.Last(data) == task) ending.push_back(data);
  }
  return ending;
}

struct GradientChunks {
  std::vector<std::int64_t> bytes;    // of each chunk: those of its largest gradient
  std::vector<std::size_t> chunk_of;  // by data; of gradients in chunks
};

// Returns the first free chunk, after adding one if all are in use.
std::size_t FirstFree(GradientChunks& chunks, std::vector<bool>& is_free) {
  const auto found = std::find(is_free.begin(), is_free.end(), true);
  const auto chunk = static_cast<std::size_t>(found - is_free.begin());
  if (found != is_free.end()) return chunk;
  is_free.push_back(true);
  chunks.bytes.push_back(0);
  return chunk;
}

GradientChunks ChunksOf(const TaskGraph& graph, std::int64_t alignment) {
  const graph::DataUsers users(graph);
  GradientChunks chunks = {{}, std::vector<std::size_t>(graph.data.size())};
  std::vector<bool> is_free;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    for (const std::size_t data : graph.tasks[task].writes) {
      if (!TakesChunk(graph.data[data])) continue;
      const std::size_t chunk = FirstFree(chunks, is_free);
      is_free[chunk] = false;
      chunks.chunk_of[data] = chunk;
      chunks.bytes[chunk] =
          std::max(chunks.bytes[chunk], AlignUp(graph.data[data].bytes, alignment));
    }
    for (const std::size_t data : EndingWith(graph, users, task)) {
      is_free[chunks.chunk_of[data]] = true;
    }
  }
  return chunks;
}

class BaseBuilder {
 public:
  BaseBuilder(const TaskGraph& graph, const BaseAddresses& addresses, std::int64_t alignment,
              std::int64_t most_workspace)
      : graph_(graph),
        addresses_(addresses),
        most_workspace_(most_workspace),
        users_(graph),
        is_written_(graph.data.size()),
        is_updated_(graph.data.size()) {
    base_.schedule.fingerprint = GraphFingerprint(graph);
    base_.schedule.memory = ScheduleMemory::kFixed;
    base_.schedule.alignment = alignment;
    base_.memory_bytes = addresses.workspace_offset;
  }

  BaseSchedule Build() {
    for (const GraphTask& task : graph_.tasks) {
      for (const std::size_t data : task.writes) is_written_[data] = true;
      for (const std::size_t data : task.updates) is_updated_[data] = true;
    }
    TakeAll(/*stays=*/true);
    TakeAll(/*stays=*/false);
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) AddTask(task);
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (!TakesChunk(graph_.data[data])) Leave(data);
    }
    return std::move(base_);
  }

 private:
  // Takes memory for all data that exists after the iteration, or for all other data.
  void TakeAll(bool stays) {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const GraphData& it = graph_.data[data];
      if (!TakesChunk(it) && ExistsAfter(it) == stays) Take(data);
    }
  }

  // Fetches data at home on the host, except gradients of weights, which a task writes over.
  void Take(std::size_t data) {
    const bool is_fetched = graph_.data[data].before == DataHome::kHost && !is_written_[data];
    Add({.kind = is_fetched ? StepKind::kPrefetch : StepKind::kAllocate,
         .index = data,
         .offset = addresses_.offsets[data]});
  }

  void AddTask(std::size_t index) {
    const GraphTask& task = graph_.tasks[index];
    for (const std::size_t data : task.writes) {
      if (TakesChunk(graph_.data[data])) Take(data);
    }
    Run(index);
    for (const std::size_t data : EndingWith(graph_, users_, index)) {
      Add({.kind = StepKind::kFree, .index = data});
    }
  }

  void Run(std::size_t index) {
    const GraphTask& task = graph_.tasks[index];
    const std::size_t algorithm = FastestAlgorithm(task, most_workspace_);
    const std::int64_t workspace = task.algorithms[algorithm].workspace_bytes;
    Add({.kind = StepKind::kRun,
         .index = index,
         .algorithm = algorithm,
         .offset = workspace > 0 ? addresses_.workspace_offset : -1});
    base_.memory_bytes =
        std::max(base_.memory_bytes,
                 addresses_.workspace_offset + AlignUp(workspace, base_.schedule.alignment));
  }

  // Brings data to its home after the iteration.
  void Leave(std::size_t data) {
    const DataHome after = graph_.data[data].after;
    if (after == DataHome::kNowhere) Add({.kind = StepKind::kFree, .index = data});
    if (after != DataHome::kHost) return;
    if (is_written_[data] || is_updated_[data]) Add({.kind = StepKind::kOffload, .index = data});
    Add({.kind = StepKind::kDrop, .index = data});
  }

  void Add(const ScheduleStep& step) { base_.schedule.steps.push_back(step); }

  const TaskGraph& graph_;
  const BaseAddresses& addresses_;
  const std::int64_t most_workspace_;
  const graph::DataUsers users_;
  std::vector<bool> is_written_;  // by data
  std::vector<bool> is_updated_;  // by data
  BaseSchedule base_;
};

// Places the data of a valid graph. `alignment` is a power of two up to 2^30. O(data + uses), and
// the number of chunks for each gradient.
BaseAddresses PlaceBase(const TaskGraph& graph, std::int64_t alignment) {
  const GradientChunks chunks = ChunksOf(graph, alignment);
  BaseAddresses addresses = {.offsets = std::vector<std::int64_t>(graph.data.size())};
  std::int64_t& end = addresses.workspace_offset;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (TakesChunk(graph.data[data])) continue;
    addresses.offsets[data] = end;
    end += AlignUp(graph.data[data].bytes, alignment);
  }
  std::vector<std::int64_t> begins;
  begins.reserve(chunks.bytes.size());
  for (const std::int64_t bytes : chunks.bytes) {
    begins.push_back(end);
    end += bytes;
  }
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (TakesChunk(graph.data[data])) addresses.offsets[data] = begins[chunks.chunk_of[data]];
  }
  return addresses;
}

// Returns the valid schedule of these addresses. Each task has its fastest algorithm among those
// with at most `most_workspace`, as in layerwise schedules. Data at home on the host comes at the
// begin, and data that must end there leaves at the end. O(data + uses).
BaseSchedule ScheduleBase(const TaskGraph& graph, const BaseAddresses& addresses,
                          std::int64_t alignment, std::int64_t most_workspace) {
  return BaseBuilder(graph, addresses, alignment, most_workspace).Build();
}

// Returns the limit of workspaces where the memory has `room` bytes for one.
std::int64_t MostWorkspaceOf(const LayerwiseOptions& options, std::int64_t room) {
  if (options.set == OffloadSet::kDynamic) return std::max<std::int64_t>(room, 0);
  return options.algorithms == AlgorithmChoice::kLeastMemory ? kLeastWorkspace : kAnyWorkspace;
}

}  // namespace

absl::StatusOr<Schedule> MakeBase(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  const absl::StatusOr<LayerwiseOptions> options = requests::OptionsOf<LayerwiseOptions>(request);
  if (!options.ok()) return options.status();
  const std::int64_t alignment = request.placing.alignment;
  const std::int64_t memory = request.machine.devices.front().memory_bytes & -alignment;
  const BaseAddresses addresses = PlaceBase(graph, alignment);
  const std::int64_t most_workspace =
      MostWorkspaceOf(*options, memory - addresses.workspace_offset);
  BaseSchedule base = ScheduleBase(graph, addresses, alignment, most_workspace);
  if (base.memory_bytes > memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the data of the graph, ", text::Size(addresses.workspace_offset),
                     ", and a workspace need ", text::ExactSize(base.memory_bytes),
                     "; the memory has ", text::ExactSize(memory)));
  }
  base.schedule.policy = absl::StrCat("base", TextOfWorkspaces(most_workspace));
  return std::move(base.schedule);
}

}  // namespace tidepool::layerwise

// SPDX-License-Identifier: Apache-2.0
// The subject of the tables of vDNN++ (Shriram et al., IPDPS 2019): its networks as the paper
// describes them, its modes, and the behaviour of its memory manager when memory runs out.
#ifndef TIDEPOOL_TESTS_SUPPORT_VDNNPP_PAPERS_H_
#define TIDEPOOL_TESTS_SUPPORT_VDNNPP_PAPERS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "lib/memory/blocks/arena.h"
#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

// The papers keep the input and the output of a layer until its backward pass has finished, even if
// the pass does not need them.
inline void KeepAllOfLayers(TaskGraph& graph) {
  absl::flat_hash_map<std::string, const GraphTask*> forward;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase == TaskPhase::kForward) forward.emplace(task.name, &task);
  }
  for (GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kBackward) continue;
    const auto found = forward.find(task.layer + ".forward");
    if (found == forward.end()) continue;
    for (const auto* uses : {&found->second->reads, &found->second->writes}) {
      for (const std::size_t data : *uses) {
        const DataKind kind = graph.data[data].kind;
        const bool is_there = std::ranges::count(task.reads, data) != 0;
        if (kind != DataKind::kWeight && !is_there) task.reads.push_back(data);
      }
    }
  }
}

// The workspaces that fit the paper's tables: none in the forward pass, for the 3 x 3 convolutions
// of AlexNet, and for the second convolution of VGG-16 at batch 16.
inline void FitWorkspaces(TaskGraph& graph) {
  for (GraphTask& task : graph.tasks) {
    const bool has_none = task.phase == TaskPhase::kForward || graph.name == "alexnet" ||
                          (graph.batch == 16 && task.layer == "conv1_2");
    if (!has_none) continue;
    std::erase_if(task.algorithms, [&](const TaskAlgorithm& algorithm) {
      return algorithm.workspace_bytes > 0 &&
             (algorithm.name != "fft" || task.phase == TaskPhase::kForward);
    });
  }
}

inline TaskGraph PaperGraph(std::string_view network, std::int64_t batch) {
  TaskGraph graph = MakeModel(network, PaperModel(batch, "gtx-1080-ti")).value();
  KeepAllOfLayers(graph);
  FitWorkspaces(graph);
  return graph;
}

// Returns the name in the paper's notation: "all(m)", "aconv(p)", ...
inline testing::PoolPolicy PaperMode(std::string_view name) {
  testing::PoolPolicy options;
  const std::size_t open = name.find('(');
  options.set = OffloadSetFromName(name.substr(0, open)).value();
  options.algorithms = AlgorithmChoiceFromName(name.substr(open + 1, 1)).value();
  options.machine.memory() = std::int64_t{1} << 40;
  return options;
}

// The data that a layer offloads has left the device before the next layer begins.
inline Trace PaperTrace(const TaskGraph& graph, const testing::PoolPolicy& options) {
  return ScheduleTrace(graph, testing::MakePoolSchedule("vdnn", graph, options).value()).value();
}

// Simulates CNMeM: a pool with best fit. When a request fits into no pool, it adds a pool of the
// request's size, which never merges with the others. Returns the sum of all pools.
inline std::int64_t GrownBySeparatePools(const Trace& trace, std::int64_t first_pool) {
  constexpr std::int64_t kAlignment = 512;
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy("best-fit").value();
  std::vector<std::unique_ptr<blocks::Arena>> pools;
  std::int64_t bytes = 0;
  const auto grow = [&](std::int64_t more) {
    pools.push_back(std::make_unique<blocks::Arena>(more, kAlignment, *policy));
    bytes += more;
  };
  grow(first_pool);
  struct Place {
    std::size_t pool;
    std::int64_t offset;
  };
  std::vector<Place> places(trace.allocations.size());
  const auto smallest = [&](std::int64_t wanted) {
    std::size_t best = pools.size();
    std::int64_t best_bytes = 0;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const BlockId block = pools[i]->blocks().SmallestFit(wanted);
      if (block == kNoBlock) continue;
      if (best != pools.size() && pools[i]->blocks().bytes(block) >= best_bytes) continue;
      best = i;
      best_bytes = pools[i]->blocks().bytes(block);
    }
    return best;
  };
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kFree) {
      pools[places[event.index].pool]->Free(places[event.index].offset);
    } else if (event.kind == TraceEvent::Kind::kAllocate) {
      const std::int64_t wanted = pools[0]->Rounded(trace.allocations[event.index].bytes);
      std::size_t pool = smallest(wanted);
      if (pool == pools.size()) grow(wanted);
      places[event.index] = {pool, pools[pool]->Allocate(wanted, Hint::kResident)};
    }
  }
  return bytes;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_VDNNPP_PAPERS_H_

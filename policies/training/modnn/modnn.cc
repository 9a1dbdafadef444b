// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/modnn.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "policies/training/modnn/choose_algorithm.h"
#include "policies/training/modnn/iteration.h"
#include "policies/training/modnn/prefetch.h"
#include "policies/training/modnn/prepare_task.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::modnn {
namespace {

absl::Status CheckBound(const TaskGraph& graph, const Settings& settings) {
  const MemoryBound bound = LeastMemory(graph, settings.alignment, StayingData::kAtHome);
  if (bound.bytes <= settings.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "task \"", absl::CHexEscape(graph.tasks[bound.task].name), "\" needs ", bound.bytes, " bytes",
      graph.batch > 0 ? absl::StrCat(" at a batch of ", graph.batch) : "", ", ",
      bound.staying_bytes, " of them for data that stays; the memory has ", settings.memory_bytes,
      " bytes"));
}

}  // namespace

absl::StatusOr<Schedule> Modnn(const TaskGraph& graph, const Settings& settings) {
  if (absl::Status status = CheckBound(graph, settings); !status.ok()) return status;
  Iteration iteration(graph, settings);
  if (const std::optional<std::size_t> input = iteration.PlaceInputs(); input.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data \"", absl::CHexEscape(graph.data[*input].name), "\" of ", graph.data[*input].bytes,
        " bytes is at home on the device and has no room beside other data at home there; the "
        "memory has ",
        settings.memory_bytes, " bytes"));
  }
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const auto least_workspace = PrepareTask(iteration, task);
    const ChosenAlgorithm chosen = ChooseAlgorithm(iteration, task, least_workspace);
    const double seconds = graph.tasks[task].algorithms[chosen.algorithm].seconds;
    PrefetchForLaterTasks(iteration, task, iteration.now() + seconds);
    iteration.Run(task, chosen.algorithm, chosen.workspace);
  }
  return iteration.TakeSchedule();
}

}  // namespace tidepool::modnn

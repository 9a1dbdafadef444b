// SPDX-License-Identifier: Apache-2.0
// Names of steps, and the fingerprint that ties a schedule to its graph.
#include "tidepool/training/schedule.h"

#include <array>
#include <string_view>

#include "lib/training/graph/task_uses.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 9> kStepKindNames = {
    "allocate", "free", "run", "offload", "prefetch", "synchronize", "drop", "receive", "add"};
constexpr std::array<std::string_view, 3> kMemoryNames = {"pool", "fixed", "paged"};

// FNV-1a (Fowler, Noll, Vo; RFC 9923) over words of 8 bytes instead of bytes; since products carry
// bits upwards only, the high half is mixed into the low one.
class Fingerprint {
 public:
  void Add(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001B3;
    hash_ ^= hash_ >> 32;
  }

  // Adds the size first, so that different lists of texts differ.
  void Add(std::string_view text) {
    Add(text.size());
    for (std::size_t i = 0; i < text.size(); i += 8) Add(Word(text.substr(i, 8)));
  }

  void Add(const std::vector<std::size_t>& uses) {
    Add(uses.size());
    for (const std::size_t data : uses) Add(data);
  }

  void Add(const TaskGraph& graph, const GraphTask& task) {
    Add(std::string_view(task.name));
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) Add(*uses);
    Add(task.algorithms.size() | PhaseWord(graph, task) << 60 |
        std::uint64_t{task.may_rerun} << 63);
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      Add(std::string_view(algorithm.name));
      Add(static_cast<std::uint64_t>(algorithm.workspace_bytes));
    }
  }

  void Add(const GraphData& data) {
    Add(std::string_view(data.name));
    Add(static_cast<std::uint64_t>(data.bytes));
    Add(static_cast<std::uint64_t>(data.kind) | HomesWord(data) << 8);
  }

  std::uint64_t value() const { return hash_; }

 private:
  // Returns 0 for the homes that follow from the kind, so that graphs without homes keep their
  // fingerprints.
  static std::uint64_t HomesWord(const GraphData& data) {
    if (data.before == HomeBefore(data.kind) && data.after == HomeAfter(data.kind)) return 0;
    return 1 + 3 * static_cast<std::uint64_t>(data.before) + static_cast<std::uint64_t>(data.after);
  }

  // Returns 0 for the phase that follows from the kinds of the data, so that graphs keep the
  // fingerprints from before phases were counted. Two graphs that differ in phases alone differ in
  // this word.
  static std::uint64_t PhaseWord(const TaskGraph& graph, const GraphTask& task) {
    return task.phase == UsualPhase(graph, task) ? 0 : 1 + static_cast<std::uint64_t>(task.phase);
  }

  // Returns the phase of such a task in training: backward tasks make gradients, and updates read
  // those of weights.
  static TaskPhase UsualPhase(const TaskGraph& graph, const GraphTask& task) {
    const auto is = [&](std::size_t data, DataKind kind) {
      return data < graph.data.size() && graph.data[data].kind == kind;
    };
    for (const std::size_t data : graph::ChangesOf(task)) {
      if (is(data, DataKind::kGradient) || is(data, DataKind::kWeightGradient)) {
        return TaskPhase::kBackward;
      }
    }
    for (const std::size_t data : task.reads) {
      if (is(data, DataKind::kWeightGradient)) return TaskPhase::kUpdate;
    }
    return TaskPhase::kForward;
  }

  // Returns up to 8 bytes as a number; the first byte is the lowest on every machine.
  static std::uint64_t Word(std::string_view bytes) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
    }
    return word;
  }

  std::uint64_t hash_ = 0xCBF29CE484222325;
};

}  // namespace

std::string_view ScheduleMemoryName(ScheduleMemory memory) {
  return kMemoryNames[static_cast<std::size_t>(memory)];
}

std::string_view StepKindName(StepKind kind) {
  return kStepKindNames[static_cast<std::size_t>(kind)];
}

std::uint64_t GraphFingerprint(const TaskGraph& graph) {
  Fingerprint fingerprint;
  fingerprint.Add(graph.data.size());
  for (const GraphData& data : graph.data) fingerprint.Add(data);
  fingerprint.Add(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) fingerprint.Add(graph, task);
  return fingerprint.value();
}

}  // namespace tidepool

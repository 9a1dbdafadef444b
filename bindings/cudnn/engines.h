// SPDX-License-Identifier: Apache-2.0
// Engines of cuDNN's graph interface, which run convolutions as algorithms of the older interface
// do, with a workspace for each configuration of an engine.
#ifndef TIDEPOOL_BINDINGS_CUDNN_ENGINES_H_
#define TIDEPOOL_BINDINGS_CUDNN_ENGINES_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/functions.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {

using BackendDescriptor = std::unique_ptr<void, cudnnStatus_t (*)(cudnnBackendDescriptor_t)>;

// A configuration of an engine.
struct Engine {
  std::int64_t index = 0;
  std::vector<std::pair<int, std::int64_t>> knobs;  // types and choices
  std::uint32_t notes = 0;                          // bits of cudnnBackendNumericalNote_t

  bool is_deterministic() const {
    return (notes >> CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC & 1U) == 0;
  }
  friend bool operator==(const Engine&, const Engine&) = default;
  friend bool operator<(const Engine& one, const Engine& other) {
    return std::tie(one.index, one.knobs, one.notes) <
           std::tie(other.index, other.knobs, other.notes);
  }
};

// Convert to and from the text of a profile, such as "engine 3 knobs=2:1 notes=16".
std::string EngineText(const Engine& engine);
std::optional<Engine> ParseEngine(const std::string& text);

// Engines have numbers of this process in kernel tables, from here on (Algorithm::Encoded is less).
inline constexpr std::int64_t kFirstEngine = std::int64_t{1} << 20;
inline bool IsEngine(std::int64_t number) { return number >= kFirstEngine; }
// Return the number of an engine, and the engine of a number. Thread-safe.
std::int64_t NumberOf(const Engine& engine);
const Engine& EngineOf(std::int64_t number);

// Returns the bits of an engine's numerical notes, or nothing if a call of cuDNN fails.
std::optional<std::uint32_t> NotesOf(const Functions& functions, cudnnBackendDescriptor_t engine);
// Returns the engine of a configuration; null if a call of cuDNN fails.
BackendDescriptor EngineOfConfiguration(const Functions& functions,
                                        cudnnBackendDescriptor_t configuration);

// The scales of a graph, which are part of its plans.
struct Scales {
  double alpha = 1;
  double beta = 0;

  friend bool operator==(const Scales&, const Scales&) = default;
  friend bool operator<(const Scales& one, const Scales& other) {
    return std::tie(one.alpha, one.beta) < std::tie(other.alpha, other.beta);
  }
};

// The data of a convolution, by roles, and of the other tensors of a fusion. Virtual ones have
// none.
inline constexpr std::size_t kMostFusedTensors = 9;
struct ConvolutionData {
  char* x = nullptr;
  char* w = nullptr;
  char* y = nullptr;
  std::array<char*, kMostFusedTensors> fused = {};
};

// Returns the engines that cuDNN's heuristics suggest for a batch of `samples`, the best first,
// with those of its fallback: at most kMostEngines. Empty if a call of cuDNN fails.
inline constexpr std::int64_t kMostEngines = 16;
std::vector<Engine> SuggestedEngines(const Functions& functions, cudnnHandle_t handle,
                                     const Convolution& convolution, std::int64_t samples,
                                     const Scales& scales);

// A plan of an engine for a micro-batch. Any number of threads may run it. Keeps the packs of
// recent runs: programs run a layer with the same data again and again.
class EnginePlan {
 public:
  // Returns null where the engine does not run this, or a call of cuDNN fails.
  static std::unique_ptr<EnginePlan> Make(const Functions& functions, cudnnHandle_t handle,
                                          const Convolution& convolution, std::int64_t samples,
                                          const Scales& scales, const Engine& engine);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Queues the convolution in the stream of the handle.
  cudnnStatus_t Run(cudnnHandle_t handle, const ConvolutionData& data, void* workspace) const;

 private:
  // x, w, y, other tensors, and the workspace.
  using Addresses = std::array<void*, 3 + kMostFusedTensors + 1>;
  using Pack = std::shared_ptr<void>;
  static constexpr std::size_t kMostPacks = 256;

  EnginePlan(const Functions& functions, BackendDescriptor plan, std::int64_t workspace_bytes)
      : functions_(functions), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}
  // Returns the pack of these addresses; null if a call of cuDNN fails.
  Pack PackOf(const Addresses& addresses) const;

  const Functions& functions_;
  BackendDescriptor plan_;
  std::int64_t workspace_bytes_;
  mutable locks::Mutex mutex_;
  mutable absl::flat_hash_map<Addresses, Pack> packs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_ENGINES_H_

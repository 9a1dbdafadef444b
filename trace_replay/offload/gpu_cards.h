// SPDX-License-Identifier: Apache-2.0
// The GPUs on which a training step fits: as it is, or by a schedule in less memory than it takes.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_CARDS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_CARDS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"

namespace tidepool::tool {

// How a GPU trains a step. Nearly as fast: in at most kNearlyAsFast times its time with enough
// memory.
enum class GpuTraining : std::uint8_t { kAsItIs, kNearlyAsFast, kSlower, kNotAtAll };
inline constexpr double kNearlyAsFast = 1.1;

struct GpuCard {
  std::string name;
  std::int64_t memory_bytes = 0;
  bool is_integrated = false;  // its memory is that of the host
  GpuTraining training = GpuTraining::kNotAtAll;
  std::optional<double> slowdown = {};  // times the step of the same GPU with enough memory
  std::optional<double> seconds = {};   // of the step
  std::optional<double> cost = {};      // of the step, by the prices given
};

// The price of an hour of each GPU, in any currency.
using GpuPrices = std::map<std::string, double>;

struct GpuQuestion {
  double share = 1;  // of the memory of each GPU, that the step may take
  GpuPrices prices = {};
  double time_limit_seconds = 4;  // for the schedule of a GPU
  std::stop_token stop = {};
};

// Reads lines `GPU,PRICE`. Lines of blanks and lines that begin with # are skipped. InvalidArgument
// with `FILE:LINE: ...` for other lines.
absl::StatusOr<GpuPrices> ReadPrices(const std::string& path);

// Returns the known GPUs with a known memory, by how they train the step, then from the fastest to
// the slowest. Tasks take the times of the graph's GPU, scaled: products of matrices by the
// operations of 16 bits, others by the bandwidth. GPUs without room for the step have a schedule of
// `best` in pages, in which no data leaves a GPU that shares the memory of the host.
// InvalidArgument for a graph of an unknown GPU.
absl::StatusOr<std::vector<GpuCard>> CardsOf(const TaskGraph& graph, const GpuQuestion& question);

// Return the card with the least memory, and that on which the step costs least, of those that
// train it nearly as fast as with enough memory. Null without one.
const GpuCard* SmallestCard(const std::vector<GpuCard>& cards);
const GpuCard* CheapestCard(const std::vector<GpuCard>& cards);

// Returns "as it is", "with a schedule at 1.1 x or less", ...
std::string TrainingText(GpuTraining training);
// Returns "l4 2.99 s (1.05 x)".
std::string CardText(const GpuCard& card);
// Returns a line for each way to train the step, for GPUs that share the memory of the host, and
// for the smallest and the cheapest GPU.
std::vector<std::string> CardLines(const std::vector<GpuCard>& cards);
nlohmann::ordered_json CardsJson(const std::vector<GpuCard>& cards);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_CARDS_H_

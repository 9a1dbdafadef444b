// SPDX-License-Identifier: Apache-2.0
// Scales a step to each GPU, and asks for its schedule there.
#include "trace_replay/offload/gpu_cards.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "trace_replay/offload/gpu_option.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/or_null.h"

namespace tidepool::tool {
namespace {

// Parts of the names of operations that take time for their operations: those of PyTorch, and of
// the model zoo.
constexpr std::array<const char*, 7> kProducts = {"mm",  "conv", "attention", "linear",
                                                  "rnn", "lstm", "product"};
constexpr std::int64_t kEnoughBytes = std::int64_t{1} << 50;

std::vector<const GpuRates*> KnownCards() {
  std::vector<const GpuRates*> cards;
  for (const GpuRates& gpu : KnownGpus()) {
    if (gpu.memory_bytes > 0) cards.push_back(&gpu);
  }
  return cards;
}

std::string KnownCardNames() {
  return absl::StrJoin(KnownCards(), ", ", [](std::string* text, const GpuRates* gpu) {
    absl::StrAppend(text, gpu->name);
  });
}

double HalfRate(const GpuRates& gpu) {
  return gpu.float16_flops_per_second > 0 ? gpu.float16_flops_per_second : gpu.flops_per_second;
}

absl::StatusOr<const GpuRates*> GpuOf(const TaskGraph& graph) {
  if (const GpuRates* const gpu = KnownGpu(graph.gpu); gpu != nullptr) return gpu;
  return absl::InvalidArgumentError(absl::StrCat(
      "the times of the graph are those of ",
      graph.gpu.empty() ? "no GPU" : absl::StrCat("'", absl::CHexEscape(graph.gpu), "'"),
      ", expected a known one: ", KnownCardNames()));
}

bool IsProduct(const std::string& operation) {
  return std::any_of(kProducts.begin(), kProducts.end(),
                     [&](const char* part) { return absl::StrContains(operation, part); });
}

TaskGraph OnGpu(TaskGraph graph, const GpuRates& own, const GpuRates& gpu) {
  const double of_products = HalfRate(own) / HalfRate(gpu);
  const double of_bytes = own.bytes_per_second / gpu.bytes_per_second;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.seconds *= IsProduct(task.operation) ? of_products : of_bytes;
    }
  }
  graph.gpu = gpu.name;
  graph.link_bytes_per_second = gpu.link_bytes_per_second;
  return graph;
}

double FastestSeconds(const TaskGraph& graph) {
  double seconds = 0;
  for (const GraphTask& task : graph.tasks) {
    seconds += std::min_element(task.algorithms.begin(), task.algorithms.end(),
                                [](const TaskAlgorithm& one, const TaskAlgorithm& other) {
                                  return one.seconds < other.seconds;
                                })
                   ->seconds;
  }
  return seconds;
}

absl::StatusOr<SimulatedIteration> SimulateOn(const std::string& policy, std::int64_t memory_bytes,
                                              const TaskGraph& graph, const GpuQuestion& question) {
  OffloadCommandOptions options;
  options.policy = policy;
  options.machine.memory_bytes = memory_bytes;
  options.choice.memory_kind = ScheduleMemory::kPaged;
  options.choice.chain.time_limit_seconds = question.time_limit_seconds;
  options.choice.chain.stop = question.stop;
  return ScheduleAndSimulate(options, graph, 0);
}

absl::StatusOr<std::int64_t> PeakBytes(const TaskGraph& graph) {
  const absl::StatusOr<SimulatedIteration> made = SimulateOn("none", kEnoughBytes, graph, {});
  if (!made.ok()) return made.status();
  if (!made->timeline.ok()) return made->timeline.status();
  return made->timeline->peak_device_bytes;
}

// Sets how a GPU without room for the step trains it.
absl::Status SetTraining(const TaskGraph& graph, std::int64_t memory_bytes,
                         const GpuQuestion& question, GpuCard& card) {
  const absl::StatusOr<SimulatedIteration> made = SimulateOn("best", memory_bytes, graph, question);
  if (!made.ok()) return made.status();
  if (!made->timeline.ok()) return absl::OkStatus();
  card.seconds = made->timeline->seconds;
  card.slowdown = *card.seconds / FastestSeconds(graph);
  card.training =
      *card.slowdown <= kNearlyAsFast ? GpuTraining::kNearlyAsFast : GpuTraining::kSlower;
  return absl::OkStatus();
}

absl::StatusOr<GpuCard> CardOf(const TaskGraph& graph, const GpuRates& own, const GpuRates& gpu,
                               std::int64_t peak_bytes, const GpuQuestion& question) {
  GpuCard card = {
      .name = gpu.name, .memory_bytes = gpu.memory_bytes, .is_integrated = gpu.is_integrated};
  const TaskGraph there = OnGpu(graph, own, gpu);
  const auto memory_bytes =
      static_cast<std::int64_t>(static_cast<double>(gpu.memory_bytes) * question.share);
  if (peak_bytes <= memory_bytes) {
    card.training = GpuTraining::kAsItIs;
    card.slowdown = 1;
    card.seconds = FastestSeconds(there);
  } else if (absl::Status status = SetTraining(there, memory_bytes, question, card); !status.ok()) {
    return status;
  }
  const auto price = question.prices.find(gpu.name);
  if (card.seconds.has_value() && price != question.prices.end()) {
    card.cost = price->second * *card.seconds / 3600;
  }
  return card;
}

bool IsNearlyAsFast(const GpuCard& card) { return card.training <= GpuTraining::kNearlyAsFast; }

std::string DurationText(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", seconds * 1e3)
                     : absl::StrFormat("%.2f s", seconds);
}

std::string LineOf(GpuTraining training, const std::vector<GpuCard>& cards) {
  std::vector<std::string> texts;
  for (const GpuCard& card : cards) {
    if (card.training == training) texts.push_back(CardText(card));
  }
  return texts.empty() ? ""
                       : absl::StrCat(TrainingText(training), ": ", absl::StrJoin(texts, " · "));
}

// Returns the reason for which some GPUs without room for the step have no faster schedule. Empty
// without such a GPU.
std::string LineOfIntegrated(const std::vector<GpuCard>& cards) {
  std::vector<std::string> names;
  for (const GpuCard& card : cards) {
    const bool has_room = card.training == GpuTraining::kAsItIs;
    if (card.is_integrated && !has_room) names.push_back(card.name);
  }
  if (names.empty()) return "";
  return absl::StrCat(absl::StrJoin(names, ", "),
                      names.size() == 1
                          ? " shares the memory of the host, so its schedule moves no data there"
                          : " share the memory of the host, so their schedules move no data there");
}

nlohmann::ordered_json NameOrNull(const GpuCard* card) {
  return card != nullptr ? nlohmann::ordered_json(card->name) : nullptr;
}

absl::Status AddPrice(const std::string& line, GpuPrices& prices) {
  const std::size_t comma = line.find(',');
  const std::string name(absl::StripAsciiWhitespace(line.substr(0, comma)));
  const std::string text(
      absl::StripAsciiWhitespace(comma == std::string::npos ? "" : line.substr(comma + 1)));
  const std::vector<const GpuRates*> cards = KnownCards();
  const bool is_known = std::any_of(cards.begin(), cards.end(),
                                    [&](const GpuRates* gpu) { return gpu->name == name; });
  if (!is_known) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no GPU '", absl::CHexEscape(name), "' is known, expected one of ", KnownCardNames()));
  }
  double price = 0;
  if (!absl::SimpleAtod(text, &price) || !(price >= 0) || std::isinf(price)) {
    return absl::InvalidArgumentError(absl::StrCat("a price of '", absl::CHexEscape(text),
                                                   "', expected a line GPU,PRICE such as l4,0.7"));
  }
  prices[name] = price;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuPrices> ReadPrices(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::CHexEscape(path), ": cannot be opened, expected a readable file"));
  }
  GpuPrices prices;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty() || line.starts_with("#")) continue;
    if (absl::Status status = AddPrice(line, prices); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(absl::CHexEscape(path), ":", number, ": ", status.message()));
    }
  }
  return prices;
}

absl::StatusOr<std::vector<GpuCard>> CardsOf(const TaskGraph& graph, const GpuQuestion& question) {
  const absl::StatusOr<const GpuRates*> own = GpuOf(graph);
  if (!own.ok()) return own.status();
  const absl::StatusOr<std::int64_t> peak_bytes = PeakBytes(graph);
  if (!peak_bytes.ok()) return peak_bytes.status();
  std::vector<GpuCard> cards;
  for (const GpuRates* gpu : KnownCards()) {
    absl::StatusOr<GpuCard> card = CardOf(graph, **own, *gpu, *peak_bytes, question);
    if (!card.ok()) return card.status();
    cards.push_back(*std::move(card));
  }
  std::stable_sort(cards.begin(), cards.end(), [](const GpuCard& one, const GpuCard& other) {
    return std::tuple(one.training, one.seconds) < std::tuple(other.training, other.seconds);
  });
  return cards;
}

const GpuCard* SmallestCard(const std::vector<GpuCard>& cards) {
  const GpuCard* found = nullptr;
  for (const GpuCard& card : cards) {
    if (!IsNearlyAsFast(card)) continue;
    if (found == nullptr || card.memory_bytes < found->memory_bytes) found = &card;
  }
  return found;
}

const GpuCard* CheapestCard(const std::vector<GpuCard>& cards) {
  const GpuCard* found = nullptr;
  for (const GpuCard& card : cards) {
    if (!IsNearlyAsFast(card) || !card.cost.has_value()) continue;
    if (found == nullptr || *card.cost < *found->cost) found = &card;
  }
  return found;
}

std::string TrainingText(GpuTraining training) {
  switch (training) {
    case GpuTraining::kAsItIs:
      return "as it is";
    case GpuTraining::kNearlyAsFast:
      return absl::StrCat("with a schedule at ", kNearlyAsFast, " x or less");
    case GpuTraining::kSlower:
      return "with a schedule, slower";
    case GpuTraining::kNotAtAll:
      return "no schedule fits";
  }
  return "";
}

std::string CardText(const GpuCard& card) {
  if (!card.seconds.has_value()) return card.name;
  const std::string slower =
      card.training == GpuTraining::kAsItIs ? "" : absl::StrFormat(" (%.2f x)", *card.slowdown);
  return absl::StrCat(card.name, " ", DurationText(*card.seconds), slower);
}

std::vector<std::string> CardLines(const std::vector<GpuCard>& cards) {
  std::vector<std::string> lines;
  for (const GpuTraining training : {GpuTraining::kAsItIs, GpuTraining::kNearlyAsFast,
                                     GpuTraining::kSlower, GpuTraining::kNotAtAll}) {
    std::string line = LineOf(training, cards);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  std::string integrated = LineOfIntegrated(cards);
  if (!integrated.empty()) lines.push_back(std::move(integrated));
  const std::string rule =
      absl::StrCat(" at ", kNearlyAsFast, " x or less of its time with enough memory");
  const GpuCard* const smallest = SmallestCard(cards);
  lines.push_back(absl::StrCat(
      smallest != nullptr ? absl::StrCat(smallest->name, " is the smallest") : "none", rule));
  if (const GpuCard* const cheapest = CheapestCard(cards); cheapest != nullptr) {
    lines.push_back(
        absl::StrFormat("%s is the cheapest of these: %.3g for 1,000 steps, by the prices given",
                        cheapest->name, 1000 * *cheapest->cost));
  }
  return lines;
}

nlohmann::ordered_json CardsJson(const std::vector<GpuCard>& cards) {
  nlohmann::ordered_json json = {{"gpus", nlohmann::ordered_json::array()},
                                 {"smallest_gpu", NameOrNull(SmallestCard(cards))},
                                 {"cheapest_gpu", NameOrNull(CheapestCard(cards))},
                                 {"gpu_lines", CardLines(cards)}};
  for (const GpuCard& card : cards) {
    json["gpus"].push_back({{"name", card.name},
                            {"memory_bytes", card.memory_bytes},
                            {"fits", card.training == GpuTraining::kAsItIs},
                            {"slowdown", OrNull(card.slowdown)},
                            {"seconds", OrNull(card.seconds)},
                            {"cost", OrNull(card.cost)}});
  }
  return json;
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// The command `front`: time against memory, with sub-batch, transfers, tasks that run again and
// algorithms chosen together.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/memory_front.h"
#include "tidepool/training/schedule_file.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/gpu_cards.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/modnn_options.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/offload/sweep_output.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/options.h"
#include "trace_replay/report/sweep_drawing.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr int kMostMemories = 1000;

struct FrontCommandOptions {
  OffloadCommandOptions point;
  std::int64_t batch = 0;  // 0: the graph's own
  int memories = 16;       // that are tried
  std::string drawing;     // a file; empty: none is written
  std::string output;      // a file for the fastest schedule; empty: none is written
  bool gpus = false;       // whether the known GPUs are tried
  std::string prices;      // a file; empty: none
  double share = 1;        // of the memory of each GPU
  const CLI::App* app = nullptr;
};

struct Question {
  ScheduleRequest request;
  FrontOptions options;
};

absl::StatusOr<Question> QuestionOf(const FrontCommandOptions& options,
                                    const GraphOrFamily& graphs) {
  const OffloadCommandOptions& point = options.point;
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const TaskGraph& graph = family != nullptr ? family->graph : std::get<TaskGraph>(graphs);
  absl::StatusOr<PolicyChoice> choice = ChoiceOf(point, graph);
  if (!choice.ok()) return choice.status();
  choice->chain.stop = StopAtInterrupt();
  Question question;
  question.options.memories = options.memories;
  question.options.modnn = choice->modnn;
  if (options.app->count("--time-limit") == 0) {
    choice->chain.time_limit_seconds = question.options.best.time_limit_seconds;
  }
  question.request = RequestOf("best", *choice);
  question.options.best = std::get<BestOptions>(std::exchange(question.request.options, {}));
  question.request.batch = options.batch;
  question.request.devices = static_cast<std::size_t>(point.devices);
  question.request.host_updates = point.host_updates;
  question.request.reduction = point.reduction;
  const bool is_divided = options.app->count("--sub-batch") > 0;
  question.request.sub_batch = is_divided ? point.sub_batch : kLargestSubBatch;
  return question;
}

double SlowdownOf(const FrontPoint& point, const MemoryFront& front) {
  return front.ideal_seconds > 0 ? point.seconds / front.ideal_seconds : 1;
}

// The front, and the GPUs that were tried.
struct FrontAnswer {
  MemoryFront front;
  std::optional<std::vector<GpuCard>> cards = std::nullopt;
};

nlohmann::ordered_json FrontJson(const FrontAnswer& answer) {
  const MemoryFront& front = answer.front;
  const MadeSchedule& made = front.points.front().made;
  nlohmann::ordered_json json = {
      {"graph", made.graphs.front().name},         {"batch", made.batch},
      {"devices", made.schedule.devices},          {"fits", true},
      {"ideal_seconds", front.ideal_seconds},      {"complete", !front.stopped},
      {"points", nlohmann::ordered_json::array()}, {"memories", nlohmann::ordered_json::array()}};
  for (const FrontPoint& point : front.points) {
    json["points"].push_back(
        {{"memory_bytes", point.memory_bytes},
         {"seconds", point.seconds},
         {"overhead", SlowdownOf(point, front)},
         {"lower_bound_seconds", point.made.lower_bound_seconds},
         {"sub_batch", point.made.sub_batch},
         {"rounds", point.made.rounds},
         {"batch_normalization", NormalizationJson(point.made.graphs.front(), point.made.schedule)},
         {"schedule", point.made.schedule.policy},
         {"recomputed_tasks", point.recomputed_tasks},
         {"workspace_bytes", point.workspace_bytes},
         {"bytes_out", point.bytes_out},
         {"bytes_in", point.bytes_in}});
  }
  for (const FrontMemory& memory : front.memories) {
    const bool fits = std::isfinite(memory.lower_bound_seconds);
    json["memories"].push_back(
        {{"memory_bytes", memory.memory_bytes},
         {"lower_bound_seconds",
          fits ? nlohmann::ordered_json(memory.lower_bound_seconds) : nullptr}});
  }
  if (answer.cards.has_value()) json.update(CardsJson(*answer.cards));
  return json;
}

std::string CardsText(const std::optional<std::vector<GpuCard>>& cards) {
  return cards.has_value()
             ? absl::StrCat("\ntrains on\n  ", absl::StrJoin(CardLines(*cards), "\n  "), "\n")
             : "";
}

std::string FrontText(const FrontAnswer& answer) {
  const MemoryFront& front = answer.front;
  const MadeSchedule& made = front.points.front().made;
  std::vector<std::vector<std::string>> rows = {{"memory", "iteration", "slowdown", "rounds",
                                                 "samples", "run again", "workspace", "to the host",
                                                 "schedule"}};
  constexpr int kSamples = 4;  // a column without values where the batch is not known
  for (const FrontPoint& point : front.points) {
    rows.push_back({MemoryText(point.memory_bytes), MillisecondsText(point.seconds),
                    RatioText(SlowdownOf(point, front)), CountText(point.made.rounds),
                    CountText(point.made.sub_batch), CountText(point.recomputed_tasks),
                    SizeText(point.workspace_bytes), SizeText(point.bytes_out),
                    point.made.schedule.policy});
  }
  if (made.batch == 0) {
    for (std::vector<std::string>& row : rows) row.erase(row.begin() + kSamples);
  }
  const bool is_ghost = std::ranges::any_of(front.points, [](const FrontPoint& point) {
    return NormalizationOf(point.made.graphs.front(), point.made.schedule) ==
           BatchNormalization::kGhost;
  });
  return absl::StrCat(absl::CHexEscape(made.graphs.front().name), "\n  ",
                      KnownBatchText(made.batch), "all data in memory ",
                      MillisecondsText(front.ideal_seconds),
                      front.stopped ? ",\n  the best before the interrupt or the time limit" : "",
                      is_ghost ? ",\n  batch normalisation over the samples of each round" : "",
                      "\n\n", TableText(rows), CardsText(answer.cards));
}

DrawnMarks DrawnCards(const std::optional<std::vector<GpuCard>>& cards, double share) {
  if (!cards.has_value()) return {};
  DrawnMarks drawn = {.lines = CardLines(*cards)};
  for (const GpuCard& card : *cards) {
    drawn.marks.push_back({card.name, static_cast<double>(card.memory_bytes) * share,
                           card.training <= GpuTraining::kNearlyAsFast});
  }
  return drawn;
}

absl::Status Draw(const FrontAnswer& answer, double share, const std::string& path) {
  const MemoryFront& front = answer.front;
  SweepCurve found = {.name = "fastest found", .in_steps = true};
  SweepCurve bound = {.name = "none is faster"};
  for (const FrontPoint& point : front.points) {
    found.points.emplace_back(static_cast<double>(point.memory_bytes), point.seconds);
  }
  for (const FrontMemory& memory : front.memories) {
    if (!std::isfinite(memory.lower_bound_seconds)) continue;
    bound.points.emplace_back(static_cast<double>(memory.memory_bytes), memory.lower_bound_seconds);
  }
  const double least = std::min(found.points.front().first, bound.points.front().first);
  const double most = std::max(found.points.back().first, bound.points.back().first);
  const std::string title = absl::StrCat(front.points.front().made.graphs.front().name,
                                         ": time of an iteration over the memory of the device");
  return WriteFile(path, [&](std::ostream& out) {
    WriteSweepDrawing(title, {std::move(found), std::move(bound)}, least, most, front.ideal_seconds,
                      out, DrawnCards(answer.cards, share));
    return absl::OkStatus();
  });
}

Answer PrintNothingFits(const OffloadCommandOptions& point, const GraphOrFamily& graphs,
                        const std::optional<std::vector<GpuCard>>& cards, const absl::Status& why) {
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const TaskGraph& graph = family != nullptr ? family->graph : std::get<TaskGraph>(graphs);
  if (point.json) {
    nlohmann::ordered_json json = {
        {"graph", graph.name}, {"fits", false}, {"why", std::string(why.message())}};
    if (cards.has_value()) json.update(CardsJson(*cards));
    PrintJson(json);
  } else {
    std::cout << absl::CHexEscape(graph.name) << "\n  does not fit: " << why.message() << '\n'
              << CardsText(cards);
  }
  return Answer::kNo;
}

absl::Status CheckFront(const FrontCommandOptions& options) {
  if (!options.gpus) {
    absl::Status status = Refuse(*options.app, {"--prices", "--gpu-share"},
                                 "about the GPUs of --gpus, expected that option too");
    if (!status.ok()) return status;
  }
  absl::Status status = CheckDivisionOptions(*options.app, options.point);
  if (status.ok()) status = CheckScheduleOutput(options.point, options.output);
  if (status.ok()) status = CheckJsonOutput(options.point.json, options.drawing, "drawing");
  if (status.ok()) status = CheckDrawing(options.drawing);
  return status;
}

// Tries the known GPUs, if they are asked for.
absl::StatusOr<std::optional<std::vector<GpuCard>>> CardsFor(const FrontCommandOptions& options,
                                                             const GraphOrFamily& graphs) {
  if (!options.gpus) return std::nullopt;
  GpuQuestion question = {.share = options.share, .stop = StopAtInterrupt()};
  if (!options.prices.empty()) {
    absl::StatusOr<GpuPrices> prices = ReadPrices(options.prices);
    if (!prices.ok()) return prices.status();
    question.prices = *std::move(prices);
  }
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const absl::StatusOr<TaskGraph> graph =
      family != nullptr ? GraphAt(*family, options.batch)
                        : absl::StatusOr<TaskGraph>(std::get<TaskGraph>(graphs));
  if (!graph.ok()) return graph.status();
  return CardsOf(*graph, question);
}

absl::StatusOr<Answer> RunFront(const FrontCommandOptions& options) {
  const OffloadCommandOptions& point = options.point;
  if (absl::Status status = CheckFront(options); !status.ok()) return status;
  const absl::StatusOr<GraphOrFamily> graphs = ReadGraphFor(point.graph, options.batch);
  if (!graphs.ok()) return graphs.status();
  if (std::holds_alternative<GraphFamily>(*graphs) && options.batch == 0) {
    return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(point.graph),
                                                   ": a graph at any batch, expected --batch too"));
  }
  const absl::StatusOr<Question> question = QuestionOf(options, *graphs);
  if (!question.ok()) return question.status();
  absl::StatusOr<std::optional<std::vector<GpuCard>>> cards = CardsFor(options, *graphs);
  if (!cards.ok()) return cards.status();
  absl::StatusOr<MemoryFront> front = MakeFront(*graphs, question->request, question->options);
  if (absl::IsResourceExhausted(front.status())) {
    return PrintNothingFits(point, *graphs, *cards, front.status());
  }
  if (!front.ok()) return front.status();
  if (!options.output.empty()) {
    const MadeSchedule& made = front->points.back().made;
    const ScheduleFile file = {
        .schedule = made.schedule,
        .graph = made.graphs.front().name,
        .machine = made.machine,
        .batch_normalization = NormalizationOf(made.graphs.front(), made.schedule)};
    if (absl::Status status = WriteSchedule(file, options.output); !status.ok()) return status;
  }
  const FrontAnswer answer = {*std::move(front), *std::move(cards)};
  if (!options.drawing.empty()) {
    if (absl::Status status = Draw(answer, options.share, options.drawing); !status.ok()) {
      return status;
    }
  }
  if (point.json) {
    PrintJson(FrontJson(answer));
  } else if (options.output != "/dev/stdout" && options.drawing != "/dev/stdout") {
    std::cout << FrontText(answer);
  }
  return Answer::kYes;
}

}  // namespace

Command AddFront(CLI::App& app) {
  auto options = std::make_shared<FrontCommandOptions>();
  OffloadCommandOptions& point = options->point;
  CLI::App* front = app.add_subcommand(
      "front", "Finds the shortest time of a training iteration for each size of memory");
  options->app = front;
  front->group("Training iterations");
  front->add_option("GRAPH", point.graph, "The task graph, a file as `tidepool model -o` writes it")
      ->required();
  AddWholeOption(*front, "--batch", options->batch, {.least = 1, .most = INT64_MAX},
                 "Samples of an iteration, for a graph at any batch");
  AddSizeOption(*front, "--memory", point.machine.memory_bytes,
                "The most memory of the device (default: enough for all data)");
  AddWholeOption(*front, "--points", options->memories, {.least = 1, .most = kMostMemories},
                 "Memories that are tried, in equal ratios");
  AddBestOptions(*front, point.choice);
  front->get_option("--time-limit")
      ->description(
          "Time limit of the whole front. Its searches count their work and end after about this "
          "time, by the clock only on a slower machine")
      ->default_str("5s");
  AddMachineOptions(*front, point);
  AddDensityOption(*front, point);
  AddDivisionOptions(*front, point);
  AddBatchNormOption(*front, point.choice);
  front
      ->add_option("-o,--output", options->output,
                   "Write the fastest schedule to this file; compressed if the name ends in .gz")
      ->type_name("FILE");
  front->add_option("--svg", options->drawing, "Draw the front to this file")->type_name("FILE");
  front->add_flag(
      "--gpus", options->gpus,
      "Tell which GPUs train the step as it is, by a schedule or not at all, in 4 s for "
      "each without room for it");
  front
      ->add_option("--prices", options->prices,
                   "A file with a line `GPU,PRICE` for each GPU, its price of an hour: --gpus then "
                   "names the GPU on which a step costs least")
      ->type_name("FILE");
  AddNumberOption(
      *front, "--gpu-share", options->share, {0.01, 1},
      "The share of the memory of each GPU that the step may take beside its context and "
      "the reserve of its allocator");
  AddJsonOption(*front, point.json);
  AddExamples(*front, {"tidepool model vgg-16 --family -o family.json",
                       ("tidepool front family.json --batch 64 --memory 4GiB --time-limit 1s "
                        "--svg front.svg"),
                       "tidepool front family.json --batch 64 --time-limit 1s --gpus"});
  return {front, [options] { return RunFront(*options); }};
}

}  // namespace tidepool::tool

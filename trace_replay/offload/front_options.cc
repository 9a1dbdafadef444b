// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/front_options.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/schedule/memory_front.h"
#include "tidepool/schedule/schedule_file.h"
#include "tidepool/trace/output_file.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/division_options.h"
#include "trace_replay/offload/sweep_output.h"
#include "trace_replay/options.h"
#include "trace_replay/report/sweep_drawing.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr char kFrontGroup[] = "Front";
constexpr int kMostMemories = 1000;

// A front decides these itself.
constexpr const char* kNotOfFronts[] = {
    "--policy",    "--offload",     "--algorithms",     "--order",
    "--placement", "--memory-kind", "--sub-batch-rule", "--alpha",
    "--paper",     "--slots",       "--known",          "--schedule",
    "--emit",      "--callbacks",   "--duplex",         "--compression-profile",
    "--chain"};

struct Question {
  ScheduleRequest request;
  FrontOptions options;
};

absl::StatusOr<Question> QuestionOf(const CLI::App& app, const FrontCommandOptions& options,
                                    const OffloadCommandOptions& point, const GraphOrFamily& graphs,
                                    std::int64_t batch) {
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const TaskGraph& graph = family != nullptr ? family->graph : std::get<TaskGraph>(graphs);
  absl::StatusOr<PolicyChoice> choice = PolicyOptionsOf(point, graph);
  if (!choice.ok()) return choice.status();
  choice->chain.stop = StopAtInterrupt();
  Question question;
  question.options.memories = options.memories;
  question.options.modnn = choice->modnn;
  if (app.count("--time-limit") == 0) {
    choice->chain.time_limit_seconds = question.options.best.time_limit_seconds;
  }
  question.request = RequestOf("best", *choice);
  question.options.best = std::get<BestOptions>(std::exchange(question.request.options, {}));
  question.request.machine = MachineOfDevices(choice->machine, point);
  question.request.batch = batch;
  question.request.devices = static_cast<std::size_t>(point.devices);
  const bool is_divided = app.count("--sub-batch") > 0;
  question.request.sub_batch = is_divided ? point.sub_batch : kLargestSubBatch;
  return question;
}

double SlowdownOf(const FrontPoint& point, const MemoryFront& front) {
  return front.ideal_seconds > 0 ? point.seconds / front.ideal_seconds : 1;
}

nlohmann::ordered_json FrontJson(const MemoryFront& front) {
  const MadeSchedule& made = front.points.front().made;
  nlohmann::ordered_json json = {
      {"graph", made.graphs.front().name},         {"batch", made.batch},
      {"devices", made.schedule.devices},          {"fits", true},
      {"ideal_seconds", front.ideal_seconds},      {"complete", !front.stopped},
      {"points", nlohmann::ordered_json::array()}, {"memories", nlohmann::ordered_json::array()}};
  for (const FrontPoint& point : front.points) {
    json["points"].push_back({{"memory_bytes", point.memory_bytes},
                              {"seconds", point.seconds},
                              {"overhead", SlowdownOf(point, front)},
                              {"lower_bound_seconds", point.made.lower_bound_seconds},
                              {"sub_batch", point.made.sub_batch},
                              {"rounds", point.made.rounds},
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
  return json;
}

std::string FrontText(const MemoryFront& front) {
  const MadeSchedule& made = front.points.front().made;
  std::vector<std::vector<std::string>> rows = {{"memory", "iteration", "slowdown", "rounds",
                                                 "samples", "run again", "workspace", "to the host",
                                                 "schedule"}};
  for (const FrontPoint& point : front.points) {
    rows.push_back({MemoryText(point.memory_bytes), MillisecondsText(point.seconds),
                    RatioText(SlowdownOf(point, front)), CountText(point.made.rounds),
                    CountText(point.made.sub_batch), CountText(point.recomputed_tasks),
                    SizeText(point.workspace_bytes), SizeText(point.bytes_out),
                    point.made.schedule.policy});
  }
  return absl::StrCat(absl::CHexEscape(made.graphs.front().name), "\n  batch ",
                      CountText(made.batch), ", all data in memory ",
                      MillisecondsText(front.ideal_seconds),
                      front.stopped ? ",\n  the best before the interrupt or the time limit" : "",
                      "\n\n", TableText(rows));
}

absl::Status Draw(const MemoryFront& front, const std::string& path) {
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
                      out);
    return absl::OkStatus();
  });
}

Answer PrintNothingFits(const OffloadCommandOptions& point, const GraphOrFamily& graphs,
                        const absl::Status& why) {
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const TaskGraph& graph = family != nullptr ? family->graph : std::get<TaskGraph>(graphs);
  if (point.json) {
    PrintJson({{"graph", graph.name}, {"fits", false}, {"why", std::string(why.message())}});
  } else {
    std::cout << absl::CHexEscape(graph.name) << "\n  does not fit: " << why.message() << '\n';
  }
  return Answer::kNo;
}

}  // namespace

void AddFrontOptions(CLI::App& app, FrontCommandOptions& options) {
  app.add_flag("--front", options.is_asked,
               "Answer with the front of time against memory: sub-batch, transfers, tasks that run "
               "again and algorithms chosen together. --memory is the most memory then, and "
               "--time-limit, 5s without the option, is for the whole front. -o takes the fastest "
               "schedule")
      ->group(kFrontGroup);
  AddWholeOption(app, "--points", options.memories, {.least = 1, .most = kMostMemories},
                 "Memories that are tried, in equal ratios")
      ->group(kFrontGroup);
  app.add_option("--svg", options.drawing, "Draw the front to this file")
      ->type_name("FILE")
      ->group(kFrontGroup);
}

absl::Status CheckFrontOptions(const CLI::App& app, const FrontCommandOptions& options,
                               const OffloadCommandOptions& point) {
  if (!options.is_asked) {
    for (const char* name : {"--points", "--svg"}) {
      if (app.count(name) == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": an option of fronts, expected --front"));
    }
    return absl::OkStatus();
  }
  for (const char* name : kNotOfFronts) {
    if (app.count(name) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a front decides this itself, expected none with --front"));
  }
  if (options.drawing == "/dev/stdout" && point.json) {
    return absl::InvalidArgumentError(
        "--svg: the drawing goes to standard output, expected no --json");
  }
  return absl::OkStatus();
}

absl::StatusOr<Answer> PrintFront(const CLI::App& app, const FrontCommandOptions& options,
                                  const OffloadCommandOptions& point, const GraphOrFamily& graphs,
                                  std::int64_t batch, const std::string& output) {
  if (std::holds_alternative<GraphFamily>(graphs) && batch == 0) {
    return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(point.graph),
                                                   ": a graph at any batch, expected --batch too"));
  }
  const absl::StatusOr<Question> question = QuestionOf(app, options, point, graphs, batch);
  if (!question.ok()) return question.status();
  const absl::StatusOr<MemoryFront> front = MakeFront(graphs, question->request, question->options);
  if (absl::IsResourceExhausted(front.status())) {
    return PrintNothingFits(point, graphs, front.status());
  }
  if (!front.ok()) return front.status();
  if (!output.empty()) {
    const MadeSchedule& made = front->points.back().made;
    const ScheduleFile file = {made.schedule, made.graphs.front().name, made.machine};
    if (absl::Status status = WriteSchedule(file, output); !status.ok()) return status;
  }
  if (!options.drawing.empty()) {
    if (absl::Status status = Draw(*front, options.drawing); !status.ok()) return status;
  }
  if (point.json) {
    PrintJson(FrontJson(*front));
  } else if (output != "/dev/stdout" && options.drawing != "/dev/stdout") {
    std::cout << FrontText(*front);
  }
  return Answer::kYes;
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// Compares `best` with every other policy on task graphs, over the memory, and holds its claims
// against the figures:
//
//     best_sweep FOLDER [--models NAME,...] [--pixels N,...] [--batches N,...] [--step PERCENT]
//                [--seconds S] [--part BYTES] [--memory fixed|paged]
//                [--best sends,again,both,parts] [--alone] [--resume]
//
// prints tables and writes points.json and gaps.svg. The networks, sizes and batches are those of
// bench/papers/beaumont_figures.cc, with the rates of a V100, a link of 12.2 GB/s, and the fastest
// algorithm of each task. Limits go from the least memory in which every task can run to M_peak.
// The bound is LowerBoundSeconds, which extends the "better bound" of chains to graphs. Schedules
// with tasks that run again have a lower one.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/support/line_plots.h"
#include "bench/support/schedule_request.h"
#include "lib/base/arithmetic.h"
#include "nlohmann/json.hpp"
#include "policies/training/transfers/graph_problem.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr double kLinkRate = 12.2e9;
constexpr double kMostSeconds = 1000;
constexpr double kEqual = 1e-9;  // relative differences of times below this are rounding errors
constexpr char kBest[] = "best";
constexpr char kBestAgain[] = "best, tasks run again";
constexpr char kBestDuplex[] = "best, both directions";
constexpr char kBestParts[] = "best, both directions, parts";

// A question to `best`.
struct Question {
  const char* option = nullptr;  // of the command line
  const char* name = nullptr;
  bool full_duplex = false;
  bool recomputes = false;
  bool has_parts = false;

  // Whether each schedule that another question allows is one of this question too, and no slower.
  bool Includes(const Question& other) const {
    return full_duplex >= other.full_duplex && recomputes >= other.recomputes &&
           has_parts >= other.has_parts;
  }
};
constexpr Question kQuestions[] = {{"sends", kBest, false, false, false},
                                   {"again", kBestAgain, false, true, false},
                                   {"both", kBestDuplex, true, false, false},
                                   {"parts", kBestParts, true, false, true}};

struct Choices {
  std::string folder;
  std::vector<std::string> models = {"resnet-18",    "resnet-34",    "resnet-50",
                                     "resnet-101",   "resnet-152",   "densenet-121",
                                     "densenet-169", "densenet-201", "inception-v3"};
  std::vector<std::int64_t> pixels = {224, 500, 1000};
  std::vector<std::int64_t> batches = {};  // empty: those of beaumont_figures
  int step_percent = 5;
  double seconds = 2;
  std::int64_t part_bytes = 4 << 20;
  std::string memory = "fixed";
  bool is_alone = false;  // no schedule is handed on
  bool resumes = false;   // asks only for answers that the points of the folder lack
  std::vector<std::string> questions = {"sends", "again", "both", "parts"};
};

struct Case {
  std::string model;
  std::int64_t pixels = 0;
  TaskGraph graph;
  std::int64_t least_bytes = 0;
  std::int64_t peak_bytes = 0;

  std::string Name() const { return absl::StrCat(model, ", ", pixels, " px, batch ", graph.batch); }
};

// The answer of a policy at a limit.
struct Answer {
  std::optional<double> seconds;  // empty: it does not fit
  double bound = 0;
  double search_seconds = 0;
};
struct Limit {
  const Case* of = nullptr;
  int percent = 0;
  std::int64_t memory_bytes = 0;
  std::map<std::string, Answer> answers;  // by policy

  std::string Name() const {
    return absl::StrCat(of->Name(), ", ", memory_bytes / 1'000'000, " MB (", percent, " %)");
  }
};

std::vector<std::int64_t> BatchesAt(const Choices& choices, std::int64_t pixels) {
  if (!choices.batches.empty()) return choices.batches;
  if (pixels == 224) return {16, 32, 64, 128};
  if (pixels == 500) return {4, 8, 16, 32};
  return {1, 2, 4, 8};
}

void KeepFastest(TaskGraph& graph) {
  for (GraphTask& task : graph.tasks) {
    TaskAlgorithm fastest = task.algorithms.front();
    for (const TaskAlgorithm& one : task.algorithms) {
      if (one.seconds < fastest.seconds) fastest = one;
    }
    task.algorithms = {fastest};
  }
}

// Finds the least memory, in which all is away that may be, and the memory in which all stays but
// the gradients of the iteration before. Data at home on the device is there at the begin.
void FindLimits(Case& of) {
  const std::int64_t granule = PlacingOptions().alignment;
  for (const GraphData& data : of.graph.data) {
    if (data.before != DataHome::kDevice) continue;
    of.least_bytes += RoundUp(data.bytes, granule);
  }
  std::vector<transfers::TaskRun> runs(of.graph.tasks.size());
  for (std::size_t task = 0; task < runs.size(); ++task) runs[task].task = task;
  const transfers::TransferProblem problem =
      transfers::MakeGraphProblem(
          of.graph, runs,
          {.granule = granule,
           .rates = {.out_bytes_per_second = kLinkRate, .in_bytes_per_second = kLinkRate}})
          .transfers;
  std::vector<std::int64_t> away(runs.size() + 1);
  for (const transfers::Absence& absence : problem.absences) {
    away[absence.left] += absence.bytes;
    away[absence.needed] -= absence.bytes;
  }
  std::int64_t gone = 0;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    gone += away[k];
    of.least_bytes = std::max(of.least_bytes, problem.running_bytes[k] - gone);
    of.peak_bytes = std::max(of.peak_bytes, problem.running_bytes[k]);
  }
}

std::vector<Case> MakeCases(const Choices& choices) {
  std::vector<Case> cases;
  for (const std::string& model : choices.models) {
    for (const std::int64_t pixels : choices.pixels) {
      for (const std::int64_t batch : BatchesAt(choices, pixels)) {
        Case one = {model, pixels,
                    MakeModel(model, {.batch = batch, .image = pixels, .gpu = "v100"}).value()};
        KeepFastest(one.graph);
        FindLimits(one);
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

ScheduleRequest RequestFor(std::int64_t memory_bytes, bool full_duplex) {
  ScheduleRequest request = bench::RequestFor(memory_bytes, kLinkRate);
  request.machine.links.front().full_duplex = full_duplex;
  return request;
}

// Writes a schedule that fits to `made_schedule` where that is not null.
Answer Ask(const std::string& policy, const TaskGraph& graph, const ScheduleRequest& request,
           std::vector<Schedule>* made_schedule = nullptr) {
  const std::clock_t begin = std::clock();
  absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, request);
  Answer answer;
  answer.search_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (!made.ok()) return answer;
  const absl::StatusOr<Timeline> timeline = Simulate(*made);
  if (!timeline.ok()) return answer;
  answer.seconds = timeline->seconds;
  answer.bound = made->lower_bound_seconds;
  if (made_schedule != nullptr) *made_schedule = {std::move(made->schedule)};
  return answer;
}

// The last schedules so far, by question. Each answer is handed on to the next limit, and to the
// later questions at the same limit that allow more.
using Known = std::map<std::string, std::vector<Schedule>>;

std::vector<Schedule> KnownFor(const Question& question, const Known& known) {
  std::vector<Schedule> schedules;
  for (const Question& other : kQuestions) {
    const auto found = known.find(other.name);
    if (found == known.end() || !question.Includes(other)) continue;
    schedules.insert(schedules.end(), found->second.begin(), found->second.end());
  }
  return schedules;
}

void AskBest(const Choices& choices, Limit& limit, Known& known) {
  for (const Question& question : kQuestions) {
    const auto& asked = choices.questions;
    if (std::find(asked.begin(), asked.end(), question.option) == asked.end()) continue;
    if (limit.answers.contains(question.name)) continue;
    ScheduleRequest request = RequestFor(limit.memory_bytes, question.full_duplex);
    if (choices.memory == "paged") request.memory = ScheduleMemory::kPaged;
    // The work of these seconds, so that no answer depends on the clock of a busy machine.
    request.options = BestOptions{
        .time_limit_seconds = kMostSeconds,
        .work_seconds = choices.seconds,
        .recomputes = question.recomputes,
        .part_bytes = question.has_parts ? choices.part_bytes : 0,
        .known = choices.is_alone ? std::vector<Schedule>() : KnownFor(question, known)};
    limit.answers[question.name] = Ask("best", limit.of->graph, request, &known[question.name]);
  }
}

void WriteJson(const std::vector<Limit>& limits, const std::string& path) {
  nlohmann::json points = nlohmann::json::array();
  for (const Limit& limit : limits) {
    for (const auto& [policy, answer] : limit.answers) {
      nlohmann::json point = {{"model", limit.of->model},
                              {"pixels", limit.of->pixels},
                              {"batch", limit.of->graph.batch},
                              {"memory_percent", limit.percent},
                              {"memory_bytes", limit.memory_bytes},
                              {"policy", policy},
                              {"search_seconds", answer.search_seconds}};
      if (answer.seconds.has_value()) {
        point["seconds"] = *answer.seconds;
        point["lower_bound_seconds"] = answer.bound;
      }
      points.push_back(std::move(point));
    }
  }
  std::ofstream(path) << points.dump(1) << '\n';
}

std::vector<Limit> LimitsOf(const std::vector<Case>& cases, int step_percent) {
  std::vector<Limit> limits;
  for (const Case& of : cases) {
    for (int percent = 0; percent <= 100; percent += step_percent) {
      limits.push_back(
          {&of, percent, of.least_bytes + (of.peak_bytes - of.least_bytes) * percent / 100, {}});
    }
  }
  return limits;
}

// Reads the answers that WriteJson wrote of these limits.
void TakeAnswers(const std::string& path, std::vector<Limit>& limits) {
  if (!std::filesystem::exists(path)) return;
  nlohmann::json points;
  std::ifstream(path) >> points;
  const auto key_of = [](const std::string& model, std::int64_t pixels, std::int64_t batch,
                         int percent) {
    return absl::StrCat(model, " ", pixels, " ", batch, " ", percent);
  };
  std::map<std::string, Limit*> by_key;
  for (Limit& limit : limits) {
    by_key[key_of(limit.of->model, limit.of->pixels, limit.of->graph.batch, limit.percent)] =
        &limit;
  }
  for (const nlohmann::json& point : points) {
    const auto limit = by_key.find(
        key_of(point["model"], point["pixels"], point["batch"], point["memory_percent"]));
    if (limit == by_key.end()) continue;
    Answer& answer = limit->second->answers[point["policy"]];
    answer.search_seconds = point["search_seconds"];
    if (!point.contains("seconds")) continue;
    answer.seconds = point["seconds"].get<double>();
    answer.bound = point["lower_bound_seconds"];
  }
}

// Asks the other policies for schedules with the same memory, where they make such.
void AskOthers(const Choices& choices, Limit& limit) {
  for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
    if (policy.name == "best" || limit.answers.contains(policy.name)) continue;
    ScheduleRequest request = RequestFor(limit.memory_bytes, false);
    if (choices.memory == "paged" && policy.has_rounds) request.memory = ScheduleMemory::kPaged;
    limit.answers[policy.name] = Ask(policy.name, limit.of->graph, request);
  }
}

// Asks for the answers that earlier sweeps did not give. Points are written after each case, as a
// sweep may take hours.
std::vector<Limit> AskAll(const Choices& choices, const std::vector<Case>& cases) {
  const std::string path = choices.folder + "/points.json";
  std::vector<Limit> limits = LimitsOf(cases, choices.step_percent);
  if (choices.resumes) TakeAnswers(path, limits);
  Known known;
  for (std::size_t k = 0; k < limits.size(); ++k) {
    AskOthers(choices, limits[k]);
    AskBest(choices, limits[k], known);
    if (k + 1 < limits.size() && limits[k + 1].of == limits[k].of) continue;
    known.clear();
    std::fprintf(stderr, "%s\n", limits[k].Name().c_str());
    WriteJson(limits, path);
  }
  return limits;
}

bool IsAsked(const std::vector<Limit>& limits, const std::string& policy) {
  return limits.front().answers.contains(policy);
}

Answer AnswerOf(const Limit& limit, const std::string& policy) {
  const auto found = limit.answers.find(policy);
  return found == limit.answers.end() ? Answer() : found->second;
}

// A figure over all limits: its mean and its most, with the limit.
struct Summary {
  int count = 0;
  double sum = 0;
  double most = 0;
  const Limit* at = nullptr;

  void Add(double value, const Limit& limit) {
    ++count;
    sum += value;
    if (at != nullptr && value <= most) return;
    most = value;
    at = &limit;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
};

template <typename Value>
Summary Summarize(const std::vector<Limit>& limits, const std::string& policy, const Value& value) {
  Summary summary;
  for (const Limit& limit : limits) {
    const auto found = limit.answers.find(policy);
    if (found != limit.answers.end() && found->second.seconds.has_value()) {
      summary.Add(value(found->second), limit);
    }
  }
  return summary;
}
double Gap(const Answer& answer) { return *answer.seconds / answer.bound; }
double SearchSeconds(const Answer& answer) { return answer.search_seconds; }

void PrintTable(const std::vector<Limit>& limits) {
  std::printf("%-30s %6s %6s %9s %9s %9s %9s\n", "policy", "limits", "fit", "mean gap", "largest",
              "mean s", "most s");
  for (const auto& [policy, answer] : limits.front().answers) {
    const Summary gap = Summarize(limits, policy, Gap);
    const Summary seconds = Summarize(limits, policy, SearchSeconds);
    std::printf("%-30s %6zu %6d %9.4f %9.4f %9.2f %9.2f\n", policy.c_str(), limits.size(),
                gap.count, gap.mean(), gap.most, seconds.mean(), seconds.most);
  }
}

void PrintModels(const Choices& choices, const std::vector<Limit>& limits) {
  std::vector<const char*> policies = {kBest, kBestDuplex, kBestParts};
  std::erase_if(policies, [&](const char* policy) { return !IsAsked(limits, policy); });
  std::printf("\n%-14s", "mean gap");
  for (const char* policy : policies) std::printf(" %28s", policy);
  std::printf("\n");
  for (const std::string& model : choices.models) {
    std::vector<Limit> own;
    for (const Limit& limit : limits) {
      if (limit.of->model == model) own.push_back(limit);
    }
    std::printf("%-14s", model.c_str());
    for (const char* policy : policies) {
      std::printf(" %28.4f", Summarize(own, policy, Gap).mean());
    }
    std::printf("\n");
  }
}

void PrintClaim(bool held, const std::string& claim, const std::string& figures) {
  std::printf("%-8s  %s: %s\n", held ? "held" : "not held", claim.c_str(), figures.c_str());
}

// Holds that an answer is never slower than those of other policies on the same link.
void ClaimNeverSlower(const std::vector<Limit>& limits, const std::string& own,
                      const std::vector<std::string>& others) {
  if (!IsAsked(limits, own)) return;
  int compared = 0;
  int slower = 0;
  Summary most;
  for (const Limit& limit : limits) {
    for (const std::string& other : others) {
      const Answer b = AnswerOf(limit, other);
      if (!b.seconds.has_value()) continue;
      ++compared;
      const Answer a = AnswerOf(limit, own);
      const double quotient = a.seconds.has_value() ? *a.seconds / *b.seconds : 1e9;
      slower += quotient > 1 + kEqual ? 1 : 0;
      most.Add(quotient, limit);
    }
  }
  PrintClaim(
      slower == 0, absl::StrCat(own, ": never slower than the others"),
      absl::StrCat(slower, " of ", compared, " comparisons are",
                   slower > 0 ? absl::StrCat(", at most ", most.most, " times, ", most.at->Name())
                              : std::string()));
}

// Holds that an answer in more memory is never slower.
void ClaimNeverGrows(const Choices& choices, const std::vector<Limit>& limits,
                     const std::string& policy) {
  if (!IsAsked(limits, policy)) return;
  int compared = 0;
  int slower = 0;
  Summary most;
  for (std::size_t k = 1; k < limits.size(); ++k) {
    const Answer less = AnswerOf(limits[k - 1], policy);
    if (limits[k].of != limits[k - 1].of || !less.seconds.has_value()) continue;
    ++compared;
    const Answer more = AnswerOf(limits[k], policy);
    const double quotient = more.seconds.has_value() ? *more.seconds / *less.seconds : 1e9;
    slower += quotient > 1 + kEqual ? 1 : 0;
    most.Add(quotient, limits[k]);
  }
  PrintClaim(
      slower == 0,
      absl::StrCat(policy, ": never slower in more memory, ",
                   choices.is_alone ? "each limit alone" : "schedules handed on"),
      absl::StrCat(slower, " of ", compared, " steps are",
                   slower > 0 ? absl::StrCat(", at most ", most.most, " times, ", most.at->Name())
                              : std::string()));
}

void ClaimMean(const std::vector<Limit>& limits, const std::string& policy, double most) {
  const Summary gap = Summarize(limits, policy, Gap);
  if (gap.count == 0) return;
  PrintClaim(gap.mean() <= most, absl::StrCat(policy, ": mean gap at most ", most),
             absl::StrCat(gap.mean(), ", at most ", gap.most, ", ", gap.at->Name()));
}

void ClaimTime(const std::vector<Limit>& limits, const std::string& policy, double most) {
  const Summary seconds = Summarize(limits, policy, SearchSeconds);
  if (seconds.count == 0) return;
  PrintClaim(seconds.most <= most, absl::StrCat(policy, ": within ", most, " s each"),
             absl::StrCat("mean ", seconds.mean(), " s, at most ", seconds.most, " s, ",
                          seconds.at->Name()));
}

void PrintGreedysWorst(const std::vector<Limit>& limits) {
  Summary loss;
  for (const Limit& limit : limits) {
    const Answer greedy = AnswerOf(limit, "greedy");
    const Answer best = AnswerOf(limit, kBest);
    if (greedy.seconds.has_value() && best.seconds.has_value()) {
      loss.Add(*greedy.seconds / *best.seconds, limit);
    }
  }
  if (loss.at == nullptr) return;
  PrintClaim(loss.most > 1.1, "greedy loses more than 10 % somewhere",
             absl::StrCat(loss.most, " times the time of best, ", loss.at->Name()));
}

void PrintClaims(const Choices& choices, const std::vector<Limit>& limits) {
  std::printf("\n");
  const std::vector<std::string> sending = {"none",    "vdnn",       "vdnn++",   "base",  "greedy",
                                            "dynprog", "vdnn-ratio", "autoswap", "tflms", "modnn"};
  ClaimNeverSlower(limits, kBest, sending);
  ClaimNeverSlower(limits, kBestAgain, {kBest, "recompute", "pofo"});
  ClaimNeverSlower(limits, kBestParts, {kBest, kBestDuplex});
  for (const Question& question : kQuestions) ClaimNeverGrows(choices, limits, question.name);
  constexpr double kGoal = 1.02;
  constexpr double kGoalOfParts = 1.015;
  ClaimMean(limits, kBest, kGoal);
  ClaimMean(limits, kBestParts, kGoalOfParts);
  for (const Question& question : kQuestions) ClaimTime(limits, question.name, choices.seconds);
  PrintGreedysWorst(limits);
}

void WriteFigure(const std::vector<Limit>& limits, const std::string& path) {
  PlotPage page = {.title = "Makespan over the lower bound",
                   .x_label = "memory, % from the least to M_peak",
                   .y_label = "seconds / bound",
                   .least_y = 1,
                   .most_y = 2};
  const Case* last = nullptr;
  for (const Limit& limit : limits) {
    if (limit.of != last) page.plots.push_back({limit.of->Name(), {}});
    last = limit.of;
    for (const auto& [policy, answer] : limit.answers) {
      if (!answer.seconds.has_value()) continue;
      page.plots.back().lines[policy].emplace_back(limit.percent, Gap(answer));
    }
  }
  WritePlots(page, path);
}

int Main(int argc, char** argv) {
  Choices choices;
  CLI::App app("Compares `best` with every other policy on task graphs.");
  app.add_option("FOLDER", choices.folder, "Folder of the results")->required();
  app.add_option("--models", choices.models, "Networks")->delimiter(',');
  app.add_option("--pixels", choices.pixels, "Sides of the images")->delimiter(',');
  app.add_option("--batches", choices.batches, "Samples")->delimiter(',');
  app.add_option("--step", choices.step_percent, "Percent of memory from one limit to the next")
      ->check(CLI::Range(1, 100));
  app.add_option("--seconds", choices.seconds, "Time limit of best");
  app.add_option("--part", choices.part_bytes, "Bytes of parts; 0: no parts");
  app.add_option("--memory", choices.memory, "Memory of best: fixed or paged")
      ->check(CLI::IsMember({"fixed", "paged"}));
  app.add_option("--best", choices.questions, "Answers of best: sends, again, both, parts")
      ->delimiter(',')
      ->check(CLI::IsMember({"sends", "again", "both", "parts"}));
  app.add_flag("--alone", choices.is_alone,
               "Let best find each schedule without those of less memory and of other questions");
  app.add_flag("--resume", choices.resumes,
               "Ask only for answers that FOLDER/points.json, of the same memory, lacks");
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(choices.folder);
  const std::vector<Case> cases = MakeCases(choices);
  if (cases.empty()) return 1;
  const std::vector<Limit> limits = AskAll(choices, cases);
  PrintTable(limits);
  PrintModels(choices, limits);
  PrintClaims(choices, limits);
  WriteFigure(limits, choices.folder + "/gaps.svg");
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }

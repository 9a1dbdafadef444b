// SPDX-License-Identifier: Apache-2.0
// Time over the ideal of `best` for known networks in little memory, with fixed addresses and in
// pages:
//
//     practical_sweep [--models NAME,...] [--percents N,...] [--seconds S] [--by-clock]
//     [--no-others]
//
// The link has 24 GB/s in each direction. Memories are parts of the peak without a policy. Searches
// end by the work of S seconds, so that no answer depends on the machine's load; with --by-clock
// they end as those of the command line do. Every other policy is asked too. A memory below the
// largest task fits no schedule; rows that break a promise name it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/support/schedule_request.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr double kLinkRate = 24e9;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Network {
  const char* name;
  std::int64_t batch;
  const char* gpu;
};
constexpr Network kNetworks[] = {{"gpt2-medium", 8, "a100"},    {"resnet-152", 64, "v100"},
                                 {"densenet-201", 64, "v100"},  {"vgg-19", 128, "a100"},
                                 {"inception-v3", 128, "a100"}, {"vit-l-16", 64, "a100"},
                                 {"resnet-50", 32, "v100"}};

struct Choices {
  std::vector<std::string> models = {"gpt2-medium", "resnet-152",   "densenet-201",
                                     "vgg-19",      "inception-v3", "vit-l-16"};
  std::vector<int> percents = {20, 35, 50, 70, 90};
  double seconds = 2;
  bool by_clock = false;
  bool without_others = false;
};

// The answer of a policy, with times over the ideal.
struct Answer {
  double slowdown = kNever;
  double search_seconds = 0;
};

Answer Ask(const std::string& policy, const TaskGraph& graph, const ScheduleRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, request);
  Answer answer;
  answer.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!made.ok()) return answer;
  const absl::StatusOr<Timeline> timeline = Simulate(*made);
  if (timeline.ok()) answer.slowdown = timeline->seconds / made->ideal_seconds;
  return answer;
}

Answer AskBest(const Choices& choices, const TaskGraph& graph, std::int64_t memory_bytes,
               ScheduleMemory memory) {
  constexpr double kMostSeconds = 1000;
  ScheduleRequest request = RequestFor(memory_bytes, kLinkRate);
  request.memory = memory;
  BestOptions options = {.time_limit_seconds = choices.seconds};
  if (!choices.by_clock) {
    options.work_seconds = choices.seconds;
    options.time_limit_seconds = kMostSeconds;
  }
  request.options = options;
  return Ask("best", graph, request);
}

// Returns the fastest answer of all other policies with their default options.
double FastestOther(const TaskGraph& graph, std::int64_t memory_bytes) {
  double fastest = kNever;
  for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
    if (policy.name == "best") continue;
    fastest =
        std::min(fastest, Ask(policy.name, graph, RequestFor(memory_bytes, kLinkRate)).slowdown);
  }
  return fastest;
}

// A figure over all memories that fit.
class Figure {
 public:
  void Add(double value) {
    if (value == kNever) return;
    ++count_;
    sum_ += value;
    most_ = std::max(most_, value);
  }
  int count() const { return count_; }
  double mean() const { return count_ > 0 ? sum_ / count_ : 0; }
  double most() const { return most_; }

 private:
  int count_ = 0;
  double sum_ = 0;
  double most_ = 0;
};

// Times over the ideal in one memory.
struct Row {
  double fixed = kNever;
  double paged = kNever;
  double other = kNever;  // of the fastest other policy
};

class Sweep {
 public:
  explicit Sweep(const Choices& choices) : choices_(choices) {}

  void Run() {
    std::printf("%-14s %8s %9s %9s %9s %9s %9s\n", "network", "% of peak", "MiB", "fixed", "pages",
                "others", "search s");
    for (const Network& network : kNetworks) {
      const auto& models = choices_.models;
      if (std::find(models.begin(), models.end(), network.name) != models.end()) Run(network);
    }
    Print("fixed", fixed_);
    Print("pages", paged_);
    Print("fixed / pages", ratio_);
    Print("search s", search_seconds_);
    for (const auto& [promise, faults] : faults_) std::printf("%s: %d\n", promise.c_str(), faults);
  }

 private:
  void Run(const Network& network) {
    const TaskGraph graph =
        MakeModel(network.name, {.batch = network.batch, .gpu = network.gpu}).value();
    const std::int64_t peak =
        Simulate(MakeSchedule("none", graph, RequestFor(std::int64_t{1} << 50, kLinkRate)).value())
            ->peak_device_bytes;
    const std::int64_t largest_task = TotalsOf(graph).largest_task;
    Row before;
    for (const int percent : choices_.percents) {
      const std::int64_t memory = peak / 100 * percent;
      const Answer fixed = AskBest(choices_, graph, memory, ScheduleMemory::kFixed);
      const Answer paged = AskBest(choices_, graph, memory, ScheduleMemory::kPaged);
      const Row row = {.fixed = fixed.slowdown,
                       .paged = paged.slowdown,
                       .other = choices_.without_others ? kNever : FastestOther(graph, memory)};
      std::printf("%-14s %8d %9.0f %9.4f %9.4f %9.4f %9.2f", network.name, percent,
                  static_cast<double>(memory) / (1 << 20), row.fixed, row.paged, row.other,
                  fixed.search_seconds);
      if (memory < largest_task) std::printf("  below the largest task");
      fixed_.Add(row.fixed);
      paged_.Add(row.paged);
      if (row.paged < kNever) ratio_.Add(row.fixed / row.paged);
      search_seconds_.Add(fixed.search_seconds);
      Check(row, before);
      std::printf("\n");
      std::fflush(stdout);
      before = row;
    }
  }

  void Check(const Row& row, const Row& before) {
    const auto check = [&](const char* promise, double seconds, double most) {
      const bool is_broken = seconds > most * (1 + kEqual);
      faults_[promise] += is_broken ? 1 : 0;
      if (is_broken) std::printf("  %s", promise);
    };
    check("fixed slower than another policy", row.fixed, row.other);
    check("pages slower than another policy", row.paged, row.other);
    check("fixed slower in more memory", row.fixed, before.fixed);
    check("pages slower in more memory", row.paged, before.paged);
    check("pages slower than fixed", row.paged, row.fixed);
    check("fixed over 10 % slower than pages", row.fixed, 1.1 * row.paged);
  }

  static void Print(const char* name, const Figure& figure) {
    std::printf("%s: %d memories, mean %.4f, most %.4f\n", name, figure.count(), figure.mean(),
                figure.most());
  }

  static constexpr double kEqual = 1e-9;

  const Choices& choices_;
  Figure fixed_;
  Figure paged_;
  Figure ratio_;
  Figure search_seconds_;
  std::map<std::string, int> faults_;  // by promise
};

int Main(int argc, char** argv) {
  Choices choices;
  CLI::App app("Compares best with fixed addresses and in pages, in little memory");
  app.add_option("--models", choices.models, "Networks")->delimiter(',');
  app.add_option("--percents", choices.percents, "Memories, per cent of the peak, ascending")
      ->delimiter(',');
  app.add_option("--seconds", choices.seconds, "Seconds of work for each answer of best");
  app.add_flag("--by-clock", choices.by_clock, "Let the clock end searches too");
  app.add_flag("--no-others", choices.without_others, "Leave the other policies out");
  CLI11_PARSE(app, argc, argv);
  Sweep(choices).Run();
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }

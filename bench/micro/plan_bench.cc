// SPDX-License-Identifier: Apache-2.0
// Measures the planner: heights over the lower bound, and the processor time of each search, on
// MiniMalloc's hard inputs, on real traces and on training steps that are made here. Processor time
// is comparable on a machine that has other work. The validator is on.
//
// usage: plan_bench [--time-limit SECONDS] [--json] [--fixed COUNT] [--streams] [TRACE...]
// With --streams, only problems with several streams are measured.
// With --fixed, each problem gets this many fixed buffers that live throughout, with a quarter of
// its peak in sum. Best-fit places them, as if they were allocated at random times. Without traces,
// the program takes the folder ../shared/traces beside the project, if it exists, the examples and
// the training steps.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace {

using tidepool::Plan;
using tidepool::PlanOptions;
using tidepool::PlanProblem;

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

struct Figures {
  double ratio = 0;  // of the height to the lower bound by load
  double seconds = 0;
  bool optimal = false;
};

Figures Measure(const PlanProblem& problem, const PlanOptions& options) {
  const double start = ProcessorSeconds();
  const absl::StatusOr<Plan> plan = tidepool::MakePlan(problem, options);
  const double seconds = ProcessorSeconds() - start;
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.status().ToString().c_str());
    std::exit(1);
  }
  const auto bound = static_cast<double>(*tidepool::PlanLowerBound(problem));
  return {static_cast<double>(plan->height) / bound, seconds, plan->optimal};
}

// Serves buffers in the order of time from the smallest free range that holds them.
class BestFit {
 public:
  explicit BestFit(const std::vector<tidepool::PlanBuffer>& buffers) : buffers_(buffers) {}

  std::vector<std::int64_t> Offsets() {
    std::vector<std::tuple<std::int64_t, bool, std::size_t>> changes;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      changes.emplace_back(buffers_[i].lower, true, i);
      changes.emplace_back(buffers_[i].upper, false, i);
    }
    std::sort(changes.begin(), changes.end());
    std::vector<std::int64_t> offsets(buffers_.size());
    for (const auto& [time, begins, i] : changes) {
      if (begins) {
        offsets[i] = Place(buffers_[i]);
        live_[offsets[i]] = offsets[i] + buffers_[i].bytes;
      } else {
        live_.erase(offsets[i]);
      }
    }
    return offsets;
  }

 private:
  std::int64_t Place(const tidepool::PlanBuffer& buffer) const {
    std::int64_t top = 0;
    std::int64_t best = -1;
    std::int64_t least_room = INT64_MAX;
    for (const auto& [offset, end] : live_) {
      const std::int64_t room = offset - top;
      if (room >= buffer.bytes && room < least_room) {
        least_room = room;
        best = top;
      }
      top = (end + buffer.alignment - 1) & -buffer.alignment;
    }
    return best >= 0 ? best : top;
  }

  const std::vector<tidepool::PlanBuffer>& buffers_;
  std::map<std::int64_t, std::int64_t> live_;  // offset and end
};

PlanProblem WithFixed(PlanProblem problem, int count) {
  std::mt19937_64 random(1);
  const std::size_t movable = problem.buffers.size();
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (const tidepool::PlanBuffer& buffer : problem.buffers) {
    first = std::min(first, buffer.lower);
    last = std::max(last, buffer.upper);
  }
  const std::int64_t part = *tidepool::PlanLowerBound(problem) / 4 / count;
  const std::int64_t alignment = problem.buffers.front().alignment;
  for (int i = 0; i < count; ++i) {
    // From a tenth to nearly twice the mean.
    const std::int64_t bytes =
        part / 10 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(part * 9 / 5));
    problem.buffers.push_back({.lower = problem.buffers[random() % movable].lower,
                               .upper = last,
                               .bytes = std::max(alignment, bytes / alignment * alignment),
                               .alignment = alignment});
  }
  const std::vector<std::int64_t> offsets = BestFit(problem.buffers).Offsets();
  for (std::size_t i = movable; i < offsets.size(); ++i) {
    problem.buffers[i].lower = first;
    problem.buffers[i].offset = offsets[i];
  }
  return problem;
}

class Table {
 public:
  // With this number of fixed buffers in each problem.
  Table(double time_limit, bool json, int fixed)
      : time_limit_(time_limit), json_(json), fixed_(fixed) {
    std::printf(json_ ? "[\n" : "%-40s %8s | %9s %8s | %9s %8s | %9s\n", "problem", "buffers",
                "in 0.1 s", "s", "in limit", "s", "s to fit");
  }
  ~Table() { std::printf(json_ ? "\n]\n" : ""); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void Add(const std::string& name, const PlanProblem& problem,
           std::optional<std::int64_t> capacity = std::nullopt) {
    if (fixed_ > 0) return AddRow(name, WithFixed(problem, fixed_), std::nullopt);
    AddRow(name, problem, capacity);
  }

  void AddRow(const std::string& name, const PlanProblem& problem,
              std::optional<std::int64_t> capacity) {
    const Figures quick = Measure(problem, {.time_limit_seconds = 0.1});
    const Figures best = Measure(problem, {.time_limit_seconds = time_limit_});
    const double fit =
        capacity.has_value()
            ? Measure(problem, {.capacity = capacity, .time_limit_seconds = 1e9}).seconds
            : 0;
    if (json_) {
      std::printf(
          "%s{\"problem\": \"%s\", \"buffers\": %zu, \"ratio_in_100_ms\": %.6f, "
          "\"ratio_in_limit\": %.6f, \"seconds\": %.4f, \"optimal\": %s, \"seconds_to_fit\": %.4f}",
          rows_ == 0 ? "" : ",\n", name.c_str(), problem.buffers.size(), quick.ratio, best.ratio,
          best.seconds, best.optimal ? "true" : "false", fit);
    } else {
      std::printf("%-40.40s %8zu | %9.6f %8.3f | %9.6f %8.3f | %9.3f\n", name.c_str(),
                  problem.buffers.size(), quick.ratio, quick.seconds, best.ratio, best.seconds,
                  fit);
    }
    std::fflush(stdout);
    ++rows_;
    at_bound_ += best.ratio < 1 + 1e-6 ? 1 : 0;
    logarithms_ += std::log(best.ratio);
    fit_seconds_ += fit;
  }

  void Summarize() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::fprintf(stderr,
                 "%d problems, %d at the bound, geometric mean %.6f, %.2f s to fit, %ld MiB\n",
                 rows_, at_bound_, std::exp(logarithms_ / std::max(1, rows_)), fit_seconds_,
                 usage.ru_maxrss / 1024);
  }

 private:
  const double time_limit_;
  const bool json_;
  const int fixed_;
  int rows_ = 0;
  int at_bound_ = 0;
  double logarithms_ = 0;
  double fit_seconds_ = 0;
};

// The capacity in names such as "A.1048576.csv".
std::optional<std::int64_t> CapacityInName(const std::filesystem::path& path) {
  const std::string number = path.stem().extension().string();
  if (number.size() < 2 || number.find_first_not_of("0123456789", 1) != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(number.substr(1));
}

void AddFile(const std::filesystem::path& path, Table& table) {
  const absl::StatusOr<tidepool::Trace> trace = tidepool::ReadTrace(path.string());
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", trace.status().ToString().c_str());
    return;
  }
  const auto problem = tidepool::ToPlanProblem(*trace, trace->default_alignment);
  if (problem.ok()) table.Add(path.filename().string(), *problem, CapacityInName(path));
}

void AddFolder(const std::filesystem::path& folder, Table& table) {
  if (!std::filesystem::exists(folder)) return;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" && entry.path().extension() != ".md") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) AddFile(file, table);
}

// Training steps of a transformer, as an allocator sees them: weights and optimizer states that
// stay, activations from the forward to the backward pass of their layer, gradients until the end
// of the step, and workspaces in between.
class Steps {
 public:
  PlanProblem Make(int layers, int steps) {
    for (int i = 0; i < 12 * layers; ++i) Keep(kWide * (1 + i % 4));
    for (int step = 0; step < steps; ++step) MakeStep(layers);
    for (const std::size_t kept : kept_) problem_.buffers[kept].upper = now_ + 1;
    return std::move(problem_);
  }

 private:
  static constexpr std::int64_t kWide = 3 << 20;
  static constexpr std::int64_t kScores = 48 << 20;

  std::size_t Add(std::int64_t bytes) {
    ++now_;
    problem_.buffers.push_back({.lower = now_, .upper = now_ + 1, .bytes = bytes});
    problem_.buffers.back().alignment = 512;
    return problem_.buffers.size() - 1;
  }
  void Keep(std::int64_t bytes) { kept_.push_back(Add(bytes)); }
  void Use(std::int64_t bytes, int ticks) {
    const std::size_t added = Add(bytes);
    problem_.buffers[added].upper = now_ + ticks;
  }

  void MakeStep(int layers) {
    std::vector<std::vector<std::size_t>> saved(layers);
    for (int layer = 0; layer < layers; ++layer) {
      for (int i = 0; i < 8; ++i) {
        saved[layer].push_back(Add(i % 3 == 2 ? kScores : kWide * (1 + i % 4)));
        for (int k = 0; k < 3; ++k) Use(512 << (2 * k), 2);
        Use(kWide * (1 + i % 2) + std::int64_t{512} * i, 3 + i % 3);
      }
    }
    std::vector<std::size_t> gradients;
    for (int layer = layers - 1; layer >= 0; --layer) {
      for (int i = 7; i >= 0; --i) {
        Use(i % 3 == 2 ? kScores : kWide, 4);
        Use(kWide / 2 + std::int64_t{512} * i, 2);
        Use(4096, 1);
        if (i < 6) gradients.push_back(Add(kWide * (1 + i % 4)));
        problem_.buffers[saved[layer][i]].upper = ++now_;
      }
    }
    for (const std::size_t gradient : gradients) {
      Use(problem_.buffers[gradient].bytes, 2);
      problem_.buffers[gradient].upper = ++now_;
    }
  }

  PlanProblem problem_;
  std::vector<std::size_t> kept_;
  std::int64_t now_ = 0;
};

void AddTrainingSteps(Table& table) {
  table.Add("a training step", Steps().Make(90, 1));
  table.Add("8 training steps", Steps().Make(90, 8));
  table.Add("68 training steps", Steps().Make(90, 68));
}

// Streams that allocate and free at random, and wait for one another now and then.
PlanProblem RandomStreams(std::uint32_t streams, std::int64_t events,
                          std::uint64_t waits_in_thousand) {
  constexpr std::size_t kLive = 40;  // a stream
  std::mt19937_64 random(1);
  PlanProblem problem;
  std::vector<std::vector<std::size_t>> live(streams);
  for (std::int64_t time = 0; time < events; ++time) {
    const auto stream = static_cast<std::uint32_t>(random() % streams);
    std::vector<std::size_t>& own = live[stream];
    if (random() % 1000 < waits_in_thousand) {
      problem.waits.push_back({time, stream, static_cast<std::uint32_t>(random() % streams)});
    } else if (random() % (2 * kLive) >= own.size()) {
      own.push_back(problem.buffers.size());
      problem.buffers.push_back({.lower = time,
                                 .upper = events,
                                 .bytes = static_cast<std::int64_t>(512 << random() % 12),
                                 .alignment = 512,
                                 .stream = stream,
                                 .free_stream = stream});
    } else {
      std::swap(own[random() % own.size()], own.back());
      problem.buffers[own.back()].upper = time;
      own.pop_back();
    }
  }
  return problem;
}

void AddStreams(Table& table) {
  for (const std::uint32_t streams : {2U, 32U}) {
    for (const std::int64_t events : {10'000, 100'000, 1'000'000}) {
      for (const std::uint64_t waits : {0U, 1U, 100U}) {
        table.AddRow(std::to_string(streams) + " streams, " + std::to_string(events) +
                         " events, a wait in " +
                         (waits == 0 ? "none" : std::to_string(1000 / waits)),
                     RandomStreams(streams, events, waits), std::nullopt);
      }
    }
  }
}

void AddAll(Table& table) {
  const std::filesystem::path source = TIDEPOOL_SOURCE_DIR;
  for (const char* name : {"lifetimes", "pytorch", "recorded", "vdnnpp"}) {
    AddFolder(source / ".." / "shared" / "traces" / name, table);
  }
  AddFolder(source / "examples" / "traces", table);
  AddTrainingSteps(table);
  AddStreams(table);
}

}  // namespace

int main(int argc, char** argv) {
  double time_limit = 10;
  bool json = false;
  int fixed = 0;
  bool streams = false;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--time-limit" && i + 1 < argc) {
      time_limit = std::strtod(argv[++i], nullptr);
    } else if (argument == "--fixed" && i + 1 < argc) {
      fixed = std::atoi(argv[++i]);
    } else if (argument == "--json") {
      json = true;
    } else if (argument == "--streams") {
      streams = true;
    } else {
      files.emplace_back(argument);
    }
  }
  Table table(time_limit, json, fixed);
  for (const std::string& file : files) AddFile(file, table);
  if (streams) {
    AddStreams(table);
  } else if (files.empty()) {
    AddAll(table);
  }
  table.Summarize();
  return 0;
}

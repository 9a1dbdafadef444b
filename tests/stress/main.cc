// SPDX-License-Identifier: Apache-2.0
// Stress: random work on every part of the library at once, by several threads, with faults at any
// call of the device, for any time.
// tidepool_stress [--seconds N | --rounds N] [--part NAME]... [--seed N]
// Parts take turns, one round each. With --seed all rounds use that seed; without it each round
// draws another seed.
// Exit status: 0 success, 1 a check failed, 2 the command line is wrong, 3 no operation made
// progress.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/stress/stress.h"
#include "tests/stress/watch.h"

namespace tidepool::stress {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<Part>& Parts() {
  static const std::vector<Part> parts = {
      {"pool", RunPoolRound},         {"planned", RunPlannedRound},
      {"regions", RunRegionRound},    {"offloader", RunOffloaderRound},
      {"executor", RunExecutorRound}, {"recorder", RunRecorderRound},
#ifdef TIDEPOOL_STRESS_CNMEM
      {"cnmem", RunCnmemRound},
#endif
  };
  return parts;
}

struct Options {
  double seconds = 10;
  std::int64_t rounds = 0;  // of each part; 0: until the time is up
  std::vector<std::string> parts;
  std::optional<std::uint64_t> seed;
};

struct Running {
  Part part;
  Counts counts = {};
  double seconds = 0;
};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void RunRound(Running& running, std::uint64_t seed) {
  SetRound(running.part.name, seed);
  const Clock::time_point begin = Clock::now();
  Round round(seed, running.counts);
  running.part.run(round);
  running.seconds += SecondsSince(begin);
  ++running.counts.rounds;
}

void PrintSummary(const Running& running) {
  const Counts& counts = running.counts;
  std::string errors;
  for (std::size_t code = 1; code < counts.errors.size(); ++code) {
    if (counts.errors[code] == 0) continue;
    absl::StrAppend(&errors, ", ", absl::StatusCodeToString(static_cast<absl::StatusCode>(code)),
                    " ", counts.errors[code].load());
  }
  const double seconds = std::max(running.seconds, 1e-9);  // a part without a round took no time
  std::printf(
      "%-9s %6lld rounds, %9lld operations (%.0f a second), %8lld contents checked, "
      "%7lld faults (%.0f a minute)%s\n",
      std::string(running.part.name).c_str(), static_cast<long long>(counts.rounds.load()),
      static_cast<long long>(counts.operations.load()),
      static_cast<double>(counts.operations.load()) / seconds,
      static_cast<long long>(counts.checks.load()), static_cast<long long>(counts.faults.load()),
      static_cast<double>(counts.faults.load()) / seconds * 60, errors.c_str());
}

void Run(const Options& options) {
  std::list<Running> all;
  for (const Part& part : Parts()) {
    if (options.parts.empty() ||
        std::find(options.parts.begin(), options.parts.end(), part.name) != options.parts.end()) {
      all.emplace_back().part = part;
    }
  }
  std::uint64_t seed =
      options.seed.has_value() ? *options.seed : std::random_device()() * 100'000ULL;
  std::printf("stress: the first seed is %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const Clock::time_point begin = Clock::now();
  const auto least = [&](auto measure) {
    return std::min_element(all.begin(), all.end(), [&](const Running& a, const Running& b) {
      return measure(a) < measure(b);
    });
  };
  for (;;) {
    // Chooses the part that ran for the least time so far.
    const auto next = options.rounds > 0
                          ? least([](const Running& a) { return a.counts.rounds.load(); })
                          : least([](const Running& a) { return a.seconds; });
    if (options.rounds > 0 ? next->counts.rounds >= options.rounds
                           : SecondsSince(begin) >= options.seconds) {
      break;
    }
    RunRound(*next, seed);
    if (!options.seed.has_value()) ++seed;
  }
  for (const Running& running : all) PrintSummary(running);
}

int Main(int count, char** arguments) {
  CLI::App app("Random work on every part of tidepool, by several threads, with faults.");
  Options options;
  std::vector<std::string> names;
  for (const Part& part : Parts()) names.emplace_back(part.name);
  app.add_option("--seconds", options.seconds, "how long, about")->capture_default_str();
  app.add_option("--rounds", options.rounds, "of each part, instead of a time");
  app.add_option("--part", options.parts, "only this one; may be given again")
      ->check(CLI::IsMember(names));
  app.add_option("--seed", options.seed, "of every round");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  SetProgram(arguments[0]);
  PrintRoundWhenKilled();
  const Watchdog watchdog;
  Run(options);
  return 0;
}

}  // namespace
}  // namespace tidepool::stress

int main(int count, char** arguments) { return tidepool::stress::Main(count, arguments); }

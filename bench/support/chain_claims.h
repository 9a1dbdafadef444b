// SPDX-License-Identifier: Apache-2.0
// Makespans of chain policies over the memory, and claims of Beaumont et al. about them.
#ifndef TIDEPOOL_BENCH_SUPPORT_CHAIN_CLAIMS_H_
#define TIDEPOOL_BENCH_SUPPORT_CHAIN_CLAIMS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/chain.h"

namespace tidepool::bench {

// Relative differences of times below this are rounding errors.
inline constexpr double kEqual = 1e-9;

struct Case {
  std::string model;
  std::int64_t pixels = 0;
  std::int64_t batch = 0;
  Chain chain;  // without a memory
};

// A policy at a memory limit of a case.
struct Point {
  const Case* of = nullptr;
  std::string policy;
  int percent = 0;  // 0: the least memory, 100: M_peak
  std::int64_t memory_bytes = 0;
  double paper_bound = 0;         // Proposition 3
  double bound = 0;               // of this policy's schedules
  std::optional<double> seconds;  // empty: it does not fit
  bool transfers_alone = true;

  double Ratio() const { return *seconds / paper_bound; }
  double Gap() const { return *seconds / bound; }
  std::string Name() const {
    return absl::StrCat(of->model, " at ", of->pixels, " px, batch ", of->batch, ", ",
                        memory_bytes / 1'000'000, " MB (", percent, " %)");
  }
};

inline void PrintGaps(const std::vector<Point>& points, const std::vector<std::string>& policies) {
  std::printf("%-14s %8s %8s %8s %8s %8s\n", "policy", "points", "no fit", "mean gap", "largest",
              "in bound");
  for (const std::string& policy : policies) {
    int fits = 0;
    int misfits = 0;
    int optimal = 0;
    double sum = 0;
    double largest = 0;
    for (const Point& point : points) {
      if (point.policy != policy) continue;
      if (!point.seconds.has_value()) {
        ++misfits;
        continue;
      }
      ++fits;
      sum += point.Gap();
      largest = std::max(largest, point.Gap());
      optimal += point.Gap() <= 1 + kEqual ? 1 : 0;
    }
    std::printf("%-14s %8d %8d %8.4f %8.4f %8d\n", policy.c_str(), fits + misfits, misfits,
                fits > 0 ? sum / fits : 0, largest, optimal);
  }
}

// All points by case, memory and policy.
class Results {
 public:
  explicit Results(const std::vector<Point>& points) {
    for (const Point& point : points) by_limit_[{point.of, point.percent}][point.policy] = &point;
  }

  using Limit = std::map<std::string, const Point*>;
  // Calls a function for each memory limit, with the points of its policies.
  template <typename Function>
  void ForEach(const Function& function) const {
    for (const auto& [key, limit] : by_limit_) function(limit);
  }

 private:
  std::map<std::pair<const Case*, int>, Limit> by_limit_;
};

// Returns the point of a policy that fits; null without one.
inline const Point* Fitting(const Results::Limit& limit, const std::string& policy) {
  const auto found = limit.find(policy);
  return found == limit.end() || !found->second->seconds.has_value() ? nullptr : found->second;
}

inline void PrintClaim(const std::string& claim, bool held, const std::string& figures) {
  std::printf("%-8s  %s: %s\n", held ? "held" : "not held", claim.c_str(), figures.c_str());
}

struct Comparison {
  int limits = 0;
  int worse = 0;  // slower than the other by more than 0.01 %
  int better = 0;
  double most = 0;  // of the other's time over this one's
  const Point* at = nullptr;
};
inline Comparison Compare(const Results& results, const std::string& one,
                          const std::string& other) {
  Comparison result;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* a = Fitting(limit, one);
    const Point* b = Fitting(limit, other);
    if (a == nullptr || b == nullptr) return;
    ++result.limits;
    const double quotient = *b->seconds / *a->seconds;
    result.worse += quotient < 1 - 1e-4 ? 1 : 0;
    result.better += quotient > 1 + 1e-4 ? 1 : 0;
    if (quotient > result.most) {
      result.most = quotient;
      result.at = b;
    }
  });
  return result;
}

inline void ClaimBelow12(const Results& results) {
  double largest = 0;
  const Point* at = nullptr;
  int above = 0;
  int limits = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* point = Fitting(limit, "dynprog");
    if (point == nullptr) return;
    ++limits;
    above += point->Ratio() > 1.2 ? 1 : 0;
    if (point->Ratio() <= largest) return;
    largest = point->Ratio();
    at = point;
  });
  if (at == nullptr) return;
  PrintClaim(
      "dynprog is below 1.2 times the lower bound", above == 0,
      absl::StrCat(above, " of ", limits, " limits above, at most ", largest, ", ", at->Name()));
}

inline void ClaimBeatsVdnn(const Results& results, const std::string& policy) {
  const Comparison found = Compare(results, policy, "vdnn-ratio");
  if (found.limits == 0) return;
  PrintClaim(policy + " outperforms vdnn-ratio in all cases", found.worse == 0,
             absl::StrCat("better in ", found.better, ", worse in ", found.worse, " of ",
                          found.limits, " limits"));
}

inline void ClaimTflmsFails(const Results& results) {
  int low = 0;
  int low_misfits = 0;
  int high_misfits = 0;
  int high_optimal = 0;
  int high = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const auto found = limit.find("tflms");
    if (found == limit.end()) return;
    const Point& point = *found->second;
    const bool fits = point.seconds.has_value();
    if (point.percent <= 25) {
      ++low;
      low_misfits += fits ? 0 : 1;
    }
    if (point.percent >= 90) {
      ++high;
      high_misfits += fits ? 0 : 1;
      high_optimal += fits && point.Gap() <= 1 + kEqual ? 1 : 0;
    }
  });
  if (low == 0) return;
  PrintClaim(
      "tflms fails at low memory", low_misfits * 2 > low,
      absl::StrCat("no fit in ", low_misfits, " of ", low, " limits up to 25 %; ", high_misfits,
                   " of ", high, " from 90 % on, where ", high_optimal, " are optimal"));
}

// Returns the times by which more memory makes a policy more than 1 % slower.
inline int TimesSlower(const Results& results, const std::string& policy) {
  int slower = 0;
  std::map<const Case*, double> last;
  results.ForEach([&](const Results::Limit& limit) {  // by ascending memory
    const Point* point = Fitting(limit, policy);
    if (point == nullptr) return;
    const auto [before, is_first] = last.try_emplace(point->of, *point->seconds);
    slower += !is_first && *point->seconds > before->second * 1.01 ? 1 : 0;
    before->second = *point->seconds;
  });
  return slower;
}

// A steady policy is never slower with more memory.
inline void ClaimAutoswapIsUnsteady(const Results& results) {
  const Comparison greedy = Compare(results, "greedy", "autoswap");
  if (greedy.limits == 0) return;
  const int grows = TimesSlower(results, "autoswap");
  PrintClaim(
      "autoswap is unsteady", grows > 0,
      absl::StrCat("more memory makes it more than 1 % slower ", grows,
                   " times; it has greedy's time in ", greedy.limits - greedy.better - greedy.worse,
                   " of ", greedy.limits, " limits, and is up to ", greedy.most, " times as slow"));
}

inline void ClaimDeepIsWorse(const Results& results) {
  double shallow = 0;
  double deep = 0;
  int shallow_limits = 0;
  int deep_limits = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* slots = Fitting(limit, "dynprog");
    if (slots == nullptr) return;
    const bool is_deep = slots->of->chain.forward_seconds.size() > 30;
    (is_deep ? deep : shallow) += slots->Gap();
    ++(is_deep ? deep_limits : shallow_limits);
  });
  if (shallow_limits == 0 || deep_limits == 0) return;
  deep /= deep_limits;
  shallow /= shallow_limits;
  PrintClaim(
      "dynprog is worse on deep networks", deep > shallow,
      absl::StrCat("mean gap ", deep, " on more than 30 operations, ", shallow, " on others"));
  const Comparison exact = Compare(results, "dynprog-exact", "dynprog");
  if (exact.limits == 0) return;
  PrintClaim(
      "... because of the slots", exact.better > exact.worse,
      absl::StrCat("exact sizes are better in ", exact.better, ", worse in ", exact.worse, " of ",
                   exact.limits, " limits, and up to ", exact.most, " times as fast"));
}

inline void ClaimAllEqualAtPeak(const Results& results) {
  int limits = 0;
  int others = 0;
  results.ForEach([&](const Results::Limit& limit) {
    for (const char* policy : {"greedy", "dynprog"}) {
      const Point* point = Fitting(limit, policy);
      if (point == nullptr || point->percent < 100) continue;
      ++limits;
      others += point->Ratio() > 1 + kEqual ? 1 : 0;
    }
  });
  if (limits > 0) {
    PrintClaim("greedy and dynprog reach the lower bound at M_peak", others == 0,
               absl::StrCat(others, " of ", limits, " do not"));
  }
}

inline void ClaimDynprogIsSteadier(const Results& results) {
  const int dynprog = TimesSlower(results, "dynprog");
  const int vdnn = TimesSlower(results, "vdnn-ratio");
  const int autoswap = TimesSlower(results, "autoswap");
  if (Compare(results, "dynprog", "vdnn-ratio").limits == 0) return;
  PrintClaim("dynprog is steadier than vdnn-ratio and autoswap",
             dynprog <= std::min(vdnn, autoswap),
             absl::StrCat("more memory makes it more than 1 % slower ", dynprog, " times, ", vdnn,
                          " and ", autoswap, " times"));
}

// The throughput is the batch by the makespan, so it is the inverse of the ratio.
inline void ClaimThroughput(const Results& results) {
  int limits = 0;
  int below = 0;
  double least = 1;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* point = Fitting(limit, "dynprog");
    if (point == nullptr) return;
    ++limits;
    below += point->Ratio() > 1 / 0.83 ? 1 : 0;
    least = std::min(least, 1 / point->Ratio());
  });
  if (limits == 0) return;
  PrintClaim("dynprog's throughput is at least 83 % of the highest possible", below == 0,
             absl::StrCat(below, " of ", limits, " limits below, at least ", 100 * least, " %"));
}

// `best` against the fastest other policy of its class at each limit.
inline void ClaimBestIsFastest(const Results& results, const std::string& best,
                               bool transfers_alone) {
  int limits = 0;
  int slower = 0;
  int faster = 0;
  double most = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* own = Fitting(limit, best);
    if (own == nullptr) return;
    double others = std::numeric_limits<double>::infinity();
    for (const auto& [policy, point] : limit) {
      const bool counts = policy != best && point->seconds.has_value() &&
                          (!transfers_alone || point->transfers_alone) &&
                          (!transfers_alone || policy != "best-recompute");
      if (counts) others = std::min(others, *point->seconds);
    }
    ++limits;
    slower += *own->seconds > others * (1 + kEqual) ? 1 : 0;
    faster += *own->seconds < others * (1 - kEqual) ? 1 : 0;
    if (std::isfinite(others)) most = std::max(most, others / *own->seconds);
  });
  if (limits == 0) return;
  PrintClaim(absl::StrCat(best, " is never slower than the fastest ",
                          transfers_alone ? "of those that only transfer" : "of all others"),
             slower == 0,
             absl::StrCat("slower at ", slower, ", faster at ", faster, " of ", limits,
                          " limits, by a factor of ", most, " at most"));
}

inline void ClaimBestGap(const Results& results) {
  int limits = 0;
  double sum = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* own = Fitting(limit, "best");
    if (own == nullptr) return;
    ++limits;
    sum += own->Gap();
  });
  if (limits == 0) return;
  PrintClaim("best's mean makespan is at most 1.05 times the bound", sum <= 1.05 * limits,
             absl::StrCat(sum / limits, " times"));
}

// Names the instance in which greedy loses most to another policy that only transfers.
inline void PrintGreedysWorst(const Results& results) {
  double largest = 0;
  std::string text;
  int above = 0;
  results.ForEach([&](const Results::Limit& limit) {
    const Point* greedy = Fitting(limit, "greedy");
    if (greedy == nullptr) return;
    double most = 1;
    for (const auto& [policy, point] : limit) {
      if (!point->seconds.has_value() || !point->transfers_alone) continue;
      const double quotient = *greedy->seconds / *point->seconds;
      most = std::max(most, quotient);
      if (quotient <= largest) continue;
      largest = quotient;
      text = absl::StrCat(point->Name(), ": greedy ", *greedy->seconds, " s, ", policy, " ",
                          *point->seconds, " s");
    }
    above += most > 1.1 ? 1 : 0;
  });
  std::printf("\ngreedy loses more than 10 %% at %d limits, most with a factor of %.3f: %s\n",
              above, largest, text.c_str());
}

// Prints the gaps of each policy and the claims of the text.
inline void PrintClaims(const std::vector<Point>& points,
                        const std::vector<std::string>& policies) {
  PrintGaps(points, policies);
  std::printf("\n");
  const Results results(points);
  ClaimBelow12(results);
  for (const char* policy : {"greedy", "dynprog"}) ClaimBeatsVdnn(results, policy);
  ClaimTflmsFails(results);
  ClaimAutoswapIsUnsteady(results);
  const Comparison dynprog = Compare(results, "dynprog", "greedy");
  if (dynprog.limits > 0) {
    PrintClaim("dynprog is significantly better than greedy", dynprog.better > dynprog.worse,
               absl::StrCat("better in ", dynprog.better, ", worse in ", dynprog.worse, " of ",
                            dynprog.limits, " limits"));
  }
  ClaimDeepIsWorse(results);
  ClaimAllEqualAtPeak(results);
  ClaimDynprogIsSteadier(results);
  ClaimThroughput(results);
  ClaimBestIsFastest(results, "best", /*transfers_alone=*/true);
  ClaimBestIsFastest(results, "best-recompute", /*transfers_alone=*/false);
  ClaimBestGap(results);
  PrintGreedysWorst(results);
}

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_CHAIN_CLAIMS_H_

// SPDX-License-Identifier: Apache-2.0
// Alternates heuristics, exact search and ejection search on one instance.
#include "lib/memory/plan/minimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/ejection_search.h"
#include "lib/memory/plan/first_fit_plan.h"
#include "lib/memory/plan/order.h"
#include "lib/memory/plan/skyline.h"

namespace tidepool::plan {
namespace {

using KeyList = std::vector<Key>;

// Each order is best on some of the public traces, the first one on most.
const std::array<KeyList, 9>& HeuristicOrders() {
  static const auto& orders = *new std::array<KeyList, 9>{{
      {Key::kArea},
      {Key::kSections},
      {Key::kLoadBand, Key::kSections},
      {Key::kDuration},
      {Key::kLoad, Key::kArea},
      {Key::kLoad, Key::kSections},
      {Key::kSize},
      {Key::kLoadBand, Key::kArea},
      {Key::kDuration, Key::kArea},
  }};
  return orders;
}

const std::array<KeyList, 3>& FirstFitOrders() {
  static const auto& orders = *new std::array<KeyList, 3>{{
      {Key::kLoad, Key::kArea},
      {Key::kArea},
      {Key::kSize},
  }};
  return orders;
}

const std::array<KeyList, 3>& ExactOrders() {
  static const auto& orders = *new std::array<KeyList, 3>{{
      {Key::kFailures, Key::kLoad, Key::kArea},
      {Key::kFailures, Key::kDuration, Key::kArea},
      {Key::kLoad, Key::kDuration, Key::kArea},
  }};
  return orders;
}

// With several streams first-fit looks at all buffers placed around a buffer, which takes a second
// for this number.
constexpr std::int32_t kMostForFirstFit = 20'000;
// With more buffers, too few orders can be tried.
constexpr std::int32_t kMostForOrderSearch = 1'000;

// The growth of the number of steps from round to round, and the number of rounds: with a thousand
// buffers, the last round takes hours.
constexpr double kGrowth = 1.4;
constexpr std::uint64_t kMostRounds = 28;
// An instance that the exact search does not support is given up sooner.
constexpr std::uint64_t kMostRoundsWithoutProofs = 20;
// With a capacity, the first rounds search for exactly that height, and later ones for heights
// above it, too.
constexpr std::uint64_t kRoundsAtCapacity = 8;
// A step of the ejection search takes as long as several of the exact search.
constexpr double kStepsPerEjection = 4;
// Among obstacles the lower bound is less often reached.
constexpr double kExactShareAmongObstacles = 0.25;
constexpr std::array<std::int64_t, 2> kTenures = {10, 40};

// With few buffers, the first success matters; with many, each try is expensive, and the way is
// short.
double FirstDescent(double count) { return count < 1000 ? 0.3 : 0.5; }

// A search needs many steps to get anywhere; a descent through the whole instance takes one per
// buffer.
double FirstSteps(double count) { return std::min(3 * count, count + 20'000); }

// Returns a plan above the obstacles. Those of several streams may overlap, so the skyline cannot
// pass between them.
Offsets PlanAboveObstacles(const Instance& instance) {
  Instance above = instance;
  for (auto* array : {&above.first, &above.end}) array->resize(instance.buffer.size());
  above.size.resize(instance.buffer.size());
  above.obstacle_offset.clear();
  Offsets offsets = SkylinePlanner(above).Plan(OrderBy(above, HeuristicOrders().front()));
  const std::int64_t alignment = *std::ranges::max_element(instance.alignment);
  for (std::int64_t& offset : offsets) offset += AlignUp(instance.obstacle_top, alignment);
  return offsets;
}

Offsets FirstPlan(const Instance& instance, SkylinePlanner& skyline) {
  if (instance.has_streams && instance.obstacles() > 0 && instance.count() > 0) {
    return PlanAboveObstacles(instance);
  }
  return skyline.Plan(OrderBy(instance, HeuristicOrders().front()));
}

}  // namespace

Minimizer::Minimizer(const Instance& instance, std::uint64_t seed, budget::Budget& whole)
    : instance_(instance),
      seed_(seed),
      whole_(whole),
      at_goal_(instance, seed),
      between_(instance, seed),
      skyline_(instance),
      best_(FirstPlan(instance, skyline_)),
      height_(Height(instance, best_)),
      lower_bound_(instance.lower_bound),
      steps_(FirstSteps(instance.count())),
      descent_(FirstDescent(instance.count())) {}

std::int64_t Minimizer::Goal(std::int64_t enough) const { return std::max(lower_bound_, enough); }

void Minimizer::Take(Offsets offsets) {
  const std::int64_t height = Height(instance_, offsets);
  if (height >= height_) return;
  height_ = height;
  best_ = std::move(offsets);
}

void Minimizer::TryHeuristics(std::int64_t enough) {
  if (!instance_.has_streams || instance_.obstacles() == 0) {
    for (const KeyList& keys : std::span(HeuristicOrders()).subspan(1)) {
      if (IsDone(enough)) break;
      Take(skyline_.Plan(OrderBy(instance_, keys)));
    }
  }
  if (IsForFirstFit() && instance_.count() <= kMostForFirstFit) TryFirstFit(enough);
}

// With obstacles or streams a skyline leaves holes that another buffer may use.
bool Minimizer::IsForFirstFit() const { return instance_.obstacles() > 0 || instance_.has_streams; }

void Minimizer::TryFirstFit(std::int64_t enough) {
  for (const KeyList& keys : FirstFitOrders()) {
    if (IsDone(enough)) return;
    budget::Budget budget(whole_, instance_.count());
    std::optional<Offsets> found = PlanByFirstFit(instance_, OrderBy(instance_, keys), budget);
    if (found.has_value()) Take(*std::move(found));
  }
  if (instance_.has_streams) Settle();
}

void Minimizer::Settle() {
  for (std::int64_t before = height_ + 1; height_ < before && !whole_.HasEnded();) {
    before = height_;
    std::vector<std::int32_t> order(best_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return best_[i]; });
    budget::Budget budget(whole_, instance_.count());
    std::optional<Offsets> found = PlanByFirstFit(instance_, order, budget);
    if (found.has_value()) Take(*std::move(found));
  }
}

bool Minimizer::TryExact(ExactSearch& search, std::int64_t capacity, std::span<const Key> keys) {
  const double share = instance_.obstacles() > 0 ? kExactShareAmongObstacles : 1;
  budget::Budget budget(whole_, steps_ * share);
  ExactAnswer answer = search.Find(capacity, keys, budget);
  if (answer.kind == ExactAnswer::Kind::kInfeasible) lower_bound_ = capacity + 1;
  if (answer.kind != ExactAnswer::Kind::kFound) return false;
  Take(std::move(answer.offsets));
  return true;
}

bool Minimizer::TryOrders(std::int64_t capacity) {
  if (!IsForFirstFit() || instance_.count() > kMostForOrderSearch) return false;
  budget::Budget budget(whole_, steps_);
  std::optional<Offsets> found =
      SearchByOrders(instance_, capacity, best_, seed_ + order_tries_++, budget);
  if (!found.has_value()) return false;
  Take(*std::move(found));
  return true;
}

bool Minimizer::TryEjection(std::int64_t capacity) {
  budget::Budget budget(whole_, steps_ / kStepsPerEjection);
  const std::int64_t tenure = kTenures[tries_ % kTenures.size()];
  const EjectionOptions options = {
      .tenure = tenure, .tenure_spread = tenure, .seed = seed_ + tries_};
  ++tries_;
  FullestPlan found = SearchByEjection(instance_, capacity, best_, options, budget);
  if (!found.IsComplete()) return false;
  Take(std::move(found.offsets));
  return true;
}

// Tries heights between the plan and the goal, in larger steps while that succeeds and in smaller
// ones while it fails.
void Minimizer::SearchBetween(std::int64_t enough) {
  constexpr int kMostFailures = 3;
  constexpr double kShorter = 0.6;
  constexpr double kLonger = 1.5;
  constexpr double kLongest = 0.5;
  for (int failures = 0; failures < kMostFailures && !IsDone(enough);) {
    const std::int64_t goal = Goal(enough);
    const auto way = static_cast<double>(height_ - goal);
    const std::int64_t capacity = height_ - std::max<std::int64_t>(1, std::llround(way * descent_));
    if (capacity == goal) return;
    const KeyList& keys = ExactOrders()[round_ % ExactOrders().size()];
    if (!TryEjection(capacity) && !TryOrders(capacity) && !TryExact(between_, capacity, keys)) {
      descent_ *= kShorter;
      ++failures;
    } else {
      descent_ = std::min(kLongest, descent_ * kLonger);
    }
  }
}

void Minimizer::SearchAt(std::int64_t enough) {
  for (std::size_t i = 0; i < ExactOrders().size(); ++i) {
    if (IsDone(enough)) return;
    TryExact(at_goal_, Goal(enough), ExactOrders()[i % ExactOrders().size()]);
  }
  if (!IsDone(enough)) TryEjection(Goal(enough));
  if (!IsDone(enough)) TryOrders(Goal(enough));
}

bool Minimizer::SearchRound(std::int64_t enough) {
  if (round_ == (ExactSearch::IsFor(instance_) ? kMostRounds : kMostRoundsWithoutProofs))
    return false;
  if (enough <= lower_bound_ || round_ >= kRoundsAtCapacity) SearchBetween(enough);
  SearchAt(enough);
  ++round_;
  steps_ *= kGrowth;
  return true;
}

}  // namespace tidepool::plan

// SPDX-License-Identifier: Apache-2.0
// The names of the values of requests and answers.
#include "policies/training/requests/option_names.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool {
namespace {

// The payload of a refusal: the name of the end of the search.
constexpr char kEndedBy[] = "tidepool/ended_by";

// By value.
constexpr std::array<std::string_view, 4> kOffloadSets = {"all", "conv", "aconv", "dynamic"};
constexpr std::array<std::string_view, 2> kAlgorithmChoices = {"m", "p"};
constexpr std::array<std::string_view, 2> kAllocationOrders = {"prefetch-first",
                                                               "derivative-first"};

template <typename Enumeration, std::size_t kCount>
absl::StatusOr<Enumeration> FromName(std::string_view what, std::string_view name,
                                     const std::array<std::string_view, kCount>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Enumeration>(found - names.begin());
  return absl::InvalidArgumentError(absl::StrCat(
      "no ", std::string(what), " ", requests::InQuotes(name), ", expected one of ",
      absl::StrJoin(names, ", ",
                    [](std::string* text, std::string_view one) { text->append(one); })));
}

}  // namespace

std::string_view requests::NameOf(OffloadSet set) {
  return kOffloadSets[static_cast<std::size_t>(set)];
}

absl::StatusOr<OffloadSet> OffloadSetFromName(std::string_view name) {
  return FromName<OffloadSet>("set of layers", name, kOffloadSets);
}

absl::StatusOr<AlgorithmChoice> AlgorithmChoiceFromName(std::string_view name) {
  return FromName<AlgorithmChoice>("choice of algorithms", name, kAlgorithmChoices);
}

std::string_view AllocationOrderName(AllocationOrder order) {
  return kAllocationOrders[static_cast<std::size_t>(order)];
}

absl::StatusOr<AllocationOrder> AllocationOrderFromName(std::string_view name) {
  return FromName<AllocationOrder>("order of allocations", name, kAllocationOrders);
}

std::string_view EndedByName(EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::kProof:
      return "proof";
    case EndedBy::kWork:
      return "work";
    case EndedBy::kClock:
      return "clock";
    case EndedBy::kInterrupt:
      break;
  }
  return "interrupt";
}

absl::Status requests::EndedByClock(const absl::Status& refusal) {
  absl::Status late(
      refusal.code(),
      absl::StrCat(refusal.message(),
                   "; the time limit ended the search: a longer one may find a schedule"));
  late.SetPayload(kEndedBy, absl::Cord(std::string(EndedByName(EndedBy::kClock))));
  return late;
}

EndedBy EndedByOf(const absl::Status& refusal) {
  return refusal.GetPayload(kEndedBy).has_value() ? EndedBy::kClock : EndedBy::kWork;
}

std::string_view GradientReductionName(GradientReduction reduction) {
  switch (reduction) {
    case GradientReduction::kHost:
      return "cpu";
    case GradientReduction::kFirstDevice:
      return "gpu0";
    case GradientReduction::kRing:
      return "ring";
    case GradientReduction::kAutomatic:
      break;
  }
  return "auto";
}

}  // namespace tidepool

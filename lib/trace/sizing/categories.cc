// SPDX-License-Identifier: Apache-2.0
// Categories: phases by stack and mark in one pass over frames and one over events.
#include "tidepool/trace/categories.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool {
namespace {

enum class Phase : std::uint8_t { kUnknown, kCreation, kForward, kBackward, kOptimizer };

// Built-in categories, after those of the user.
enum Category : std::uint8_t {
  kWeights,
  kGradients,
  kOptimizerState,
  kActivations,
  kTemporary,
  kBeforeRecording,
  kUnknown,
};
constexpr auto kNames =
    std::to_array<std::string_view>({"weights", "gradients", "optimizer state", "activations",
                                     "temporary", "before recording", "unknown"});

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsCreation(std::string_view name, std::string_view file) {
  if (name == "load_state_dict" || name == "from_pretrained" || name == "reset_parameters") {
    return true;
  }
  const bool makes = name == "__init__" || name == "_apply" || name == "to" || name == "cuda";
  return makes && Has(file, "torch/nn/modules");
}

Phase PhaseOfFrame(std::string_view name, std::string_view file) {
  if (Has(file, "torch/optim/") || Has(name, "Optimizer.step")) return Phase::kOptimizer;
  if (name == "backward" || name == "_engine_run_backward" || Has(name, "autograd::engine") ||
      Has(name, "autograd::Engine") || Has(name, "AccumulateGrad")) {
    return Phase::kBackward;
  }
  if (IsCreation(name, file)) return Phase::kCreation;
  return name == "forward" || name == "_call_impl" ? Phase::kForward : Phase::kUnknown;
}

Phase PhaseOfMark(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (Has(lower, "optim")) return Phase::kOptimizer;
  if (Has(lower, "backward")) return Phase::kBackward;
  return Has(lower, "forward") ? Phase::kForward : Phase::kUnknown;
}

// Recomputed activations have `forward` frames below `backward` ones, so the innermost frame with a
// phase decides. An optimizer decides for all that it calls.
std::vector<Phase> PhasesOfTags(const Trace& trace) {
  std::vector<Phase> phases(trace.frames.size() + 1);
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    const Phase outer = phases[frame.caller];
    const Phase own = PhaseOfFrame(trace.frame_texts[frame.name], trace.frame_texts[frame.file]);
    phases[i + 1] = own == Phase::kUnknown || outer == Phase::kOptimizer ? outer : own;
  }
  return phases;
}

std::string FrameText(const Trace& trace, const TraceFrame& frame) {
  const std::string name(trace.frame_texts[frame.name]);
  const std::string file(trace.frame_texts[frame.file]);
  return file.empty() ? name : absl::StrCat(file, ":", frame.line, " ", name);
}

// Returns for each tag the first rule that matches a frame of its stack, or the number of rules.
std::vector<std::uint32_t> RulesOfTags(const Trace& trace, const std::vector<CategoryRule>& rules) {
  const auto none = static_cast<std::uint32_t>(rules.size());
  std::vector<std::uint32_t> first(trace.frames.size() + 1, none);
  if (rules.empty()) return first;
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    const std::string text = FrameText(trace, frame);
    std::uint32_t rule = 0;
    while (rule < first[frame.caller] && !rules[rule].matches(text)) ++rule;
    first[i + 1] = std::min(rule, first[frame.caller]);
  }
  return first;
}

// The phases of a trace over its events.
class Phases {
 public:
  explicit Phases(const Trace& trace) : of_tags_(PhasesOfTags(trace)) {
    for (std::size_t i = 0; i < trace.mark_names.size(); ++i)
      of_marks_.push_back(PhaseOfMark(trace.mark_names[i]));
    begun_.resize(trace.mark_names.size());
    const auto begin = trace.allocations.begin() + trace.earlier_allocations;
    has_stacks_ = std::any_of(begin, trace.allocations.end(),
                              [](const TraceAllocation& a) { return a.tag != 0; });
  }

  // Follows a mark or its end.
  void Follow(const TraceEvent& event) {
    const Phase phase = of_marks_[event.index];
    if (phase == Phase::kUnknown) return;
    std::vector<std::int64_t>& begun = begun_[event.index];
    if (event.kind == TraceEvent::Kind::kMark) {
      begun.push_back(++marks_);
      open_.emplace(marks_, event.index);
    } else if (!begun.empty()) {
      open_.erase(begun.back());
      begun.pop_back();
    }
  }

  // Returns the phase of an allocation that is made now.
  Phase Of(const TraceAllocation& allocation) const {
    const Phase phase = of_tags_[allocation.tag];
    if (phase != Phase::kUnknown) return phase;
    if (!open_.empty()) return of_marks_[open_.rbegin()->second];
    return allocation.tag == 0 && has_stacks_ ? Phase::kBackward : Phase::kUnknown;
  }

 private:
  std::vector<Phase> of_tags_;
  std::vector<Phase> of_marks_;
  std::int64_t marks_ = 0;  // that tell a phase, so far
  // The open ones: by number, and for each mark their numbers.
  absl::btree_map<std::int64_t, std::uint32_t> open_;
  std::vector<std::vector<std::int64_t>> begun_;
  bool has_stacks_ = false;
};

Category CategoryOf(Phase phase, bool is_freed, bool is_freed_later) {
  switch (phase) {
    case Phase::kForward:
      return !is_freed || is_freed_later ? kActivations : kTemporary;
    case Phase::kBackward:
      return !is_freed || is_freed_later ? kGradients : kTemporary;
    case Phase::kOptimizer:
      return is_freed ? kTemporary : kOptimizerState;
    case Phase::kCreation:
      return is_freed ? kTemporary : kWeights;
    case Phase::kUnknown:
      break;
  }
  return kUnknown;
}

// Guesses the category of each allocation. The phase of a trace is that of its last allocation with
// a known phase; a new one begins with each change. An allocation that is older than the first one
// of the current phase is from an earlier phase.
std::vector<Category> Guess(const Trace& trace) {
  Phases phases(trace);
  std::vector<Phase> births(trace.allocations.size());
  std::vector<Category> categories(trace.allocations.size(), kUnknown);
  Phase current = Phase::kUnknown;
  std::uint32_t first_of_current = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark || event.kind == TraceEvent::Kind::kMarkEnd) {
      phases.Follow(event);
    } else if (event.kind == TraceEvent::Kind::kAllocate) {
      const Phase phase = phases.Of(trace.allocations[event.index]);
      if (phase != Phase::kUnknown && phase != current) {
        current = phase;
        first_of_current = event.index;
      }
      births[event.index] = phase;
      categories[event.index] = CategoryOf(phase, false, false);
    } else if (event.kind == TraceEvent::Kind::kFree) {
      categories[event.index] =
          CategoryOf(births[event.index], true, event.index < first_of_current);
    }
  }
  return categories;
}

// Returns for each tag the text of the frame that names its purpose, plus 1; 0 without one. Such a
// frame is the outermost one.
std::vector<std::uint32_t> PurposesOfTags(const Trace& trace) {
  std::vector<std::uint32_t> purposes(trace.frames.size() + 1);
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    const bool names = frame.caller == 0 && trace.frame_texts[frame.file] == kPurposeFile;
    purposes[i + 1] = names ? frame.name + 1 : purposes[frame.caller];
  }
  return purposes;
}

// Numbers the categories that the recording itself names.
class RecordedPurposes {
 public:
  RecordedPurposes(const Trace& trace, std::vector<std::string>& names)
      : trace_(trace), names_(names), named_(names.size()), of_tags_(PurposesOfTags(trace)) {}

  // Returns the category of an allocation, which is added to the names if it is new; no value
  // without one.
  std::optional<std::uint32_t> Of(const TraceAllocation& allocation) {
    const std::uint32_t text = of_tags_[allocation.tag];
    if (text == 0) return std::nullopt;
    const auto [found, is_new] = numbers_.try_emplace(text, 0);
    if (is_new) found->second = NumberOf(trace_.frame_texts[text - 1]);
    return found->second;
  }

 private:
  // Purposes differ from each other, so a new one is compared only with the names of the beginning.
  std::uint32_t NumberOf(std::string_view name) {
    const auto end = names_.begin() + static_cast<std::ptrdiff_t>(named_);
    const auto found = std::find(names_.begin(), end, name);
    if (found != end) return static_cast<std::uint32_t>(found - names_.begin());
    names_.emplace_back(name);
    return static_cast<std::uint32_t>(names_.size() - 1);
  }

  const Trace& trace_;
  std::vector<std::string>& names_;
  std::size_t named_;  // names at the beginning
  std::vector<std::uint32_t> of_tags_;
  std::map<std::uint32_t, std::uint32_t> numbers_;  // by the text of a purpose, plus 1
};

}  // namespace

TraceCategories Categorize(const Trace& trace, const std::vector<CategoryRule>& rules) {
  TraceCategories categories;
  for (const CategoryRule& rule : rules) categories.names.push_back(rule.name);
  categories.names.insert(categories.names.end(), kNames.begin(), kNames.end());
  const std::vector<std::uint32_t> of_tags = RulesOfTags(trace, rules);
  const std::vector<Category> guesses = Guess(trace);
  const auto offset = static_cast<std::uint32_t>(rules.size());
  RecordedPurposes purposes(trace, categories.names);
  categories.of_allocations.reserve(trace.allocations.size());
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    const std::uint32_t rule = of_tags[trace.allocations[i].tag];
    const bool is_earlier = static_cast<std::int64_t>(i) < trace.earlier_allocations;
    const bool is_unknown = is_earlier && trace.has_history && trace.allocations[i].tag == 0;
    const std::uint32_t guess = offset + (is_unknown ? kBeforeRecording : guesses[i]);
    categories.of_allocations.push_back(
        rule < offset ? rule : purposes.Of(trace.allocations[i]).value_or(guess));
  }
  return categories;
}

std::vector<NamedBytes> BytesByCategory(const Trace& trace, const TraceCategories& categories,
                                        const std::vector<std::uint32_t>& allocations,
                                        std::int64_t alignment) {
  std::vector<NamedBytes> parts;
  for (const std::string& name : categories.names) parts.push_back({name, 0});
  for (const std::uint32_t number : allocations) {
    parts[categories.of_allocations[number]].bytes +=
        AlignUp(trace.allocations[number].bytes, alignment);
  }
  std::erase_if(parts, [](const NamedBytes& part) { return part.bytes == 0; });
  return parts;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The table of options.
#include "bindings/support/settings.h"

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "bindings/support/values.h"
#include "tidepool/placement.h"

namespace tidepool::bindings {
namespace {

// Stores a value if it was parsed. Returns whether it was.
template <typename Target, typename Value>
bool Store(const std::optional<Value>& value, Target& target) {
  if (value.has_value()) target = *value;
  return value.has_value();
}

// The functions below set one option each.

template <auto kMember>
bool SetSwitch(std::string_view text, Settings& settings) {
  return Store(ParseSwitch(text), settings.*kMember);
}

template <auto kMember>
bool SetBytes(std::string_view text, Settings& settings) {
  return Store(ParseBytes(text), settings.*kMember);
}

template <auto kMember>
bool SetText(std::string_view text, Settings& settings) {
  settings.*kMember = text;
  return true;
}

bool SetPlacement(std::string_view text, Settings& settings) {
  settings.placement = text;
  return MakePlacementPolicy(settings.placement).ok();
}

bool SetBudget(std::string_view text, Settings& settings) {
  settings.budget_part.reset();
  settings.budget_bytes.reset();
  return Store(ParsePercent(text), settings.budget_part) ||
         Store(ParseBytes(text), settings.budget_bytes);
}

bool SetMemory(std::string_view text, Settings& settings) {
  settings.has_virtual_memory = text == "virtual";
  return text == "virtual" || text == "segments";
}

bool SetGrowth(std::string_view text, Settings& settings) {
  return Store(ParseFraction(text), settings.growth);
}

bool SetWait(std::string_view text, Settings& settings) {
  return Store(ParseWait(text), settings.wait);
}

// Reads a number without a sign. Returns no value for other text.
std::optional<int> ParseOrdinal(std::string_view text) {
  int number = 0;
  const bool is_number = text.find_first_not_of("0123456789") == std::string_view::npos &&
                         absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number);
  return is_number ? std::optional<int>(number) : std::nullopt;
}

bool SetPinnedNuma(std::string_view text, Settings& settings) {
  return Store(ParseOrdinal(text), settings.pinned_numa);
}

bool SetDevice(std::string_view text, Settings& settings) {
  constexpr std::string_view kNumbered = "cuda:";
  settings.device = text == "host" ? DeviceKind::kHost : DeviceKind::kCuda;
  if (text == "host" || text == "cuda") return true;
  if (!text.starts_with(kNumbered)) return false;
  return Store(ParseOrdinal(text.substr(kNumbered.size())), settings.ordinal);
}

bool SetNvtx(std::string_view text, Settings& settings) {
  settings.uses_nvtx = text == "auto";
  return text == "auto" || text == "off";
}

bool SetStreams(std::string_view text, Settings& settings) {
  settings.streams_stay = text == "stay";
  return text == "stay" || text == "end";
}

bool SetInitial(std::string_view text, Settings& settings) {
  settings.initial_bytes = 0;
  return text == "0" || Store(ParseBytes(text), settings.initial_bytes);
}

constexpr std::string_view kSwitch = "0 or 1";
constexpr std::string_view kBytes = "bytes (8589934592, 8GiB)";
constexpr std::array<Option, 21> kOptions = {{
    {"placement", "the name of a placement policy: best-fit, exact-fit-first, ...", true,
     SetPlacement},
    {"budget", "bytes (8589934592, 8GiB) or a part of the device's memory (80%)", true, SetBudget},
    {"memory", "segments or virtual", true, SetMemory},
    {"growth", "a part of the pool, from 0 to 1", true, SetGrowth},
    {"remap", kSwitch, true, SetSwitch<&Settings::remaps>},
    {"wait", "a time such as 500ms, 2s or inf", true, SetWait},
    {"trace", "the beginning of the paths of traces", true, SetText<&Settings::trace>},
    {"statistics", kSwitch, true, SetSwitch<&Settings::statistics>},
    {"errors", kSwitch, true, SetSwitch<&Settings::errors>},
    {"nvtx", "auto or off", true, SetNvtx},
    {"device", "host, cuda, or cuda:N with the number of a device", false, SetDevice},
    {"device_memory", kBytes, false, SetBytes<&Settings::device_memory_bytes>},
    {"initial", kBytes, false, SetInitial},
    {"alignment", kBytes, false, SetBytes<&Settings::alignment>},
    {"shared_budget", "the beginning of the path of a file", false,
     SetText<&Settings::shared_budget>},
    {"plan", "the path of a plan file", false, SetText<&Settings::plan>},
    {"pinned", kBytes, false, SetBytes<&Settings::pinned_bytes>},
    {"pinned_numa", "the number of a NUMA node", false, SetPinnedNuma},
    {"exact", kSwitch, false, SetSwitch<&Settings::is_exact>},
    {"recording", kSwitch, false, SetSwitch<&Settings::is_recording>},
    {"streams", "end or stay", false, SetStreams},
}};

}  // namespace

std::span<const Option> Options() { return kOptions; }

const Option* FindOption(std::string_view name) {
  const auto* const found = std::find_if(kOptions.begin(), kOptions.end(),
                                         [&](const Option& option) { return option.name == name; });
  return found == kOptions.end() ? nullptr : found;
}

std::int64_t BudgetOf(const Settings& settings, std::int64_t device_bytes,
                      std::int64_t most_bytes) {
  std::int64_t budget = std::min(most_bytes, device_bytes);
  if (settings.budget_bytes.has_value()) budget = std::min(budget, *settings.budget_bytes);
  if (settings.budget_part.has_value()) {
    const double part = static_cast<double>(device_bytes) * *settings.budget_part;
    budget = std::min(budget, static_cast<std::int64_t>(part));
  }
  return budget;
}

}  // namespace tidepool::bindings

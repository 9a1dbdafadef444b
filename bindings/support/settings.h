// SPDX-License-Identifier: Apache-2.0
// The settings of pools that users choose by options, and the one table of those options. CNMeM's
// environment variables and the option strings of the C interface are both read by it.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_SETTINGS_H_
#define TIDEPOOL_BINDINGS_SUPPORT_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace tidepool::bindings {

enum class DeviceKind : std::uint8_t {
  kAny,  // a CUDA device where one exists, and otherwise the host
  kHost,
  kCuda,
};

struct Settings {
  std::string placement = "best-fit";
  // The limit on memory taken from a device: bytes, or a fraction of its memory. Neither: no limit.
  std::optional<std::int64_t> budget_bytes;
  std::optional<double> budget_part;
  std::optional<bool> has_virtual_memory;
  std::optional<double> growth;
  bool remaps = false;
  absl::Duration wait;  // the longest wait of an allocation for memory; zero: none
  std::string trace;    // the beginning of the paths of traces; empty: no traces
  bool statistics = false;
  bool errors = false;
  bool uses_nvtx = true;  // where a tool is attached

  // The rest has no environment variables.
  DeviceKind device = DeviceKind::kAny;
  std::optional<int> ordinal;  // of the CUDA device; otherwise the current one
  std::int64_t device_memory_bytes = std::int64_t{1} << 30;  // of the host device
  std::int64_t initial_bytes = 0;
  std::int64_t alignment = 512;
  std::string shared_budget;                 // the beginning of a path; empty: none
  std::string plan;                          // the path of a plan file; empty: no plan
  std::optional<std::int64_t> pinned_bytes;  // the limit on page-locked memory
  std::optional<int> pinned_numa;            // its NUMA node
  bool is_exact = false;
  bool is_recording = false;
  bool streams_stay = false;  // as long as the pool, or until they are forgotten
};

// An option of some kind of settings.
template <typename Chosen>
struct OptionOf {
  std::string_view name;  // in lower case, as in an option string
  std::string_view expected;
  bool is_variable;  // PREFIX_NAME exists too (variables.h)
  // Stores a value. Returns false for malformed text, and may change the settings then too.
  bool (*set)(std::string_view text, Chosen& settings);
};
using Option = OptionOf<Settings>;

// Returns all options, in the order of the documentation.
std::span<const Option> Options();
// Returns the option of that name, or null.
const Option* FindOption(std::string_view name);

// Returns the budget of a pool on a device with `device_bytes`: as the settings say, at most
// `most_bytes` and at most all of the device.
std::int64_t BudgetOf(const Settings& settings, std::int64_t device_bytes, std::int64_t most_bytes);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_SETTINGS_H_

// SPDX-License-Identifier: Apache-2.0
// The table of options.
#include "bindings/cudnn/options.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bindings/support/values.h"
#include "bindings/support/variables.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool::cudnn {
namespace {

constexpr std::string_view kPrefix = "TIDEPOOL_CUDNN_";

// Parses bytes, of which 0 is a number too: no workspace at all.
template <auto kMember>
bool SetLimit(std::string_view text, Options& options) {
  const std::optional<std::int64_t> bytes = text == "0" ? 0 : bindings::ParseBytes(text);
  if (!bytes.has_value() || *bytes > kMostWorkspaceBytes) return false;
  options.*kMember = *bytes;
  return true;
}

template <auto kMember>
bool SetSwitchOption(std::string_view text, Options& options) {
  const std::optional<bool> value = bindings::ParseSwitch(text);
  if (value.has_value()) options.*kMember = *value;
  return value.has_value();
}

// Parses bytes, or none.
template <auto kMember>
bool SetOptional(std::string_view text, Options& options) {
  if (text == "none") {
    (options.*kMember).reset();
    return true;
  }
  return SetLimit<kMember>(text, options);
}

bool SetPolicy(std::string_view text, Options& options) {
  options.policy = text;
  return text == kAdaptive || MicroBatchSizes(text, 1).ok();
}

bool SetSharing(std::string_view text, Options& options) {
  options.sharing = text == "wd" ? WorkspaceKind::kDivision : WorkspaceKind::kShared;
  return text == "wd" || text == "shared";
}

bool SetWorkspace(std::string_view text, Options& options) {
  options.has_own_workspaces = text == "pool";
  return text == "pool" || text == "caller";
}

bool SetPrecision(std::string_view text, Options& options) {
  for (const KernelPrecision precision :
       {KernelPrecision::kTrueHalf, KernelPrecision::kPseudoHalf, KernelPrecision::kFloat}) {
    if (text != KernelPrecisionName(precision)) continue;
    options.precision = precision;
    return true;
  }
  return false;
}

bool SetDatabase(std::string_view text, Options& options) {
  options.database = text;
  return true;
}

bool SetDevices(std::string_view text, Options& options) {
  options.devices.clear();
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    int ordinal = 0;
    if (!absl::SimpleAtoi(word, &ordinal) || ordinal < 0) return false;
    options.devices.push_back(ordinal);
  }
  return true;
}

constexpr std::string_view kSwitchValues = "0 or 1";
constexpr std::string_view kLimitValues = "bytes (67108864, 64MiB), or 0";
constexpr std::string_view kOptionalValues = "bytes (67108864, 64MiB), 0, or none";
constexpr std::array<CudnnOption, 12> kCudnnOptions = {{
    {"policy", "undivided, powerOfTwo, adaptive, all, or micro-batches such as 8,16,32", true,
     SetPolicy},
    {"limit", kLimitValues, true, SetLimit<&Options::limit_bytes>},
    {"total", kOptionalValues, true, SetOptional<&Options::total_bytes>},
    {"sharing", "wd or shared", true, SetSharing},
    {"workspace", "caller or pool", true, SetWorkspace},
    {"precision", "TRUE_HALF, PSEUDO_HALF or FLOAT", true, SetPrecision},
    {"engines", kSwitchValues, true, SetSwitchOption<&Options::engines>},
    {"measuring", kOptionalValues, true, SetOptional<&Options::measuring_bytes>},
    {"database", "the path of a profile", true, SetDatabase},
    {"devices", "numbers of devices such as 0,1", true, SetDevices},
    {"statistics", kSwitchValues, true, SetSwitchOption<&Options::statistics>},
    {"errors", kSwitchValues, true, SetSwitchOption<&Options::errors>},
}};

}  // namespace

std::span<const CudnnOption> CudnnOptions() { return kCudnnOptions; }

Options ReadOptions(const std::vector<std::string>& environment,
                    std::vector<std::string>* complaints) {
  return bindings::ReadVariables(kPrefix, CudnnOptions(), environment, complaints);
}

Options ReadOptions() {
  std::vector<std::string> complaints;
  Options options = ReadOptions(bindings::Environment(), &complaints);
  bindings::WarnOnce(complaints);
  return options;
}

}  // namespace tidepool::cudnn

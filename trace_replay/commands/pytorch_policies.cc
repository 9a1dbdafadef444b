// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator: names, settings and notes.
#include "trace_replay/commands/pytorch_policies.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidepool::tool {
namespace {

constexpr std::string_view kPlain = "pytorch";
constexpr std::string_view kExpandable = "pytorch-expandable";

}  // namespace

std::vector<std::string> PyTorchPolicyNames() {
  return {std::string(kPlain), std::string(kExpandable)};
}

bool IsPyTorchPolicy(std::string_view name) { return name == kPlain || name == kExpandable; }

bool IsFromPyTorch(const Trace& trace) {
  return trace.original_format == TraceFormat::kPyTorchSnapshot ||
         trace.original_format == TraceFormat::kChromeTrace;
}

CLI::Option* AddPyTorchSettingsOption(CLI::App& app, std::string& text) {
  return app
      .add_option("--pytorch-settings", text,
                  "Settings of PYTORCH_CUDA_ALLOC_CONF for the policies pytorch and "
                  "pytorch-expandable, such as max_split_size_mb:128 (default: those of the "
                  "snapshot, else PyTorch's own)")
      ->type_name("TEXT");
}

absl::Status CheckPyTorchSettings(const std::string& text,
                                  const std::vector<std::string>& policies) {
  if (text.empty()) return absl::OkStatus();
  const absl::Status status = ParseCachingAllocatorSettings(text).status();
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--pytorch-settings: ", status.message()));
  }
  if (absl::c_any_of(policies, IsPyTorchPolicy)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--pytorch-settings: policy ", absl::StrJoin(policies, ", "),
      " has no such settings, expected --policy ", absl::StrJoin(PyTorchPolicyNames(), " or ")));
}

absl::StatusOr<CachingAllocatorSettings> PyTorchSettings(std::string_view policy,
                                                         const Trace& trace,
                                                         const std::string& text) {
  absl::StatusOr<CachingAllocatorSettings> settings =
      ParseCachingAllocatorSettings(text, RecordedCachingSettings(trace));
  if (settings.ok()) settings->expandable_segments = policy == kExpandable;
  return settings;
}

std::vector<std::string> PyTorchNotes(const std::vector<std::string>& policies, const Trace& trace,
                                      const std::string& text) {
  if (!absl::c_any_of(policies, IsPyTorchPolicy)) return {};
  std::vector<std::string> notes = {
      "pytorch: PyTorch's own allocator; pytorch-expandable: with expandable_segments:True. First "
      "found:",
      "  reserved without a limit. Smallest: the memory of a device that serves all requests, as "
      "the",
      "  cache is released before a request is refused"};
  const absl::StatusOr<CachingAllocatorSettings> settings = PyTorchSettings(kPlain, trace, text);
  const std::string changed = settings.ok() ? CachingAllocatorSettingsText(*settings) : "";
  if (!changed.empty()) notes.push_back(absl::StrCat("settings of pytorch: ", changed));
  for (const std::string& key : CachingAllocatorKeysWithoutEffect(text))
    notes.push_back(absl::StrCat(key, ": without effect on device memory"));
  return notes;
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// PyTorch's own allocator beside the placement policies: its names, settings, sizes and replays.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_POLICIES_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_POLICIES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/trace/caching_allocator.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

// Returns "pytorch" and "pytorch-expandable".
std::vector<std::string> PyTorchPolicyNames();
bool IsPyTorchPolicy(std::string_view name);

// Returns whether PyTorch made the requests of a trace, so that its allocator is in all tables.
bool IsFromPyTorch(const Trace& trace);

// `--pytorch-settings`, in the syntax of PYTORCH_CUDA_ALLOC_CONF.
CLI::Option* AddPyTorchSettingsOption(CLI::App& app, std::string& text);
// Checks the text of the option. It applies to one of `policies`, unless it is empty.
absl::Status CheckPyTorchSettings(const std::string& text,
                                  const std::vector<std::string>& policies);

// Returns the settings of a policy: those with which the trace was recorded, changed by `text`. The
// name of the policy decides about expandable segments.
absl::StatusOr<CachingAllocatorSettings> PyTorchSettings(std::string_view policy,
                                                         const Trace& trace,
                                                         const std::string& text);

// Returns sentences about the rows of PyTorch's allocator in a table of `policies`, and the
// settings of these rows.
std::vector<std::string> PyTorchNotes(const std::vector<std::string>& policies, const Trace& trace,
                                      const std::string& text);

struct PyTorchReplayOptions {
  std::string trace;
  std::string policy;
  std::int64_t pool_bytes = 0;  // the memory of the device
  std::string settings;         // of --pytorch-settings
  bool json = false;
};

// Serves a trace from PyTorch's allocator on a device of that memory, and prints the answer of
// `replay`.
absl::StatusOr<Answer> ReplayPyTorch(const PyTorchReplayOptions& options,
                                     const MeasuredTrace& measured);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_POLICIES_H_

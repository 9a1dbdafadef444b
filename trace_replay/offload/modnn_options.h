// SPDX-License-Identifier: Apache-2.0
// The options of the policy "modnn".
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODNN_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODNN_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <array>

#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

inline constexpr std::array<const char*, 4> kModnnOptions = {"--sub-batch-rule", "--alpha",
                                                             "--batch-norm", "--paper"};

// Adds --sub-batch-rule, --alpha, --batch-norm and --paper.
void AddModnnOptions(CLI::App& app, OffloadCommandOptions& command);
void AddBatchNormOption(CLI::App& app, PolicyChoice& choice);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODNN_OPTIONS_H_

// SPDX-License-Identifier: Apache-2.0
// The options of a known network: its precision, optimizer, backward pass, and homes of data.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODEL_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODEL_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "tidepool/training/model_zoo.h"

namespace tidepool::tool {

// Adds --precision, --optimizer, --backward, --weight-gradients, --input-gradient, --no-labels,
// --inputs, --weights, --fused-batch-norm and --unfused-attention.
void AddModelOptions(CLI::App& app, ModelOptions& model);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_MODEL_OPTIONS_H_

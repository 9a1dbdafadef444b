// SPDX-License-Identifier: Apache-2.0
// A schedule as a C++ program of its own: memory is taken once, and copies, events and kernels
// stand at fixed addresses. The program needs CUDA, cuDNN and cuBLAS, and nothing of tidepool.
#ifndef TIDEPOOL_TRAINING_EMIT_PROGRAM_H_
#define TIDEPOOL_TRAINING_EMIT_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

struct EmitOptions {
  // The program calls functions that the user writes instead of cuDNN and cuBLAS. Then layers need
  // no parameters.
  bool callbacks = false;
};

// Returns the text of a program that trains with a schedule of fixed addresses on one device.
// `graphs` has a graph for each batch that the rounds name, as for LowerSchedule. Rounds become
// loops. Operations wait for events of other streams as in the schedule's Program; where passes of
// a round differ, for the waits of all of them.
//
// With kernels, the graph is a network in float32 with one input, and a loss after a softmax.
// Layers are convolutions, also transposed, linear layers, ReLU, tanh, max and average pools, batch
// normalisation that keeps its input, local response normalisation, dropout, softmax, sums and
// concatenations, also of images that are cropped. Updates are gradient descent, with or without
// momentum, and Adam. Weights begin with noise of the deviation of He et al., arXiv:1502.01852.
//
// Each layer with dropout has random numbers of its own from a fixed seed, so the order of tasks
// and copies changes no loss. In rounds, the numbers are drawn for each pass.
//
// Errors: those of ValidateSchedule (FailedPrecondition for another graph) and LowerSchedule.
// InvalidArgument for several devices, schedules of a pool or with pages, and data that does not
// divide by the batch; with kernels, for a task without layer parameters, with others than its data
// has, or of an operation that is not listed, with the name of the task. Thread-safe.
// O(operations of the Program + size of the text).
TIDEPOOL_EXPORT absl::StatusOr<std::string> EmitProgram(absl::Span<const TaskGraph> graphs,
                                                        const Schedule& schedule,
                                                        const Machine& machine,
                                                        const EmitOptions& options = {});

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_EMIT_PROGRAM_H_

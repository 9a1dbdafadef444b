// SPDX-License-Identifier: Apache-2.0
// The parts of emitted programs that are the same in all of them.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_PROGRAM_PARTS_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_PROGRAM_PARTS_H_

#include <string_view>

namespace tidepool::emit {

// Memory, streams, waits and copies. The constants kStreams, kEvents, kPoolBytes, kHostBytes,
// kGraph and kSchedule come before it.
std::string_view RuntimeText();
// Calls of cuDNN and cuBLAS, one part after the other: products, other layers, updates, and the
// data to learn. The constants kBatch, kInputs, kInputAt, kClasses, kPositions, kLabelsAt,
// kTargetsAt, kResultsAt, kDropouts and kHasAdam come before them.
std::string_view KernelText();
std::string_view LayerText();
std::string_view UpdateText();
std::string_view DataText();
// The functions of the user.
std::string_view CallbackText();
// The function main with kernels, and with the user's functions.
std::string_view KernelMainText();
std::string_view CallbackMainText();

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_PROGRAM_PARTS_H_

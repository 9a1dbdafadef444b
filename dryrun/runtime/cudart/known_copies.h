// SPDX-License-Identifier: Apache-2.0
// The effects of copies, fills and kernels on the known bytes of devices without data. They happen
// in the order of the stream.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_COPIES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_COPIES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "dryrun/runtime/cudart/memory_operations.h"
#include "dryrun/runtime/cudart/runtime.h"

namespace tidepool::cudart_host {

// Queues a copy to the host. Copies of more than 16 MiB write only known bytes. Pinned memory takes
// none of the host's for zeros: a step that offloads may send more than the host has.
absl::Status QueueReadOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                              bool is_pinned);
// Queues a copy from the host, which is read at once.
absl::Status QueueWriteOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape);
// Queues a copy between devices.
absl::Status QueueCopyOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape);
absl::Status QueueFillOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                              int value);
// Forgets the output of a kernel.
absl::Status QueueForgettingOf(Runtime& runtime, const StreamRef& stream, char* output,
                               std::int64_t bytes);
// Forgets everything, since any byte may be the output of a kernel.
absl::Status QueueForgetting(Runtime& runtime, const StreamRef& stream);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_COPIES_H_

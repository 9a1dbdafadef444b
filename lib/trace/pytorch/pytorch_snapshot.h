// SPDX-License-Identifier: Apache-2.0
// PyTorch memory snapshots: pickles of torch.cuda.memory._snapshot().
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PYTORCH_SNAPSHOT_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PYTORCH_SNAPSHOT_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

// Whether a pickle begins like this.
bool IsPickle(std::string_view beginning);
// Reads a trace from `source`. Errors begin with "NAME:LINE: ".
absl::StatusOr<Trace> ReadPyTorchSnapshot(io::ByteSource& source, const std::string& name,
                                          const ReadOptions& options);
absl::Status WritePyTorchSnapshot(const Trace& trace, std::ostream& out);

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PYTORCH_SNAPSHOT_H_

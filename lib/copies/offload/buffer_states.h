// SPDX-License-Identifier: Apache-2.0
// The states of a buffer: which may follow which, and the errors of calls in a wrong state.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_STATES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_STATES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/copies/offload/buffers.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::offload {

// Returns "buffer 'x'", or "buffer 7" for a buffer without a name.
std::string DescribeBuffer(const Buffer& buffer);
// Returns FailedPrecondition, "buffer 'x' is out, expected a buffer that is `expected`".
absl::Status WrongState(const Buffer& buffer, std::string_view expected);
// Returns the result of a copy that has ended, with the buffer's name.
absl::Status ResultOf(const BufferCopy& copy);
// Changes the state; no other function does.
void SetState(Buffer& buffer, BufferState to);

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_STATES_H_

// Which states follow which, and what is said of a buffer that is in the wrong one.
#ifndef TIDEPOOL_LIB_OFFLOAD_BUFFER_STATES_H_
#define TIDEPOOL_LIB_OFFLOAD_BUFFER_STATES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/offload/buffers.h"
#include "tidepool/schedule/offloader.h"

namespace tidepool::offload {

// "buffer 'x'", or "buffer 7" for one without a name.
std::string DescribeBuffer(const Buffer& buffer);
// "buffer 'x' is out, expected one that is `expected`".
absl::Status WrongState(const Buffer& buffer, std::string_view expected);
// How a copy that is over ended, for who asks.
absl::Status EndOf(const BufferCopy& copy);
// The only place where a state changes.
void Move(Buffer& buffer, BufferState to);

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_BUFFER_STATES_H_

// SPDX-License-Identifier: Apache-2.0
// The functions that a caller has called when a copy begins and ends.
#ifndef TIDEPOOL_LIB_OFFLOAD_COPY_WATCH_H_
#define TIDEPOOL_LIB_OFFLOAD_COPY_WATCH_H_

#include <functional>

#include "tidepool/device.h"

namespace tidepool::offload {

// Queues the function, if any, on the stream. Ignores errors: a failed watch must not fail the
// copy.
inline void QueueWatch(Device& device, Stream stream, const std::function<void()>& function) {
  if (function != nullptr) device.CallHost(stream, function).IgnoreError();
}

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_COPY_WATCH_H_

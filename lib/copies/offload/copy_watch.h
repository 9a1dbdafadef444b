// SPDX-License-Identifier: Apache-2.0
// The events by which a caller sees when a copy begins and ends.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_COPY_WATCH_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_COPY_WATCH_H_

#include "tidepool/device.h"

namespace tidepool::offload {

// Records the event, if any, on the stream. Ignores errors: a failed watch must not fail the copy.
inline void RecordWatch(Device& device, Event event, Stream stream) {
  if (event != Event()) device.RecordEvent(event, stream).IgnoreError();
}

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_COPY_WATCH_H_

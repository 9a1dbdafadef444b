// SPDX-License-Identifier: Apache-2.0
// HostCompressor: the compressor of copies (machine.h) of devices that are the host.
#ifndef TIDEPOOL_TRAINING_HOST_COMPRESSOR_H_
#define TIDEPOOL_TRAINING_HOST_COMPRESSOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/machine.h"

namespace tidepool {

// Thread-safe.
class TIDEPOOL_EXPORT HostCompressor {
 public:
  // `devices[i]` is device i of a valid machine. The host can read and write its memory, as that of
  // a HostDevice. The devices outlive the compressor, and it outlives the queued copies.
  // InvalidArgument for more devices than the machine has.
  static absl::StatusOr<std::unique_ptr<HostCompressor>> Create(absl::Span<Device* const> devices,
                                                                const Machine& machine);
  virtual ~HostCompressor() = default;

  // Queues a copy for ExecutorOptions::copy_compressed. The zero-value codec compresses the bytes
  // on the stream, the copy waits for the time of its machine with the size that they have,
  //     latency + max(sent / link, bytes / engine),
  // and then unpacks them. Bytes that the codec makes no smaller are sent as they are. So all data
  // arrives, and data that is denser than the schedule says takes longer than it says. On a host
  // that needs more time for the codec, the copy takes that time. InvalidArgument for a device
  // without a compressor. O(bytes) on the stream; its thread keeps memory of the largest copy.
  virtual absl::Status Copy(const CompressedCopy& copy) = 0;

  // Returns the bytes that all copies have sent that ended.
  virtual std::int64_t sent_bytes() const = 0;

 protected:
  HostCompressor() = default;
  HostCompressor(const HostCompressor&) = delete;
  HostCompressor& operator=(const HostCompressor&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_HOST_COMPRESSOR_H_

// SPDX-License-Identifier: Apache-2.0
// CompressionAdvisor: decides whether to compress a buffer on its way to the host.
//
// The link carries the raw bytes in both cases, and the host compresses them after their arrival.
// So compression saves host memory, never time on the link. It costs processor time. It delays the
// program when the processor is slower than the link and the buffer is needed soon. The advice is
// to compress when that saves kLeastCompressionSaving of the buffer even at the highest likely
// density, and delays no stream.
//
// A pure function of its arguments: no clock, no memory, no device. Thread-safe.
#ifndef TIDEPOOL_COPIES_COMPRESSION_ADVISOR_H_
#define TIDEPOOL_COPIES_COMPRESSION_ADVISOR_H_

#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

// A buffer that is about to leave the device. Times count from now and may be infinite.
struct CompressionCandidate {
  std::int64_t bytes = 0;  // 0 to kMaxZeroValueInputBytes
  ZeroValueWord word = ZeroValueWord::k32Bits;
  // Share of nonzero words, 0 to 1, and the error of that share (density_probe.h).
  double density = 1;
  double density_error = 0;
  // Time until its device memory is needed for other data: the offload must have finished by then.
  double seconds_to_leave = std::numeric_limits<double>::infinity();
  // Time until the device needs the buffer again: offload and prefetch must have finished by then.
  double seconds_until_needed = std::numeric_limits<double>::infinity();
};

struct CompressionAdvisorOptions {
  double link_bytes_per_second = 12e9;  // of one direction; more than 0
  int threads = 0;                      // 0: the number that the profile recommends
};

// The smallest share of a buffer that compression must save. The processor time hardly depends on
// the share (0.17 core-seconds a GB for zeros, 0.25 for dense data), so small savings are dear.
inline constexpr double kLeastCompressionSaving = 0.05;

enum class CompressionReason : std::uint8_t {
  kSaves,           // compress
  kSavesTooLittle,  // the certain saving is too small
  kLeavesTooLate,   // the device would wait for its memory
  kReturnsTooLate,  // the device would wait for the buffer
};
// Returns "saves memory", "saves too little", "leaves too late" or "returns too late".
TIDEPOOL_EXPORT std::string_view CompressionReasonText(CompressionReason reason);

struct CompressionAdvice {
  bool compress = false;
  CompressionReason reason = CompressionReason::kSavesTooLittle;
  // Host memory in whole units: at the given density, and at the highest likely one.
  std::int64_t held_bytes = 0;
  std::int64_t most_held_bytes = 0;
  // Bytes of the buffer minus the held bytes: expected, and certain. Negative where compression
  // costs memory.
  std::int64_t saved_bytes = 0;
  std::int64_t least_saved_bytes = 0;
  // Duration of one raw copy in either direction.
  double raw_seconds = 0;
  // Durations with compression, at the highest likely density.
  double offload_seconds = 0;
  double prefetch_seconds = 0;
  // The time that the device waits longer than without compression.
  double delay_seconds = 0;
  // The busy time of all threads together, for both directions.
  double core_seconds = 0;
};

class TIDEPOOL_EXPORT CompressionAdvisor {
 public:
  // Returns InvalidArgument for options out of range, and for an invalid profile.
  static absl::StatusOr<CompressionAdvisor> Create(const CompressionProfile& profile,
                                                   const CompressionAdvisorOptions& options);

  // O(1). InvalidArgument for a candidate out of range; a negative time is in the past.
  absl::StatusOr<CompressionAdvice> Advise(const CompressionCandidate& candidate) const;

 private:
  CompressionAdvisor(const CompressionProfile& profile, const CompressionAdvisorOptions& options)
      : profile_(profile), options_(options) {}

  CompressionProfile profile_;
  CompressionAdvisorOptions options_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_COMPRESSION_ADVISOR_H_

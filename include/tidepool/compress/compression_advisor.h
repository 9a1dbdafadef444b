// CompressionAdvisor: whether to compress a buffer on its way to the host.
//
// The bytes cross the link as they are in both cases; the host compresses what has come. So
// compression saves memory of the host, never time on the link. It costs processor time, and it
// costs the program time where the processor is slower than the link and the buffer is needed soon.
// The advice is: compress when that saves enough memory, as certainly as the density is known, and
// nothing has to wait longer than it would without.
//
// A pure function of its arguments: no clock, no memory, no device. Thread-safe.
#ifndef TIDEPOOL_COMPRESS_COMPRESSION_ADVISOR_H_
#define TIDEPOOL_COMPRESS_COMPRESSION_ADVISOR_H_

#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/compress/compression_profile.h"
#include "tidepool/compress/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

// A buffer that is about to leave the device. Times count from now, and infinity is a time.
struct CompressionCandidate {
  std::int64_t bytes = 0;  // 0 to kMaxZeroValueInputBytes
  ZeroValueWord word = ZeroValueWord::k32Bits;
  // Share of words that are not zero, 0 to 1, and how wrong that may be (density_probe.h).
  double density = 1;
  double density_error = 0;
  // Until its memory on the device is needed for something else: the offload is over by then.
  double seconds_to_leave = std::numeric_limits<double>::infinity();
  // Until it is needed on the device again: by then it was offloaded and prefetched.
  double seconds_until_needed = std::numeric_limits<double>::infinity();
};

struct CompressionAdvisorOptions {
  double link_bytes_per_second = 12e9;  // of one direction; more than 0
  int threads = 0;                      // 0: as many as the profile recommends
  // Compressing must save so large a share of the buffer, 0 to 1.
  double least_saving = 0.05;
  // For which the program may wait longer than without compression.
  double most_delay_seconds = 0;
  // Compressed space is taken in pieces of it (a page of a PagePool): 1 to 1 GiB.
  std::int64_t granularity_bytes = std::int64_t{64} << 10;
};

enum class CompressionReason : std::uint8_t {
  kSaves,           // compress
  kSavesTooLittle,  // it may not save as much as it must
  kLeavesTooLate,   // the device would wait for its memory
  kReturnsTooLate,  // the device would wait for the buffer
};
// "saves memory", "saves too little", "leaves too late", "returns too late".
TIDEPOOL_EXPORT std::string_view CompressionReasonText(CompressionReason reason);

struct CompressionAdvice {
  bool compress = false;
  CompressionReason reason = CompressionReason::kSavesTooLittle;
  // Of the host, in whole pieces: at the density as it was said, and at the highest that it may be.
  std::int64_t held_bytes = 0;
  std::int64_t most_held_bytes = 0;
  // Of the buffer, less what is held: expected, and for certain. Less than 0 where it costs memory.
  std::int64_t saved_bytes = 0;
  std::int64_t least_saved_bytes = 0;
  // Of each direction, without compression.
  double raw_seconds = 0;
  // With it, at the highest density.
  double offload_seconds = 0;
  double prefetch_seconds = 0;
  // That the device waits longer than without compression.
  double delay_seconds = 0;
  // That all threads together are busy for both directions.
  double core_seconds = 0;
};

class TIDEPOOL_EXPORT CompressionAdvisor {
 public:
  // InvalidArgument for options out of range, and for a profile that cannot be.
  static absl::StatusOr<CompressionAdvisor> Create(const CompressionProfile& profile,
                                                   const CompressionAdvisorOptions& options);

  // O(1). InvalidArgument for a candidate out of range; times of less than 0 are past.
  absl::StatusOr<CompressionAdvice> Advise(const CompressionCandidate& candidate) const;

 private:
  CompressionAdvisor(const CompressionProfile& profile, const CompressionAdvisorOptions& options)
      : profile_(profile), options_(options) {}

  CompressionProfile profile_;
  CompressionAdvisorOptions options_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COMPRESS_COMPRESSION_ADVISOR_H_

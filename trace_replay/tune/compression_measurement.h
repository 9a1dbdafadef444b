// How fast this machine compresses and decompresses, and copies beside it.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/compress/zero_value_codec.h"

namespace tidepool::tool {

// One way of doing it.
struct CompressionSetting {
  double density = 0.5;
  int threads = 1;
  std::int64_t chunk_bytes = std::int64_t{1} << 20;

  friend bool operator==(const CompressionSetting&, const CompressionSetting&) = default;
};

// Nanoseconds that a thread is busy with a byte of input while all threads are: medians over
// rounds.
struct CompressionTimes {
  CompressionSetting setting;
  double density = 0;           // as it came out
  double compressed_share = 0;  // of the input
  double compress_ns = 0;
  double decompress_ns = 0;
  double copy_ns = 0;  // memcpy
};

struct MeasurementOptions {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;  // the best, if not given
  std::int64_t bytes = std::int64_t{64} << 20;
  // It takes the median of as many rounds as fit, at least one and at most most_rounds.
  double time_limit_seconds = 5;
  int most_rounds = 9;
  // The best of the rounds instead: what a machine would do that does nothing else.
  bool takes_best = false;
  // Called before each setting of a round.
  std::function<void(int round, const CompressionSetting&)> progress;
};

struct CompressionMeasurement {
  std::vector<CompressionTimes> times;  // one a setting
  int rounds = 0;
  // Of the time that threads were at work, the share in which they had a processor: 1 on a machine
  // that does nothing else. Of settings that do not ask for more threads than there are processors.
  double processor_share = 1;
};

// As the pipeline does it (compression_pipeline.h): each thread takes one piece after the other.
// What it compresses is in a slot that was just filled, and it writes to memory that is in no
// cache; what it decompresses comes from there, and goes to a slot. Normal numbers behind a ReLU.
// ResourceExhausted when there is no memory for it or no threads; Internal when what was
// decompressed is not what was compressed.
absl::StatusOr<CompressionMeasurement> MeasureCompression(
    const std::vector<CompressionSetting>& settings, const MeasurementOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_

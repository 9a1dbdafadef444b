// SPDX-License-Identifier: Apache-2.0
// Measures how fast this machine compresses, decompresses and copies.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::tool {

// The parameters of one measurement.
struct CompressionSetting {
  double density = 0.5;
  int threads = 1;
  std::int64_t chunk_bytes = std::int64_t{1} << 20;

  friend bool operator==(const CompressionSetting&, const CompressionSetting&) = default;
};

// Nanoseconds of a thread for a byte of input while all threads work: medians over rounds.
struct CompressionTimes {
  CompressionSetting setting;
  double density = 0;           // of the generated input
  double compressed_share = 0;  // of the input
  double compress_ns = 0;
  double decompress_ns = 0;
  double copy_ns = 0;  // memcpy
};

struct MeasurementOptions {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;  // empty: the fastest
  std::int64_t bytes = std::int64_t{64} << 20;
  // Rounds go on until this time is up: at least one round, at most most_rounds.
  double time_limit_seconds = 5;
  int most_rounds = 9;
  // Takes the fastest round instead of the median: an estimate of an idle machine.
  bool takes_best = false;
  // Called before each setting of a round.
  std::function<void(int round, const CompressionSetting&)> progress;
};

struct CompressionMeasurement {
  std::vector<CompressionTimes> times;  // one a setting
  int rounds = 0;
  // The share of their working time in which threads had a processor: 1 on an idle machine.
  // Settings with more threads than processors do not count.
  double processor_share = 1;
};

// Measures each setting, in rounds. The access pattern is the compression pipeline's
// (compression_pipeline.h): each thread takes one piece after the other, compresses it from a slot
// that was just filled into memory outside the caches, and decompresses it from there to a slot.
// The input is normal numbers after a ReLU. ResourceExhausted without enough memory or threads;
// Internal if decompression does not restore the input.
absl::StatusOr<CompressionMeasurement> MeasureCompression(
    const std::vector<CompressionSetting>& settings, const MeasurementOptions& options);

// Nanoseconds of one thread for a byte of input: medians over rounds.
struct BufferTimes {
  double compress_ns = 0;
  double decompress_ns = 0;
};

// Whole buffers by ZeroValueCodec, with stores into the caches and with
// ZeroValueOptions::streaming_stores.
struct StoresMeasurement {
  double density = 0.5;
  BufferTimes cached;
  BufferTimes streaming;
};

// Measures buffers of `options.bytes`, each coded by one call. The two kinds of stores take turns.
// Nothing reads the output. Errors as above.
absl::StatusOr<StoresMeasurement> MeasureStores(double density, const MeasurementOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_MEASUREMENT_H_

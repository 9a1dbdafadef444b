// SPDX-License-Identifier: Apache-2.0
// From measurements to recommendations: a profile, the knee, and the links for which compression
// pays.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tidepool/copies/compression_profile.h"
#include "trace_replay/tune/compression_measurement.h"

namespace tidepool::tool {

// A measurement of one word size.
struct WordMeasurement {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  CompressionMeasurement measurement;
};

// Returns the settings to measure: each density on one thread; and, at the density nearest to 0.5,
// 1, 2, ... threads, and pieces of 64 KiB to 1 MiB that are no larger than `bytes`.
std::vector<CompressionSetting> SettingsFor(const std::vector<double>& densities, int most_threads,
                                            std::int64_t bytes);
// Returns the density nearest to 0.5.
double MiddleDensity(const std::vector<double>& densities);
// Returns 1 MiB, or less for smaller buffers: the size of pieces where others are not measured.
std::int64_t StandardChunk(std::int64_t bytes);

// Return the rows of a measurement that differ from the standard setting in one parameter, sorted
// by it.
std::vector<CompressionTimes> ByDensity(const WordMeasurement& measured, std::int64_t chunk);
std::vector<CompressionTimes> ByThreads(const WordMeasurement& measured, double density,
                                        std::int64_t chunk);
std::vector<CompressionTimes> ByChunk(const WordMeasurement& measured, double density);

// One more thread pays if it adds at least this share of the first thread's speed.
inline constexpr double kLeastGainOfThread = 0.5;
// Returns the fewest threads after which no further thread pays. `speedups` as in a profile.
int KneeOf(const std::vector<double>& speedups);

// Returns `defaults` with the measured fields replaced. It recommends as many threads as the knee
// has, or fewer if the link needs fewer; and the smallest pieces within 3 % of the fastest. Word
// sizes that were not measured, and the name of the machine, keep `defaults`.
CompressionProfile ProfileFrom(const std::vector<WordMeasurement>& measured,
                               const std::vector<double>& densities, std::int64_t bytes,
                               std::optional<double> link_bytes_per_second,
                               const CompressionProfile& defaults);

// Returns whether a round trip of whole buffers is at least 5 % faster with streaming stores.
bool StreamingPays(const StoresMeasurement& stores);

// The cost of compression on a link that is saturated in one direction.
struct LinkAnswer {
  double link_bytes_per_second = 0;
  // The fewest threads that keep up with the link; empty if no measured number of threads does.
  std::optional<int> threads_to_keep_up;
  // The share of all processors that the recommended threads take, in the busier direction.
  double cpu_share = 0;
  // The highest density up to which transfers take no longer than raw transfers, except for one
  // slot; empty if they always take longer.
  std::optional<double> in_time_up_to;
  // The highest density up to which, in addition, compression saves at least 5 % of the memory.
  std::optional<double> pays_up_to;
};
// Computes the answer for buffers of `density`.
LinkAnswer AnswerForLink(const CompressionProfile& profile, ZeroValueWord word, double density,
                         double link_bytes_per_second);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_

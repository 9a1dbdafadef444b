// What measurements mean: a profile, the knee, and for which links compressing pays.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tidepool/compress/compression_profile.h"
#include "trace_replay/tune/compression_measurement.h"

namespace tidepool::tool {

// Of one size of words.
struct WordMeasurement {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  CompressionMeasurement measurement;
};

// What is measured: each density on one thread, and at the density nearest to a half 1, 2, ...
// threads and pieces of 64 KiB to 1 MiB (none larger than `bytes`).
std::vector<CompressionSetting> SettingsFor(const std::vector<double>& densities, int most_threads,
                                            std::int64_t bytes);
double MiddleDensity(const std::vector<double>& densities);
std::int64_t StandardChunk(std::int64_t bytes);

// The rows of a measurement that differ in one thing from the standard setting.
std::vector<CompressionTimes> ByDensity(const WordMeasurement& measured, std::int64_t chunk);
std::vector<CompressionTimes> ByThreads(const WordMeasurement& measured, double density,
                                        std::int64_t chunk);
std::vector<CompressionTimes> ByChunk(const WordMeasurement& measured, double density);

// A further thread is worth it that brings at least so much of what the first does.
inline constexpr double kLeastGainOfThread = 0.5;
// The fewest threads after which no next one is worth it. `speedups` as in a profile.
int KneeOf(const std::vector<double>& speedups);

// Everything that follows but the machine's name. Recommended are as many threads as the knee has,
// or as a link needs, if that is fewer; and the smallest piece that is within 3 % of the quickest.
// Words that were not measured keep `otherwise`.
CompressionProfile ProfileFrom(const std::vector<WordMeasurement>& measured,
                               const std::vector<double>& densities, std::int64_t bytes,
                               std::optional<double> link_bytes_per_second,
                               const CompressionProfile& otherwise);

// When the link is as busy as it can be in one direction, with buffers of `density`.
struct LinkAnswer {
  double link_bytes_per_second = 0;
  // The fewest of the profile's speedups that keep up; none when no number of threads does.
  std::optional<int> threads_to_keep_up;
  // Of all processors, with the threads that the profile recommends; the busier direction.
  double cpu_share = 0;
  // Up to which density transfers take no longer than raw ones, but for a slot; none when always
  // longer.
  std::optional<double> in_time_up_to;
  // Up to which density that holds and memory is saved, 5 % or more.
  std::optional<double> pays_up_to;
};
LinkAnswer AnswerForLink(const CompressionProfile& profile, ZeroValueWord word, double density,
                         double link_bytes_per_second);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_COMPRESSION_TUNING_H_

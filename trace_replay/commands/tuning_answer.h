// SPDX-License-Identifier: Apache-2.0
// The answer of `tune compression`: as JSON, and as tables.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_TUNING_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_TUNING_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tidepool/copies/compression_profile.h"
#include "trace_replay/tune/compression_tuning.h"

namespace tidepool::tool {

struct TuneOptions {
  std::int64_t bytes = std::int64_t{256} << 20;
  std::vector<double> densities = {0, 0.25, 0.5, 0.75, 1};
  int most_threads = 1;
  double link_bytes_per_second = 0;  // 0: not given
  int word_bits = 0;                 // 0: both
  std::string save;
  bool force = false;  // saves the profile of a busy machine too
  bool json = false;
};

struct Tuning {
  std::vector<WordMeasurement> words;
  StoresMeasurement stores;  // of the first word
  CompressionProfile profile;
  std::vector<double> densities;  // ascending
  std::vector<LinkAnswer> links;
  double seconds = 0;
};

// Bits of a word.
inline int BitsOf(ZeroValueWord word) { return 8 * static_cast<int>(word); }
// Gigabytes a second of all threads together, if a thread takes `ns` nanoseconds for a byte.
inline double Speed(const CompressionTimes& times, double ns) { return times.setting.threads / ns; }
// Seconds of one core for compressing and decompressing a gigabyte.
double CoreSecondsPerGb(const CompressionProfile& profile, ZeroValueWord word, double density);

// The least share of its time that a thread had a processor.
double ProcessorShare(const Tuning& tuning);
// Whether other programs disturbed the measurement.
bool IsBusy(const Tuning& tuning);

void PrintTuningJson(const TuneOptions& options, const Tuning& tuning);
void PrintTuningTables(const TuneOptions& options, const Tuning& tuning);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_TUNING_ANSWER_H_

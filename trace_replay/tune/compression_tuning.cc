// SPDX-License-Identifier: Apache-2.0
// Derives each field of a profile from the rows of a measurement.
#include "trace_replay/tune/compression_tuning.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "lib/base/arithmetic.h"
#include "tidepool/copies/compression_advisor.h"
#include "trace_replay/tune/compression_fit.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kStandardChunk = std::int64_t{1} << 20;
constexpr std::int64_t kChunks[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
// The recommended pieces may be this factor slower than the fastest.
constexpr double kTolerance = 1.03;

// Returns 1, 2, ... 6, then numbers that grow by about a third, up to `most`.
std::vector<int> ThreadCounts(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads += std::max(1, threads / 3)) {
    counts.push_back(threads);
  }
  counts.push_back(most);
  return counts;
}

double RoundTrip(const CompressionTimes& times) { return times.compress_ns + times.decompress_ns; }

double MaskShareOf(ZeroValueWord word) { return 1.0 / (8 * static_cast<int>(word)); }

// Returns how much faster k threads are than one, for each k up to the last measured number;
// between measured numbers by linear interpolation. The result is at most `most`: threads that
// share a processor in turns look as fast as one alone, each by itself.
std::vector<double> Speedups(const std::vector<CompressionTimes>& by_threads, double most) {
  std::vector<double> speedups = {1};
  double last = 1;
  for (std::size_t i = 1; i < by_threads.size(); ++i) {
    const int threads = by_threads[i].setting.threads;
    const int before = static_cast<int>(speedups.size());
    const double measured = threads * RoundTrip(by_threads[0]) / RoundTrip(by_threads[i]);
    const double speedup = std::clamp(measured, last, std::min<double>(threads, most));
    for (int k = before + 1; k <= threads; ++k) {
      const double between = last + (speedup - last) * (k - before) / (threads - before);
      speedups.push_back(std::clamp(between, speedups.back(), static_cast<double>(k)));
    }
    last = speedups.back();
  }
  return speedups;
}

CompressionCost CostFrom(const std::vector<CompressionTimes>& by_density, ZeroValueWord word,
                         double CompressionTimes::*ns, double slot_ns_per_byte) {
  std::vector<CostSample> samples;
  for (const CompressionTimes& times : by_density) {
    // Density 0 is left out: its blocks have no mask, and are faster than the line.
    if (times.density > 0) samples.push_back({PlainRatio(word, times.density), times.*ns});
  }
  if (samples.empty()) return {by_density.front().*ns, 0};
  CompressionCost cost = FitCost(samples);
  cost.a = std::max(0.0, cost.a - slot_ns_per_byte);
  return cost;
}

// Returns the largest measured share, so that predicted sizes are never too small.
double PackedShare(const std::vector<CompressionTimes>& by_density, ZeroValueWord word) {
  // The share of index and rounding, which distorts low densities.
  constexpr double kIndexShare = (8.0 + 32) / static_cast<double>(kZeroValueBlockBytes);
  constexpr double kLeastDensity = 0.2;
  double share = 0;
  for (const CompressionTimes& times : by_density) {
    if (times.density < kLeastDensity) continue;
    share =
        std::max(share, (times.compressed_share - MaskShareOf(word) - kIndexShare) / times.density);
  }
  return share == 0 ? 1 : std::clamp(share, 0.01, 1.0);
}

// Returns the cost of a piece besides its bytes: the slope of the time for a byte over 1 / bytes of
// a piece.
double SlotNs(const std::vector<CompressionTimes>& by_chunk) {
  std::vector<CostSample> samples;
  samples.reserve(by_chunk.size());
  for (const CompressionTimes& times : by_chunk) {
    samples.push_back({1 / static_cast<double>(times.setting.chunk_bytes), RoundTrip(times) / 2});
  }
  return std::min(FitCost(samples).b, 1e9);
}

std::int64_t BestChunk(const std::vector<CompressionTimes>& by_chunk) {
  double least = RoundTrip(by_chunk.front());
  for (const CompressionTimes& times : by_chunk) least = std::min(least, RoundTrip(times));
  for (const CompressionTimes& times : by_chunk) {
    if (RoundTrip(times) <= least * kTolerance) return times.setting.chunk_bytes;
  }
  return by_chunk.back().setting.chunk_bytes;
}

double SlowerNs(const CompressionProfile& profile, ZeroValueWord word, double density) {
  return std::max(CodecNsPerByte(profile, word, density, TransferDirection::kOffload),
                  CodecNsPerByte(profile, word, density, TransferDirection::kPrefetch));
}

// Returns the fewest threads that compress a byte in no more time than the link copies it.
std::optional<int> ThreadsFor(const CompressionProfile& profile, ZeroValueWord word, double density,
                              double link_bytes_per_second) {
  const double needed = SlowerNs(profile, word, density) * 1e-9 * link_bytes_per_second;
  for (int threads = 1; threads <= static_cast<int>(profile.speedups.size()); ++threads) {
    if (Speedup(profile, threads) >= needed) return threads;
  }
  return std::nullopt;
}

// Returns the highest hundredth in [0, 1] up to which `holds` is true for all hundredths.
template <typename Holds>
std::optional<double> HighestDensity(const Holds& holds) {
  std::optional<double> highest;
  for (int i = 0; i <= 100 && holds(i / 100.0); ++i) highest = i / 100.0;
  return highest;
}

}  // namespace

double MiddleDensity(const std::vector<double>& densities) {
  return *absl::c_min_element(
      densities, [](double a, double b) { return std::abs(a - 0.5) < std::abs(b - 0.5); });
}

std::int64_t StandardChunk(std::int64_t bytes) {
  constexpr auto kBlock = static_cast<std::int64_t>(kZeroValueBlockBytes);
  return std::clamp(bytes / kBlock * kBlock, kBlock, kStandardChunk);
}

std::vector<CompressionSetting> SettingsFor(const std::vector<double>& densities, int most_threads,
                                            std::int64_t bytes) {
  std::vector<CompressionSetting> settings;
  const auto add = [&settings](const CompressionSetting& setting) {
    if (!absl::c_linear_search(settings, setting)) settings.push_back(setting);
  };
  const double middle = MiddleDensity(densities);
  const std::int64_t standard = StandardChunk(bytes);
  for (const double density : densities) {
    add({density, 1, standard});
    if (density != middle) continue;
    for (const int threads : ThreadCounts(most_threads)) add({density, threads, standard});
    for (const std::int64_t chunk : kChunks) {
      if (chunk <= bytes) add({density, 1, chunk});
    }
  }
  return settings;
}

std::vector<CompressionTimes> ByDensity(const WordMeasurement& measured, std::int64_t chunk) {
  std::vector<CompressionTimes> rows;
  for (const CompressionTimes& times : measured.measurement.times) {
    if (times.setting.threads == 1 && times.setting.chunk_bytes == chunk) rows.push_back(times);
  }
  absl::c_stable_sort(rows, [](const auto& a, const auto& b) { return a.density < b.density; });
  return rows;
}

std::vector<CompressionTimes> ByThreads(const WordMeasurement& measured, double density,
                                        std::int64_t chunk) {
  std::vector<CompressionTimes> rows;
  for (const CompressionTimes& times : measured.measurement.times) {
    if (times.setting.density == density && times.setting.chunk_bytes == chunk) {
      rows.push_back(times);
    }
  }
  absl::c_stable_sort(
      rows, [](const auto& a, const auto& b) { return a.setting.threads < b.setting.threads; });
  return rows;
}

std::vector<CompressionTimes> ByChunk(const WordMeasurement& measured, double density) {
  std::vector<CompressionTimes> rows;
  for (const CompressionTimes& times : measured.measurement.times) {
    if (times.setting.density == density && times.setting.threads == 1) rows.push_back(times);
  }
  absl::c_stable_sort(rows, [](const auto& a, const auto& b) {
    return a.setting.chunk_bytes < b.setting.chunk_bytes;
  });
  return rows;
}

int KneeOf(const std::vector<double>& speedups) {
  std::size_t knee = speedups.size();
  // From the end, so that one bad measurement at the start does not end the search.
  while (knee > 1 && speedups[knee - 1] - speedups[knee - 2] < kLeastGainOfThread) --knee;
  return static_cast<int>(knee);
}

CompressionProfile ProfileFrom(const std::vector<WordMeasurement>& measured,
                               const std::vector<double>& densities, std::int64_t bytes,
                               std::optional<double> link_bytes_per_second,
                               const CompressionProfile& defaults) {
  CompressionProfile profile = defaults;
  const double middle = MiddleDensity(densities);
  const std::int64_t standard = StandardChunk(bytes);
  const WordMeasurement& first = measured.front();
  const std::vector<CompressionTimes> by_threads = ByThreads(first, middle, standard);
  const std::vector<CompressionTimes> by_chunk = ByChunk(first, middle);
  profile.chunk_bytes = BestChunk(by_chunk);
  profile.slot_ns = SlotNs(by_chunk);
  profile.memcpy_bytes_per_second = std::clamp(1e9 / by_threads.front().copy_ns, 1e6, 1e13);
  // With fewer pieces than threads, some threads have no work.
  const std::int64_t at_once =
      std::min<std::int64_t>(profile.processors, CeilDivide(bytes, standard));
  profile.speedups = Speedups(by_threads, static_cast<double>(at_once));
  profile.threads = KneeOf(profile.speedups);
  for (const WordMeasurement& word : measured) {
    const std::vector<CompressionTimes> rows = ByDensity(word, standard);
    const double slot_ns_per_byte = profile.slot_ns / static_cast<double>(standard);
    CompressionCosts costs;
    costs.compress = CostFrom(rows, word.word, &CompressionTimes::compress_ns, slot_ns_per_byte);
    costs.decompress =
        CostFrom(rows, word.word, &CompressionTimes::decompress_ns, slot_ns_per_byte);
    costs.packed_share = PackedShare(rows, word.word);
    (word.word == ZeroValueWord::k16Bits ? profile.words16 : profile.words32) = costs;
  }
  if (link_bytes_per_second.has_value()) {
    const std::optional<int> needed =
        ThreadsFor(profile, first.word, middle, *link_bytes_per_second);
    profile.threads = std::min(profile.threads, needed.value_or(profile.threads));
  }
  return profile;
}

bool StreamingPays(const StoresMeasurement& stores) {
  constexpr double kLeastGain = 1.05;
  const auto round_trip = [](const BufferTimes& times) {
    return times.compress_ns + times.decompress_ns;
  };
  return round_trip(stores.streaming) * kLeastGain <= round_trip(stores.cached);
}

LinkAnswer AnswerForLink(const CompressionProfile& profile, ZeroValueWord word, double density,
                         double link_bytes_per_second) {
  LinkAnswer answer;
  answer.link_bytes_per_second = link_bytes_per_second;
  answer.threads_to_keep_up = ThreadsFor(profile, word, density, link_bytes_per_second);
  const double speedup = Speedup(profile, profile.threads);
  const double rate =
      std::min(link_bytes_per_second, speedup / SlowerNs(profile, word, density) * 1e9);
  // Each of several threads takes longer for a byte than one thread alone.
  answer.cpu_share = rate * SlowerNs(profile, word, density) * 1e-9 * profile.threads / speedup /
                     profile.processors;
  const auto is_in_time = [&](double d) {
    return SlowerNs(profile, word, d) * 1e-9 * link_bytes_per_second <= speedup;
  };
  answer.in_time_up_to = HighestDensity(is_in_time);
  answer.pays_up_to = HighestDensity([&](double d) {
    constexpr std::int64_t kBytes = std::int64_t{64} << 20;
    return is_in_time(d) && static_cast<double>(CompressedBytes(profile, kBytes, word, d)) <=
                                (1 - kLeastCompressionSaving) * static_cast<double>(kBytes);
  });
  return answer;
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// The answer of `tune compression` as tables.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trace_replay/commands/tuning_answer.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// Below this share of processor time, other programs disturb the measurement.
constexpr double kQuietShare = 0.9;

std::string ThreadsText(int threads) {
  return absl::StrCat(threads, threads == 1 ? " thread" : " threads");
}
std::string SpeedText(double gigabytes) { return absl::StrFormat("%.2f", gigabytes); }
std::string ShareText(double share) { return absl::StrFormat("%.0f %%", share * 100); }
std::string DensityText(const std::optional<double>& density) {
  return density.has_value() ? absl::StrFormat("density %.2f", *density) : "no density";
}

std::vector<std::string> SpeedCells(const CompressionTimes& times) {
  const double copy = times.copy_ns;
  return {SpeedText(Speed(times, times.compress_ns)), RatioText(copy / times.compress_ns),
          SpeedText(Speed(times, times.decompress_ns)), RatioText(copy / times.decompress_ns),
          SpeedText(Speed(times, copy))};
}

void PrintTable(const std::string& title, const std::vector<std::string>& head,
                const std::vector<CompressionTimes>& rows, const auto& cells) {
  std::vector<std::vector<std::string>> table = {head};
  for (const std::string_view name : {"compress", "/ memcpy", "decompress", "/ memcpy", "memcpy"}) {
    table.front().emplace_back(name);
  }
  for (const CompressionTimes& times : rows) {
    std::vector<std::string> row = cells(times);
    for (std::string& cell : SpeedCells(times)) row.push_back(std::move(cell));
    table.push_back(std::move(row));
  }
  std::cout << "  " << title << "\n" << TableText(table) << "\n";
}

void PrintWord(const TuneOptions& options, const Tuning& tuning, const WordMeasurement& word) {
  const std::int64_t chunk = StandardChunk(options.bytes);
  const double middle = MiddleDensity(tuning.densities);
  std::cout << "words of " << BitsOf(word.word) << " bits, GB/s of input, "
            << word.measurement.rounds << " rounds\n";
  PrintTable(absl::StrCat("one thread, slots of ", SizeText(chunk)), {"density", "size"},
             ByDensity(word, chunk), [](const CompressionTimes& times) {
               return std::vector<std::string>{absl::StrFormat("%.2f", times.density),
                                               absl::StrFormat("%.3f", times.compressed_share)};
             });
  PrintTable(absl::StrFormat("density %.2f, slots of %s", middle, SizeText(chunk)), {"threads"},
             ByThreads(word, middle, chunk), [](const CompressionTimes& times) {
               return std::vector<std::string>{absl::StrCat(times.setting.threads)};
             });
  PrintTable(absl::StrFormat("density %.2f, one thread", middle), {"slots"}, ByChunk(word, middle),
             [](const CompressionTimes& times) {
               return std::vector<std::string>{SizeText(times.setting.chunk_bytes)};
             });
}

std::string CostText(const CompressionCost& cost) {
  return absl::StrFormat("%.3f + %.3f x share", cost.a, cost.b);
}

void PrintCosts(const Tuning& tuning) {
  std::vector<std::vector<std::string>> rows = {
      {"words", "compress", "decompress", "a word that is not zero keeps"}};
  for (const WordMeasurement& word : tuning.words) {
    const CompressionCosts& costs = tuning.profile.CostsOf(word.word);
    rows.push_back({absl::StrCat(BitsOf(word.word), " bits"), CostText(costs.compress),
                    CostText(costs.decompress),
                    absl::StrCat(ShareText(costs.packed_share), " of its bits")});
  }
  const double middle = MiddleDensity(tuning.densities);
  std::cout << "cost on one core, ns a byte of input (share: of the bytes that stay, which are "
               "masks and words that are not zero)\n"
            << TableText(rows)
            << absl::StreamFormat(
                   "  compress and decompress at density %.2f: %.2f core-seconds a GB\n\n", middle,
                   CoreSecondsPerGb(tuning.profile, tuning.words.front().word, middle));
}

// Recommends threads and slots, and tells why.
void PrintRecommendation(const CompressionProfile& profile) {
  const int knee = KneeOf(profile.speedups);
  std::cout << "use " << ThreadsText(profile.threads) << " and slots of "
            << SizeText(profile.chunk_bytes) << ": ";
  if (profile.threads < knee) {
    std::cout << "more are not needed to keep up with the link\n\n";
    return;
  }
  std::cout << absl::StreamFormat(
      "%.2f times the speed of one thread; %s\n\n", Speedup(profile, knee),
      knee == static_cast<int>(profile.speedups.size())
          ? "more were not measured"
          : absl::StrCat("one more adds less than ", ShareText(kLeastGainOfThread),
                         " of the first"));
}

void PrintStores(const StoresMeasurement& stores) {
  const auto speeds = [](const char* name, const BufferTimes& times) {
    return std::vector<std::string>{name, SpeedText(1 / times.compress_ns),
                                    SpeedText(1 / times.decompress_ns)};
  };
  std::cout << absl::StreamFormat(
                   "whole buffers by one call on one thread, density %.2f, GB/s of input\n",
                   stores.density)
            << TableText({{"stores", "compress", "decompress"},
                          speeds("into the caches", stores.cached),
                          speeds("streaming", stores.streaming)})
            << "set ZeroValueOptions::streaming_stores to "
            << (StreamingPays(stores) ? "true" : "false")
            << " for buffers of this size that are not read at once\n\n";
}

void PrintLinks(const Tuning& tuning) {
  const double middle = MiddleDensity(tuning.densities);
  std::vector<std::vector<std::string>> rows = {
      {"link", "threads needed", "processors used", "costs no time up to", "saves memory up to"}};
  for (const LinkAnswer& link : tuning.links) {
    rows.push_back({absl::StrFormat("%.4g GB/s", link.link_bytes_per_second / 1e9),
                    link.threads_to_keep_up ? absl::StrCat(*link.threads_to_keep_up)
                                            : absl::StrCat("> ", tuning.profile.speedups.size()),
                    ShareText(link.cpu_share), DensityText(link.in_time_up_to),
                    DensityText(link.pays_up_to)});
  }
  std::cout << absl::StreamFormat(
                   "when compression pays, with %s (density: the share of words that are not zero; "
                   "threads needed, and processors used of %d, at density %.2f)\n",
                   ThreadsText(tuning.profile.threads), tuning.profile.processors, middle)
            << TableText(rows);
}

}  // namespace

double ProcessorShare(const Tuning& tuning) {
  double share = 1;
  for (const WordMeasurement& word : tuning.words) {
    share = std::min(share, word.measurement.processor_share);
  }
  return share;
}

bool IsBusy(const Tuning& tuning) { return ProcessorShare(tuning) < kQuietShare; }

void PrintTuningTables(const TuneOptions& options, const Tuning& tuning) {
  const CompressionProfile& profile = tuning.profile;
  std::cout << profile.machine << ", " << profile.processors << " processors, "
            << profile.instruction_set << "\n"
            << absl::StreamFormat("buffers of %s, medians, %.1f s\n\n", SizeText(options.bytes),
                                  tuning.seconds);
  if (IsBusy(tuning)) {
    std::cout << "the machine is busy: threads had a processor "
              << ShareText(ProcessorShare(tuning))
              << " of the time; measure again on an idle machine\n\n";
  }
  for (const WordMeasurement& word : tuning.words) PrintWord(options, tuning, word);
  PrintCosts(tuning);
  PrintRecommendation(profile);
  PrintStores(tuning.stores);
  PrintLinks(tuning);
  if (!options.save.empty() && options.word_bits != 0) {
    std::cout << "\nwords of " << (options.word_bits == 16 ? 32 : 16)
              << " bits were not measured: the profile has default values for them\n";
  }
}

}  // namespace tidepool::tool

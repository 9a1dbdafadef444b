// SPDX-License-Identifier: Apache-2.0
// The answer of `tune compression` as JSON.
#include "trace_replay/command.h"
#include "trace_replay/commands/tuning_answer.h"
#include "trace_replay/or_null.h"

namespace tidepool::tool {
namespace {

nlohmann::ordered_json TimesJson(const CompressionTimes& times) {
  return {{"density", times.density},
          {"threads", times.setting.threads},
          {"chunk_bytes", times.setting.chunk_bytes},
          {"compressed_share", times.compressed_share},
          {"compress_bytes_per_second", Speed(times, times.compress_ns) * 1e9},
          {"decompress_bytes_per_second", Speed(times, times.decompress_ns) * 1e9},
          {"memcpy_bytes_per_second", Speed(times, times.copy_ns) * 1e9}};
}

nlohmann::ordered_json BufferJson(const BufferTimes& times) {
  return {{"compress_bytes_per_second", 1e9 / times.compress_ns},
          {"decompress_bytes_per_second", 1e9 / times.decompress_ns}};
}

nlohmann::ordered_json StoresJson(const StoresMeasurement& stores) {
  return {{"density", stores.density},
          {"cached", BufferJson(stores.cached)},
          {"streaming", BufferJson(stores.streaming)},
          {"streaming_stores", StreamingPays(stores)}};
}

}  // namespace

double CoreSecondsPerGb(const CompressionProfile& profile, ZeroValueWord word, double density) {
  return CoreSeconds(profile, 1'000'000'000, word, density);
}

void PrintTuningJson(const TuneOptions& options, const Tuning& tuning) {
  const CompressionProfile& profile = tuning.profile;
  const ZeroValueWord first = tuning.words.front().word;
  nlohmann::ordered_json json = {{"bytes", options.bytes},
                                 {"seconds", tuning.seconds},
                                 {"words", nlohmann::ordered_json::array()}};
  for (const WordMeasurement& word : tuning.words) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const CompressionTimes& times : word.measurement.times) rows.push_back(TimesJson(times));
    json["words"].push_back({{"word", BitsOf(word.word)},
                             {"rounds", word.measurement.rounds},
                             {"processor_share", word.measurement.processor_share},
                             {"measured", rows}});
  }
  json["busy"] = IsBusy(tuning);
  json["knee_threads"] = KneeOf(profile.speedups);
  json["threads"] = profile.threads;
  json["chunk_bytes"] = profile.chunk_bytes;
  json["core_seconds_per_gb"] = CoreSecondsPerGb(profile, first, MiddleDensity(tuning.densities));
  json["whole_buffers"] = StoresJson(tuning.stores);
  json["links"] = nlohmann::ordered_json::array();
  for (const LinkAnswer& link : tuning.links) {
    json["links"].push_back({{"link_bytes_per_second", link.link_bytes_per_second},
                             {"threads_to_keep_up", OrNull(link.threads_to_keep_up)},
                             {"cpu_share", link.cpu_share},
                             {"in_time_up_to_density", OrNull(link.in_time_up_to)},
                             {"pays_up_to_density", OrNull(link.pays_up_to)}});
  }
  json["profile"] = nlohmann::ordered_json::parse(CompressionProfileJson(profile));
  PrintJson(json);
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// The command `tune`: measures this machine, and recommends settings for it.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tidepool/copies/compression_profile.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/tuning_answer.h"
#include "trace_replay/options.h"
#include "trace_replay/progress.h"
#include "trace_replay/quantity.h"
#include "trace_replay/text.h"
#include "trace_replay/tune/compression_tuning.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
constexpr double kTimeLimitSeconds = 9;
constexpr double kStoresTimeLimitSeconds = 2;

std::string MachineName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1, 200)));
  }
  return "unknown processor";
}

int Processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Refuses a file that cannot be written before the measurement, not after it.
absl::Status CheckWritable(const std::string& path) {
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const bool is_file = !exists || !S_ISDIR(info.st_mode);
  if (is_file && access(folder.empty() ? "." : folder.c_str(), W_OK) == 0) return absl::OkStatus();
  if (is_file && exists && !S_ISREG(info.st_mode) && access(path.c_str(), W_OK) == 0) {
    return absl::OkStatus();
  }
  return AboutFile(
      path, absl::InvalidArgumentError("cannot be created, expected a file in a writable folder"));
}

absl::Status CheckMemory(std::int64_t bytes) {
  const auto memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (memory <= 0 || bytes <= memory / 4) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--bytes: ", SizeText(bytes),
                                                 ", expected at most a quarter of the memory of "
                                                 "this machine, ",
                                                 SizeText(memory)));
}

std::vector<ZeroValueWord> WordsOf(const TuneOptions& options) {
  if (options.word_bits == 16) return {ZeroValueWord::k16Bits};
  if (options.word_bits == 32) return {ZeroValueWord::k32Bits};
  return {ZeroValueWord::k32Bits, ZeroValueWord::k16Bits};
}

std::string ProgressText(ZeroValueWord word, int round, const CompressionSetting& setting) {
  return absl::StrFormat("measuring: %d-bit words, round %d, density %.2f, %d threads, %s",
                         BitsOf(word), round, setting.density, setting.threads,
                         SizeText(setting.chunk_bytes));
}

std::vector<double> LinksOf(const TuneOptions& options) {
  if (options.link_bytes_per_second > 0) return {options.link_bytes_per_second};
  return {4e9, 8e9, 12e9, 16e9, 24e9, 32e9, 64e9};
}

absl::StatusOr<Tuning> Measure(const TuneOptions& options) {
  Tuning tuning;
  tuning.densities = options.densities;
  std::sort(tuning.densities.begin(), tuning.densities.end());
  const std::vector<ZeroValueWord> words = WordsOf(options);
  Progress progress;
  for (const ZeroValueWord word : words) {
    MeasurementOptions measurement_options;
    measurement_options.word = word;
    measurement_options.bytes = options.bytes;
    measurement_options.time_limit_seconds = kTimeLimitSeconds / static_cast<double>(words.size());
    measurement_options.progress = [&](int round, const CompressionSetting& setting) {
      progress.Show(ProgressText(word, round, setting));
    };
    absl::StatusOr<CompressionMeasurement> measured = MeasureCompression(
        SettingsFor(tuning.densities, options.most_threads, options.bytes), measurement_options);
    if (!measured.ok()) return measured.status();
    tuning.words.push_back({word, *std::move(measured)});
  }
  MeasurementOptions stores_options;
  stores_options.word = words.front();
  stores_options.bytes = options.bytes;
  stores_options.time_limit_seconds = kStoresTimeLimitSeconds;
  progress.Show("measuring: whole buffers, with and without streaming stores");
  const auto stores = MeasureStores(MiddleDensity(tuning.densities), stores_options);
  if (!stores.ok()) return stores.status();
  tuning.stores = *stores;
  tuning.seconds = progress.Seconds();
  CompressionProfile defaults;
  defaults.machine = MachineName();
  defaults.instruction_set =
      std::string(ZeroValueInstructionSetName(ZeroValueInstructionSets().back()));
  defaults.processors = Processors();
  std::optional<double> link;
  if (options.link_bytes_per_second > 0) link = options.link_bytes_per_second;
  tuning.profile = ProfileFrom(tuning.words, tuning.densities, options.bytes, link, defaults);
  for (const double bytes_per_second : LinksOf(options)) {
    tuning.links.push_back(AnswerForLink(tuning.profile, words.front(),
                                         MiddleDensity(tuning.densities), bytes_per_second));
  }
  return tuning;
}

absl::StatusOr<Answer> RunTuneCompression(const TuneOptions& options) {
  if (absl::Status status = CheckJsonOutput(options.json, options.save, "profile"); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckMemory(options.bytes); !status.ok()) return status;
  if (!options.save.empty()) {
    if (absl::Status status = CheckWritable(options.save); !status.ok()) return status;
  }
  const absl::StatusOr<Tuning> tuning = Measure(options);
  if (!tuning.ok()) return tuning.status();
  const bool is_refused = !options.save.empty() && IsBusy(*tuning) && !options.force;
  if (!options.save.empty() && !is_refused) {
    absl::Status status = WriteCompressionProfile(tuning->profile, options.save);
    if (!status.ok()) return status;
  }
  if (options.json) {
    PrintTuningJson(options, *tuning);
  } else {
    PrintTuningTables(options, *tuning);
  }
  if (!is_refused) return Answer::kYes;
  std::cout.flush();
  std::cerr << absl::StreamFormat(
      "tidepool: %s: not saved: the machine is busy, threads had a processor %.0f %% of the time; "
      "measure again on an idle machine, or save with --force\n",
      absl::CHexEscape(options.save), ProcessorShare(*tuning) * 100);
  return Answer::kNo;
}

void AddMeasurementOptions(CLI::App& app, TuneOptions& options) {
  const std::string group = "Measurement";
  AddSizeOption(
      app, "--bytes", options.bytes,
      "Size of the buffers to compress, 64 KiB to 4 GiB (default: 256 MiB); small buffers "
      "stay in the cache")
      ->group(group)
      ->check([](const std::string& text) -> std::string {
        const absl::StatusOr<std::int64_t> bytes = ParseSize(text);
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes >= kLeastBytes && *bytes <= kMostBytes) return "";
        return absl::StrCat(*bytes, ", expected ", SizeText(kLeastBytes), " to ",
                            SizeText(kMostBytes));
      });
  app.add_option("--density", options.densities,
                 "A share of words that are not zero, 0 to 1; may be given several times (default: "
                 "0, 0.25, 0.5, 0.75 and 1)")
      ->allow_extra_args(false)
      ->type_name("NUMBER")
      ->group(group)
      ->check([](const std::string& text) -> std::string {
        double density = 0;
        if (absl::SimpleAtod(text, &density) && density >= 0 && density <= 1) return "";
        return absl::StrCat("'", absl::CHexEscape(text), "', expected a share from 0 to 1");
      });
  AddWholeOption(app, "--max-threads", options.most_threads,
                 {.least = 1, .most = kMaxZeroValueThreads},
                 "Measure 1, 2, ... threads, up to this number")
      ->default_str("the number of processors")
      ->group(group);
  app.add_option("--word", options.word_bits, "Bits of a word: 16 or 32 (default: both)")
      ->type_name("N")
      ->group(group)
      ->check([](const std::string& text) -> std::string {
        if (text == "16" || text == "32") return "";
        return absl::StrCat("'", absl::CHexEscape(text), "', expected 16 or 32");
      });
}

void AddAnswerOptions(CLI::App& app, TuneOptions& options) {
  AddRateOption(
      app, "--link", options.link_bytes_per_second,
      "Rate of the link between device and host in one direction, such as 12e9, 25GB/s or "
      "16GiB/s (default: a table of several rates)")
      ->check([](const std::string& text) -> std::string {
        const absl::StatusOr<double> rate = ParseRate(text);
        if (!rate.ok() || std::isfinite(*rate)) return "";
        return absl::StrCat("'", absl::CHexEscape(text),
                            "', expected bytes a second, more than 0 and finite");
      });
  app.add_option("--save", options.save,
                 "Write the profile to this file; the library reads the file that the environment "
                 "variable TIDEPOOL_COMPRESSION_PROFILE names")
      ->type_name("FILE");
  app.add_flag("--force", options.force,
               "Save the profile of a busy machine too; without this, it is not saved and the exit "
               "status is 2");
  AddJsonOption(app, options.json);
}

}  // namespace

Command AddTune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune =
      app.add_subcommand("tune", "Measures this machine, and recommends settings for it");
  tune->group("This machine");
  tune->require_subcommand(1);
  AddExamples(*tune, {"tidepool tune compression --save profile.json"});
  CLI::App* compression = tune->add_subcommand(
      "compression", "Measures compression; recommends threads and slot sizes");
  compression->group("Subjects");
  options->most_threads = std::min(Processors(), kMaxZeroValueThreads);
  AddMeasurementOptions(*compression, *options);
  AddAnswerOptions(*compression, *options);
  AddExamples(*compression, {"tidepool tune compression --save profile.json",
                             "tidepool tune compression --link 25GB/s --word 16"});
  return {tune, [options] { return RunTuneCompression(*options); }};
}

}  // namespace tidepool::tool

// tidepool tune: measures this machine and says what settings suit it.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
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
#include "tidepool/compress/compression_profile.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"
#include "trace_replay/tune/compression_tuning.h"

namespace tidepool::tool {
namespace {

constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
constexpr double kTimeLimitSeconds = 9;
// Of a text on standard error where somebody watches, and from when on.
constexpr double kProgressAfterSeconds = 1;

struct TuneOptions {
  std::int64_t bytes = std::int64_t{256} << 20;
  std::vector<double> densities = {0, 0.25, 0.5, 0.75, 1};
  int most_threads = 1;
  double link_bytes_per_second = 0;  // 0: not given
  int word_bits = 0;                 // 0: both
  std::string save;
  bool json = false;
};

struct Tuning {
  std::vector<WordMeasurement> words;
  CompressionProfile profile;
  std::vector<double> densities;  // ascending
  std::vector<LinkAnswer> links;
  double seconds = 0;
};

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

// A file that cannot be written is known before anything is measured.
absl::Status CheckPlace(const std::string& path) {
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const bool is_file = !exists || !S_ISDIR(info.st_mode);
  if (is_file && access(folder.empty() ? "." : folder.c_str(), W_OK) == 0) return absl::OkStatus();
  if (is_file && exists && !S_ISREG(info.st_mode) && access(path.c_str(), W_OK) == 0) {
    return absl::OkStatus();
  }
  return AboutFile(path,
                   absl::InvalidArgumentError("cannot be created, expected a place to write"));
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

int BitsOf(ZeroValueWord word) { return 8 * static_cast<int>(word); }

// A line on a terminal that is written over.
class Progress {
 public:
  ~Progress() {
    if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  void Show(ZeroValueWord word, int round, const CompressionSetting& setting) {
    if (!is_terminal_ || Seconds() < kProgressAfterSeconds) return;
    is_shown_ = true;
    std::cerr << absl::StreamFormat(
                     "\r\x1b[Kmeasuring: %d-bit words, round %d, density %.2f, %d threads, %s",
                     BitsOf(word), round, setting.density, setting.threads,
                     SizeText(setting.chunk_bytes))
              << std::flush;
  }
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
};

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
      progress.Show(word, round, setting);
    };
    absl::StatusOr<CompressionMeasurement> measured = MeasureCompression(
        SettingsFor(tuning.densities, options.most_threads, options.bytes), measurement_options);
    if (!measured.ok()) return measured.status();
    tuning.words.push_back({word, *std::move(measured)});
  }
  tuning.seconds = progress.Seconds();
  CompressionProfile otherwise;
  otherwise.machine = MachineName();
  otherwise.instruction_set =
      std::string(ZeroValueInstructionSetName(ZeroValueInstructionSets().back()));
  otherwise.processors = Processors();
  std::optional<double> link;
  if (options.link_bytes_per_second > 0) link = options.link_bytes_per_second;
  tuning.profile = ProfileFrom(tuning.words, tuning.densities, options.bytes, link, otherwise);
  for (const double bytes_per_second : LinksOf(options)) {
    tuning.links.push_back(AnswerForLink(tuning.profile, words.front(),
                                         MiddleDensity(tuning.densities), bytes_per_second));
  }
  return tuning;
}

// Gigabytes a second of all threads.
double Speed(const CompressionTimes& times, double ns) { return times.setting.threads / ns; }

double CoreSecondsPerGb(const CompressionProfile& profile, ZeroValueWord word, double density) {
  return CoreSeconds(profile, 1'000'000'000, word, density);
}

// As JSON. ---------------------------------------------------------------------------------------

nlohmann::ordered_json TimesJson(const CompressionTimes& times) {
  return {{"density", times.density},
          {"threads", times.setting.threads},
          {"chunk_bytes", times.setting.chunk_bytes},
          {"compressed_share", times.compressed_share},
          {"compress_bytes_per_second", Speed(times, times.compress_ns) * 1e9},
          {"decompress_bytes_per_second", Speed(times, times.decompress_ns) * 1e9},
          {"memcpy_bytes_per_second", Speed(times, times.copy_ns) * 1e9}};
}

nlohmann::ordered_json OrNull(const auto& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
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
  json["knee_threads"] = KneeOf(profile.speedups);
  json["threads"] = profile.threads;
  json["chunk_bytes"] = profile.chunk_bytes;
  json["core_seconds_per_gb"] = CoreSecondsPerGb(profile, first, MiddleDensity(tuning.densities));
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

// Below it, what others do on the machine is measured too.
constexpr double kQuiet = 0.9;

double ProcessorShare(const Tuning& tuning) {
  double share = 1;
  for (const WordMeasurement& word : tuning.words) {
    share = std::min(share, word.measurement.processor_share);
  }
  return share;
}

// As tables. -------------------------------------------------------------------------------------

std::string ThreadsText(int threads) {
  return absl::StrCat(threads, threads == 1 ? " thread" : " threads");
}
std::string SpeedText(double gigabytes) { return absl::StrFormat("%.2f", gigabytes); }
std::string ShareText(double share) { return absl::StrFormat("%.0f %%", share * 100); }
std::string DensityText(const std::optional<double>& density) {
  return density.has_value() ? absl::StrFormat("%.2f", *density) : "none";
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
  for (const std::string_view name : {"compress", "x memcpy", "decompress", "x memcpy", "memcpy"}) {
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

void PrintCosts(const Tuning& tuning, const WordMeasurement& word) {
  const CompressionCosts& costs = tuning.profile.CostsOf(word.word);
  std::cout << absl::StreamFormat(
      "  words of %d bits: compress %.3f + %.3f r, decompress %.3f + %.3f r ns a byte of a core, r "
      "as plain; words keep %s of their bits\n",
      BitsOf(word.word), costs.compress.a, costs.compress.b, costs.decompress.a, costs.decompress.b,
      ShareText(costs.packed_share));
}

void PrintLinks(const Tuning& tuning) {
  const double middle = MiddleDensity(tuning.densities);
  std::vector<std::vector<std::string>> rows = {
      {"link", "threads to keep up", "of the CPU", "no later than raw up to", "pays up to"}};
  for (const LinkAnswer& link : tuning.links) {
    rows.push_back({absl::StrFormat("%.4g GB/s", link.link_bytes_per_second / 1e9),
                    link.threads_to_keep_up ? absl::StrCat(*link.threads_to_keep_up)
                                            : absl::StrCat("> ", tuning.profile.speedups.size()),
                    ShareText(link.cpu_share), DensityText(link.in_time_up_to),
                    DensityText(link.pays_up_to)});
  }
  std::cout << absl::StreamFormat(
                   "when compressing pays, with %s (threads to keep up, and the share of "
                   "%d processors, at density %.2f)\n",
                   ThreadsText(tuning.profile.threads), tuning.profile.processors, middle)
            << TableText(rows);
}

void PrintTuning(const TuneOptions& options, const Tuning& tuning) {
  const CompressionProfile& profile = tuning.profile;
  const double middle = MiddleDensity(tuning.densities);
  std::cout << profile.machine << ", " << profile.processors << " processors, "
            << profile.instruction_set << "\n"
            << absl::StreamFormat("buffers of %s, medians, %.1f s\n\n", SizeText(options.bytes),
                                  tuning.seconds);
  if (ProcessorShare(tuning) < kQuiet) {
    std::cout << "the machine is busy: threads had a processor "
              << ShareText(ProcessorShare(tuning))
              << " of the time; measure again when it is not\n\n";
  }
  for (const WordMeasurement& word : tuning.words) PrintWord(options, tuning, word);
  std::cout << "cost\n";
  for (const WordMeasurement& word : tuning.words) PrintCosts(tuning, word);
  std::cout << absl::StreamFormat("  both ways at density %.2f: %.2f core-seconds a GB\n\n", middle,
                                  CoreSecondsPerGb(profile, tuning.words.front().word, middle));
  const int knee = KneeOf(profile.speedups);
  std::cout << absl::StreamFormat(
      "knee: %s, %.2f times as fast as one; one more brings less than %s of the first, or "
      "was not measured\n",
      ThreadsText(knee), Speedup(profile, knee), ShareText(kLeastGainOfThread));
  std::cout << "recommended: " << ThreadsText(profile.threads) << ", slots of "
            << SizeText(profile.chunk_bytes) << "\n\n";
  PrintLinks(tuning);
  if (!options.save.empty() && options.word_bits != 0) {
    std::cout << "\nwords of " << (options.word_bits == 16 ? 32 : 16)
              << " bits were not measured: the profile has what is assumed of any machine\n";
  }
}

absl::StatusOr<Answer> RunTuneCompression(const TuneOptions& options) {
  if (options.json && options.save == "/dev/stdout") {
    return absl::InvalidArgumentError(
        "--json: the profile goes to standard output, expected another file for it");
  }
  if (absl::Status status = CheckMemory(options.bytes); !status.ok()) return status;
  if (!options.save.empty()) {
    if (absl::Status status = CheckPlace(options.save); !status.ok()) return status;
  }
  const absl::StatusOr<Tuning> tuning = Measure(options);
  if (!tuning.ok()) return tuning.status();
  if (!options.save.empty()) {
    absl::Status status = WriteCompressionProfile(tuning->profile, options.save);
    if (!status.ok()) return status;
  }
  if (options.json) {
    PrintTuningJson(options, *tuning);
  } else {
    PrintTuning(options, *tuning);
  }
  return Answer::kYes;
}

// "25e9", "16GiB".
absl::StatusOr<double> ParseSpeed(const std::string& text) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && number > 0 && std::isfinite(number)) return number;
  const absl::StatusOr<std::int64_t> size = ParseSize(text);
  if (size.ok() && *size > 0) return static_cast<double>(*size);
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(text),
                   "' is no speed, expected bytes a second, more than 0, or a number "
                   "with KiB, MiB, GiB or TiB"));
}

void AddTuneOptions(CLI::App& app, TuneOptions& options) {
  options.most_threads = std::min(Processors(), kMaxZeroValueThreads);
  AddSizeOption(
      app, "--bytes", options.bytes,
      "Of the buffers that are compressed, 64 KiB to 4 GiB (default: 256 MiB); small ones "
      "stay in the cache")
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
      ->check([](const std::string& text) -> std::string {
        double density = 0;
        if (absl::SimpleAtod(text, &density) && density >= 0 && density <= 1) return "";
        return absl::StrCat("'", absl::CHexEscape(text), "', expected a share from 0 to 1");
      });
  app.add_option("--max-threads", options.most_threads,
                 "Measures 1, 2, ... up to so many (default: the number of processors)")
      ->check([](const std::string& text) -> std::string {
        int threads = 0;
        if (absl::SimpleAtoi(text, &threads) && threads >= 1 && threads <= kMaxZeroValueThreads) {
          return "";
        }
        return absl::StrCat("'", absl::CHexEscape(text), "', expected a whole number from 1 to ",
                            kMaxZeroValueThreads);
      });
  app.add_option_function<std::string>(
         "--link",
         [&options](const std::string& text) {
           const absl::StatusOr<double> speed = ParseSpeed(text);
           if (!speed.ok()) {
             throw CLI::ValidationError("--link", std::string(speed.status().message()));
           }
           options.link_bytes_per_second = *speed;
         },
         "Bytes a second between device and host, one direction (default: a table of links)")
      ->type_name("SIZE");
  app.add_option("--word", options.word_bits, "Bits of a word: 16 or 32 (default: both)")
      ->check(CLI::IsMember({16, 32}));
  app.add_option(
         "--save", options.save,
         "A file for the profile, which the library reads where TIDEPOOL_COMPRESSION_PROFILE "
         "names it")
      ->check([](const std::string& text) -> std::string {
        return text.empty() ? "'', expected the name of a file" : "";
      });
  app.add_flag("--json", options.json, "One JSON object");
}

}  // namespace

Command AddTune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune = app.add_subcommand("tune", "Measures this machine and says what suits it");
  tune->allow_extras();
  CLI::App* compression =
      tune->add_subcommand("compression", "Threads and slots for compressed offloading");
  AddTuneOptions(*compression, *options);
  return {tune, [options, tune, compression]() -> absl::StatusOr<Answer> {
            const std::vector<std::string> rest = tune->remaining(true);
            if (!compression->parsed()) {
              return absl::InvalidArgumentError(
                  absl::StrCat("tune: ", rest.empty() ? "nothing to tune" : "'" + rest[0] + "'",
                               ", expected one of: compression"));
            }
            if (rest.empty()) return RunTuneCompression(*options);
            return absl::InvalidArgumentError(
                absl::StrCat("tune compression: '", rest[0],
                             "', expected arguments as in 'tidepool tune compression --help'"));
          }};
}

}  // namespace tidepool::tool

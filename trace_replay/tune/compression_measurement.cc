// SPDX-License-Identifier: Apache-2.0
// Measures compression in rounds: each round has all settings, so a disturbance hits all of them.
#include "trace_replay/tune/compression_measurement.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/arithmetic.h"
#include "trace_replay/tune/median.h"

namespace tidepool::tool {
namespace {

using Clock = std::chrono::steady_clock;

// Slots of each thread, used in turn as in the pipeline.
constexpr std::size_t kSlots = 4;
constexpr std::size_t kPatternBytes = std::size_t{1} << 20;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::int64_t NsSince(Clock::time_point begin) {
  return std::chrono::nanoseconds(Clock::now() - begin).count();
}

// Returns the processor time of the calling thread.
std::int64_t ProcessorNs() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

absl::Status NoMemoryFor(std::size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for buffers of ", bytes, " bytes, expected fewer"));
}

struct Pattern {
  std::vector<std::byte> bytes;
  double density = 0;
};

// Returns absolute values of normal numbers, of which a share of `density` is kept and the rest is
// 0.
Pattern PatternOf(ZeroValueWord word, double density) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  Pattern pattern;
  pattern.bytes.resize(kPatternBytes);
  const auto word_bytes = static_cast<std::size_t>(word);
  std::size_t nonzero = 0;
  for (std::size_t at = 0; at < kPatternBytes; at += word_bytes) {
    auto bits = std::bit_cast<std::uint32_t>(std::abs(normal(random)));
    if (word_bytes == 2) bits >>= 16;  // bfloat16
    if (static_cast<double>(random() >> 11) * 0x1p-53 >= density) bits = 0;
    nonzero += bits != 0 ? 1 : 0;
    std::memcpy(pattern.bytes.data() + at, &bits, word_bytes);
  }
  pattern.density = static_cast<double>(nonzero * word_bytes) / static_cast<double>(kPatternBytes);
  return pattern;
}

// A buffer with its pages, at an address for streaming stores.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t bytes)
      : memory_(std::make_unique<std::byte[]>(bytes + kLine)), bytes_(bytes) {}

  absl::Span<std::byte> span() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.get());
    return {memory_.get() + (kLine - begin % kLine), bytes_};
  }

 private:
  static constexpr std::size_t kLine = 64;

  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_;
};

struct BufferSamples {
  std::vector<double> compress;
  std::vector<double> decompress;

  BufferTimes Medians(std::size_t bytes) const {
    const auto each = static_cast<double>(bytes);
    return {Median(compress) / each, Median(decompress) / each};
  }
};

// Codes a buffer once, there and back.
absl::Status Sample(ZeroValueCodec& codec, absl::Span<const std::byte> input,
                    absl::Span<std::byte> stream, absl::Span<std::byte> output,
                    BufferSamples& samples) {
  auto begin = Clock::now();
  const absl::StatusOr<std::size_t> bytes = codec.Compress(input, stream);
  if (!bytes.ok()) return bytes.status();
  samples.compress.push_back(static_cast<double>(NsSince(begin)));
  begin = Clock::now();
  const absl::StatusOr<std::size_t> restored = codec.Decompress(stream.subspan(0, *bytes), output);
  samples.decompress.push_back(static_cast<double>(NsSince(begin)));
  return restored.status();
}

class Measurer {
 public:
  explicit Measurer(const MeasurementOptions& options)
      : options_(options), bytes_(static_cast<std::size_t>(options.bytes)) {}

  absl::Status Prepare(const std::vector<CompressionSetting>& settings);
  // Measures a setting once, and appends the times to its samples.
  absl::Status Measure(const CompressionSetting& setting, bool check);

  struct Samples {
    double density = 0;
    double compressed_share = 0;
    std::vector<double> compress;
    std::vector<double> decompress;
    std::vector<double> copy;
  };
  Samples& samples(std::size_t setting) { return samples_[setting]; }
  double processor_share() const {
    std::int64_t work_ns = 0;
    std::int64_t processor_ns = 0;
    for (const Thread& thread : threads_) {
      work_ns += thread.work_ns;
      processor_ns += thread.processor_ns;
    }
    return work_ns == 0 ? 1 : static_cast<double>(processor_ns) / static_cast<double>(work_ns);
  }
  void Begin(std::size_t setting) { current_ = &samples_[setting]; }

 private:
  // The state of one thread.
  struct Thread {
    std::unique_ptr<ZeroValueCodec> codec;
    std::vector<std::byte> slots;
    std::int64_t busy_ns = 0;
    std::int64_t work_ns = 0;       // over all runs
    std::int64_t processor_ns = 0;  // over all runs
    absl::Status status;
  };
  using Task = std::function<void(Thread&, std::size_t piece, std::byte* slot)>;

  void Fill(double density);
  // Calls `task` for each piece on one of the threads. Returns the nanoseconds of a thread for a
  // byte.
  absl::StatusOr<double> Run(const CompressionSetting& setting, const Task& task);
  absl::StatusOr<double> Copy(const CompressionSetting& setting);
  absl::StatusOr<double> Compress(const CompressionSetting& setting);
  // Compares the output with the input if `check` is true.
  absl::StatusOr<double> Decompress(const CompressionSetting& setting, bool check);
  std::size_t Pieces() const { return CeilDivide(bytes_, chunk_); }
  absl::Span<std::byte> Piece(std::size_t piece) const {
    return {input_.get() + piece * chunk_, std::min(chunk_, bytes_ - piece * chunk_)};
  }
  std::byte* Stream(std::size_t piece) const {
    return streams_.get() + piece * ZeroValueBound(chunk_);
  }

  const MeasurementOptions& options_;
  const std::size_t bytes_;
  const int processors_ = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<Samples> samples_;
  Samples* current_ = nullptr;
  std::vector<Pattern> patterns_;
  std::vector<double> densities_;
  double filled_with_ = -1;
  double density_ = 0;
  std::size_t chunk_ = 0;
  std::unique_ptr<std::byte[]> input_;
  std::unique_ptr<std::byte[]> streams_;
  std::vector<std::size_t> stream_bytes_;
  std::vector<Thread> threads_;
};

absl::Status Measurer::Prepare(const std::vector<CompressionSetting>& settings) {
  int most_threads = 1;
  std::size_t most_chunk = kZeroValueBlockBytes;
  std::size_t stream_room = 0;
  for (const CompressionSetting& setting : settings) {
    most_threads = std::max(most_threads, setting.threads);
    const auto chunk = static_cast<std::size_t>(setting.chunk_bytes);
    most_chunk = std::max(most_chunk, chunk);
    const std::size_t pieces = CeilDivide(bytes_, chunk);
    stream_room = std::max(stream_room, pieces * ZeroValueBound(chunk));
  }
  samples_.resize(settings.size());
  try {
    // make_unique writes zeros: page faults must not be measured.
    input_ = std::make_unique<std::byte[]>(bytes_);
    streams_ = std::make_unique<std::byte[]>(stream_room);
    threads_.resize(static_cast<std::size_t>(most_threads));
    for (Thread& thread : threads_) thread.slots.resize(kSlots * most_chunk);
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(bytes_);
  }
  for (Thread& thread : threads_) {
    auto codec = ZeroValueCodec::Create(
        {.word = options_.word, .instruction_set = options_.instruction_set});
    if (!codec.ok()) return codec.status();
    thread.codec = *std::move(codec);
  }
  return absl::OkStatus();
}

void Measurer::Fill(double density) {
  if (filled_with_ == density) return;
  filled_with_ = density;
  auto found = std::find(densities_.begin(), densities_.end(), density);
  if (found == densities_.end()) {
    densities_.push_back(density);
    patterns_.push_back(PatternOf(options_.word, density));
    found = densities_.end() - 1;
  }
  const Pattern& pattern = patterns_[static_cast<std::size_t>(found - densities_.begin())];
  density_ = pattern.density;
  for (std::size_t at = 0; at < bytes_; at += kPatternBytes) {
    std::memcpy(input_.get() + at, pattern.bytes.data(), std::min(kPatternBytes, bytes_ - at));
  }
}

absl::StatusOr<double> Measurer::Run(const CompressionSetting& setting, const Task& task) {
  std::atomic<std::size_t> next = 0;
  const std::size_t pieces = Pieces();
  const auto work = [&](Thread& thread) {
    thread.busy_ns = 0;
    const auto begin = Clock::now();
    const std::int64_t processor_begin = ProcessorNs();
    std::size_t turn = 0;
    for (std::size_t piece = next++; piece < pieces; piece = next++) {
      task(thread, piece, thread.slots.data() + turn++ % kSlots * chunk_);
    }
    if (setting.threads > processors_) return;
    thread.work_ns += NsSince(begin);
    thread.processor_ns += ProcessorNs() - processor_begin;
  };
  std::vector<std::thread> others;
  absl::Status status;
  for (int i = 1; i < setting.threads && status.ok(); ++i) {
    try {
      others.emplace_back([&, i] { work(threads_[static_cast<std::size_t>(i)]); });
    } catch (const std::system_error& error) {
      status = absl::ResourceExhaustedError(absl::StrCat("thread ", i + 1, " of ", setting.threads,
                                                         " cannot be started (", error.what(),
                                                         "), expected fewer threads"));
    }
  }
  work(threads_[0]);
  for (std::thread& other : others) other.join();
  std::int64_t busy_ns = 0;
  for (int i = 0; i < setting.threads; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    busy_ns += thread.busy_ns;
    if (status.ok()) status = thread.status;
  }
  if (!status.ok()) return status;
  return static_cast<double>(busy_ns) / static_cast<double>(bytes_);
}

absl::StatusOr<double> Measurer::Copy(const CompressionSetting& setting) {
  return Run(setting, [&](Thread& thread, std::size_t piece, std::byte*) {
    const auto begin = Clock::now();
    std::memcpy(Stream(piece), Piece(piece).data(), Piece(piece).size());
    thread.busy_ns += NsSince(begin);
  });
}

absl::StatusOr<double> Measurer::Compress(const CompressionSetting& setting) {
  return Run(setting, [&](Thread& thread, std::size_t piece, std::byte* slot) {
    const std::size_t bytes = Piece(piece).size();
    std::memcpy(slot, Piece(piece).data(), bytes);
    const auto begin = Clock::now();
    const auto compressed =
        thread.codec->Compress({slot, bytes}, {Stream(piece), ZeroValueBound(chunk_)});
    thread.busy_ns += NsSince(begin);
    if (compressed.ok()) {
      stream_bytes_[piece] = *compressed;
    } else {
      thread.status = compressed.status();
    }
  });
}

absl::StatusOr<double> Measurer::Decompress(const CompressionSetting& setting, bool check) {
  return Run(setting, [&](Thread& thread, std::size_t piece, std::byte* slot) {
    const std::size_t bytes = Piece(piece).size();
    const auto begin = Clock::now();
    const auto done =
        thread.codec->Decompress({Stream(piece), stream_bytes_[piece]}, {slot, bytes});
    thread.busy_ns += NsSince(begin);
    if (!done.ok()) {
      thread.status = done.status();
    } else if (check && std::memcmp(slot, Piece(piece).data(), bytes) != 0) {
      thread.status = absl::InternalError(
          "decompression did not restore the input, expected equal bytes: check the memory of this "
          "machine");
    }
  });
}

absl::Status Measurer::Measure(const CompressionSetting& setting, bool check) {
  Fill(setting.density);
  chunk_ = static_cast<std::size_t>(setting.chunk_bytes);
  stream_bytes_.assign(Pieces(), 0);
  const absl::StatusOr<double> copy = Copy(setting);
  if (!copy.ok()) return copy.status();
  const absl::StatusOr<double> compress = Compress(setting);
  if (!compress.ok()) return compress.status();
  const absl::StatusOr<double> decompress = Decompress(setting, check);
  if (!decompress.ok()) return decompress.status();
  const std::size_t sum = absl::c_accumulate(stream_bytes_, std::size_t{0});
  current_->density = density_;
  current_->compressed_share = static_cast<double>(sum) / static_cast<double>(bytes_);
  current_->copy.push_back(*copy);
  current_->compress.push_back(*compress);
  current_->decompress.push_back(*decompress);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompressionMeasurement> MeasureCompression(
    const std::vector<CompressionSetting>& settings, const MeasurementOptions& options) {
  const auto begin = Clock::now();
  Measurer measurer(options);
  if (absl::Status status = measurer.Prepare(settings); !status.ok()) return status;
  CompressionMeasurement measurement;
  double longest_round = 0;
  while (measurement.rounds == 0 ||
         (measurement.rounds < options.most_rounds &&
          SecondsSince(begin) + longest_round < options.time_limit_seconds)) {
    const auto round_begin = Clock::now();
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (options.progress) options.progress(measurement.rounds + 1, settings[i]);
      measurer.Begin(i);
      absl::Status status = measurer.Measure(settings[i], measurement.rounds == 0);
      if (!status.ok()) return status;
    }
    ++measurement.rounds;
    longest_round = std::max(longest_round, SecondsSince(round_begin));
  }
  measurement.processor_share = std::min(1.0, measurer.processor_share());
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Measurer::Samples& samples = measurer.samples(i);
    const auto typical = [&options](const std::vector<double>& values) {
      return options.takes_best ? *std::min_element(values.begin(), values.end()) : Median(values);
    };
    measurement.times.push_back({settings[i], samples.density, samples.compressed_share,
                                 typical(samples.compress), typical(samples.decompress),
                                 typical(samples.copy)});
  }
  return measurement;
}

absl::StatusOr<StoresMeasurement> MeasureStores(double density, const MeasurementOptions& options) {
  const auto begin = Clock::now();
  const auto bytes = static_cast<std::size_t>(options.bytes);
  const Pattern pattern = PatternOf(options.word, density);
  std::optional<AlignedBuffer> buffers[3];
  try {
    buffers[0].emplace(bytes);
    buffers[1].emplace(ZeroValueBound(bytes));
    buffers[2].emplace(bytes);
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(bytes);
  }
  const auto [input, stream, output] =
      std::array{buffers[0]->span(), buffers[1]->span(), buffers[2]->span()};
  for (std::size_t at = 0; at < bytes; at += kPatternBytes) {
    std::memcpy(input.data() + at, pattern.bytes.data(), std::min(kPatternBytes, bytes - at));
  }
  ZeroValueOptions codec_options = {.word = options.word,
                                    .instruction_set = options.instruction_set};
  const auto cached = ZeroValueCodec::Create(codec_options);
  codec_options.streaming_stores = true;
  const auto streaming = ZeroValueCodec::Create(codec_options);
  if (!cached.ok() || !streaming.ok()) return cached.ok() ? streaming.status() : cached.status();
  BufferSamples of_cached;
  BufferSamples of_streaming;
  for (int round = 0; round == 0 || (round < options.most_rounds &&
                                     SecondsSince(begin) < options.time_limit_seconds);
       ++round) {
    absl::Status status = Sample(**cached, input, stream, output, of_cached);
    status.Update(Sample(**streaming, input, stream, output, of_streaming));
    if (!status.ok()) return status;
  }
  return StoresMeasurement{pattern.density, of_cached.Medians(bytes), of_streaming.Medians(bytes)};
}

}  // namespace tidepool::tool

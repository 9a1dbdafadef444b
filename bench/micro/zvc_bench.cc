// SPDX-License-Identifier: Apache-2.0
// Benchmark of the codec against memcpy on the same buffers. Results are medians over rounds in
// which every subject takes its turn, so that a disturbance affects all alike.
//
// For each word size, density, instruction set and number of threads it prints the compressed size,
// the speeds in GB/s of input and in multiples of memcpy on one core, and the processor time of
// both directions together. At the end it prints a table of goals. The speed of memcpy on all
// threads is the limit of the memory, which no number of threads exceeds.
//
//   zvc_bench [MIB [ROUNDS [THREADS]]]     defaults: 256 MiB, 9 rounds, 2 threads
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lib/copies/zvc/worker_pool.h"
#include "tidepool/copies/zero_value_codec.h"
#ifdef TIDEPOOL_HAS_LZ4
#include <lz4.h>
#endif
#ifdef TIDEPOOL_HAS_ZSTD
#include <zstd.h>
#endif

namespace {

using tidepool::ZeroValueCodec;
using tidepool::ZeroValueInstructionSet;
using tidepool::ZeroValueMode;
using tidepool::ZeroValueWord;
using tidepool::zvc::WorkerPool;

constexpr std::size_t kAlignment = 4096;

void Check(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "zvc_bench: %s failed\n", what);
  std::exit(1);
}

// Buffer aligned to a page, like buffers of its size from malloc.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(
            std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment))) {
    Check(data_ != nullptr, "aligned_alloc");
    std::memset(data_.get(), 1, bytes);
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }
  absl::Span<std::byte> span() const { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

// Fills a buffer with normal numbers after a ReLU.
void Fill(const Buffer& buffer, ZeroValueWord word, double density) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const std::size_t word_bytes = static_cast<std::size_t>(word);
  // Distinct values: enough that repetitions are far beyond the window of a peer.
  constexpr std::size_t kMostDistinct = std::size_t{1} << 24;
  const std::size_t distinct = std::min(buffer.size(), kMostDistinct);
  const auto limit = static_cast<std::uint64_t>(density * 0x1p32);
  for (std::size_t at = 0; at < distinct; at += word_bytes) {
    const bool is_set = (random() >> 32) < limit;
    const float number = is_set ? std::abs(normal(random)) : 0.0F;
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    if (word_bytes == 2) bits >>= 16;
    std::memcpy(buffer.data() + at, &bits, word_bytes);
  }
  for (std::size_t at = distinct; at < buffer.size(); at += distinct) {
    std::memcpy(buffer.data() + at, buffer.data(), std::min(distinct, buffer.size() - at));
  }
}

struct Times {
  std::vector<double> wall;
  std::vector<double> processor;
};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Measure(Times& times, const std::function<void()>& work) {
  const double processor_begin = ProcessorSeconds();
  const auto begin = std::chrono::steady_clock::now();
  work();
  times.wall.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  times.processor.push_back(ProcessorSeconds() - processor_begin);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Compressor: compress() returns the bytes that it writes to its buffer.
struct Subject {
  std::string name;
  int threads = 1;
  std::function<std::size_t(const Buffer& input, const Buffer& stream)> compress;
  std::function<void(const Buffer& stream, std::size_t bytes, const Buffer& output)> decompress;
  std::size_t bytes = 0;
  Times compress_times = {};
  Times decompress_times = {};
};

Subject CodecSubject(const tidepool::ZeroValueOptions& options) {
  auto created = ZeroValueCodec::Create(options);
  Check(created.ok(), "Create");
  const std::shared_ptr<ZeroValueCodec> codec = *std::move(created);
  std::string name(ZeroValueInstructionSetName(codec->instruction_set()));
  if (options.mode == ZeroValueMode::kPlain) name += " plain";
  if (options.streaming_stores) name += " stream";
  return {.name = name,
          .threads = options.threads,
          .compress =
              [codec](const Buffer& input, const Buffer& stream) {
                return codec->Compress(input.span(), stream.span()).value();
              },
          .decompress =
              [codec](const Buffer& stream, std::size_t bytes, const Buffer& output) {
                const auto compressed = stream.span().subspan(0, bytes);
                Check(codec->Decompress(compressed, output.span()).ok(), "Decompress");
              }};
}

#ifdef TIDEPOOL_HAS_LZ4
Subject Lz4Subject() {
  return {.name = "lz4",
          .compress =
              [](const Buffer& input, const Buffer& stream) {
                const int bytes = LZ4_compress_default(reinterpret_cast<const char*>(input.data()),
                                                       reinterpret_cast<char*>(stream.data()),
                                                       static_cast<int>(input.size()),
                                                       static_cast<int>(stream.size()));
                Check(bytes > 0, "LZ4_compress_default");
                return static_cast<std::size_t>(bytes);
              },
          .decompress =
              [](const Buffer& stream, std::size_t bytes, const Buffer& output) {
                const int written =
                    LZ4_decompress_safe(reinterpret_cast<const char*>(stream.data()),
                                        reinterpret_cast<char*>(output.data()),
                                        static_cast<int>(bytes), static_cast<int>(output.size()));
                Check(written == static_cast<int>(output.size()), "LZ4_decompress_safe");
              }};
}
#endif

#ifdef TIDEPOOL_HAS_ZSTD
Subject ZstdSubject() {
  return {.name = "zstd -1",
          .compress =
              [](const Buffer& input, const Buffer& stream) {
                const std::size_t bytes =
                    ZSTD_compress(stream.data(), stream.size(), input.data(), input.size(), 1);
                Check(ZSTD_isError(bytes) == 0, "ZSTD_compress");
                return bytes;
              },
          .decompress =
              [](const Buffer& stream, std::size_t bytes, const Buffer& output) {
                const std::size_t written =
                    ZSTD_decompress(output.data(), output.size(), stream.data(), bytes);
                Check(written == output.size(), "ZSTD_decompress");
              }};
}
#endif

std::vector<Subject> Subjects(ZeroValueWord word, int most_threads) {
  std::vector<Subject> subjects;
  for (const auto set : tidepool::ZeroValueInstructionSets()) {
    // 32-bit words use the code of kAvx512.
    if (word == ZeroValueWord::k32Bits && set == ZeroValueInstructionSet::kAvx512Vbmi2) continue;
    for (int threads = 1; threads <= most_threads; threads *= 2) {
      subjects.push_back(CodecSubject({.word = word, .threads = threads, .instruction_set = set}));
    }
  }
  for (int threads = 1; threads <= most_threads; threads *= 2) {
    subjects.push_back(CodecSubject({.word = word, .threads = threads, .streaming_stores = true}));
  }
  subjects.push_back(CodecSubject({.word = word, .mode = ZeroValueMode::kPlain}));
#ifdef TIDEPOOL_HAS_LZ4
  subjects.push_back(Lz4Subject());
#endif
#ifdef TIDEPOOL_HAS_ZSTD
  subjects.push_back(ZstdSubject());
#endif
  return subjects;
}

// Copies part by part on all threads.
void CopyWith(WorkerPool& pool, const Buffer& from, const Buffer& to) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  std::atomic<std::size_t> next = 0;
  pool.RunWithAll([&] {
    for (;;) {
      const std::size_t begin = next.fetch_add(kPiece);
      if (begin >= from.size()) return;
      std::memcpy(to.data() + begin, from.data() + begin, std::min(kPiece, from.size() - begin));
    }
  });
}

// Result of one subject with one input, in multiples of memcpy.
struct Result {
  ZeroValueWord word;
  double density;
  std::string name;
  int threads;
  double size;
  double compress;
  double decompress;
  double core_seconds;  // for a GB of input, both directions
};

class Benchmark {
 public:
  Benchmark(std::size_t bytes, int rounds, int threads)
      : rounds_(rounds),
        threads_(threads),
        input_(bytes),
        stream_(tidepool::ZeroValueBound(bytes) + bytes / 64 + 1024),  // large enough for the peers
        output_(bytes) {
    auto pool = WorkerPool::Create(threads - 1);
    Check(pool.ok(), "starting threads");
    pool_ = *std::move(pool);
  }

  void Run(ZeroValueWord word, double density) {
    Fill(input_, word, density);
    std::vector<Subject> subjects = Subjects(word, threads_);
    Times copy;
    Times copy_of_all;
    for (int round = 0; round < rounds_; ++round) {
      Measure(copy, [&] { std::memcpy(stream_.data(), input_.data(), input_.size()); });
      Measure(copy_of_all, [&] { CopyWith(*pool_, input_, stream_); });
      for (Subject& subject : subjects) RunOnce(subject, round == 0);
    }
    PrintCopy(word, density, 1, Median(copy.wall), Median(copy.wall));
    PrintCopy(word, density, threads_, Median(copy_of_all.wall), Median(copy.wall));
    for (const Subject& subject : subjects) Print(subject, word, density, Median(copy.wall));
    std::fflush(stdout);
  }

  const std::vector<Result>& results() const { return results_; }

 private:
  double Gigabytes() const { return static_cast<double>(input_.size()) / 1e9; }

  void RunOnce(Subject& subject, bool is_checked) {
    Measure(subject.compress_times, [&] { subject.bytes = subject.compress(input_, stream_); });
    Measure(subject.decompress_times, [&] { subject.decompress(stream_, subject.bytes, output_); });
    if (is_checked) Check(std::memcmp(output_.data(), input_.data(), input_.size()) == 0, "return");
  }

  static const char* NameOf(ZeroValueWord word) {
    return word == ZeroValueWord::k16Bits ? "bfloat16" : "float32";
  }

  void PrintCopy(ZeroValueWord word, double density, int threads, double seconds,
                 double seconds_alone) const {
    std::printf("%-8s %4.2f  %-19s x%d               %6.2f GB/s %5.2fx\n", NameOf(word), density,
                "memcpy", threads, Gigabytes() / seconds, seconds_alone / seconds);
  }

  void Print(const Subject& subject, ZeroValueWord word, double density, double copy) {
    const double compress = Median(subject.compress_times.wall);
    const double decompress = Median(subject.decompress_times.wall);
    const double processor =
        Median(subject.compress_times.processor) + Median(subject.decompress_times.processor);
    const Result result = {
        .word = word,
        .density = density,
        .name = subject.name,
        .threads = subject.threads,
        .size = static_cast<double>(subject.bytes) / static_cast<double>(input_.size()),
        .compress = copy / compress,
        .decompress = copy / decompress,
        .core_seconds = processor / Gigabytes()};
    std::printf(
        "%-8s %4.2f  %-19s x%d  size %.4f  compress %6.2f GB/s %5.2fx  decompress %6.2f GB/s "
        "%5.2fx  %.3f core-s/GB\n",
        NameOf(word), density, result.name.c_str(), result.threads, result.size,
        Gigabytes() / compress, result.compress, Gigabytes() / decompress, result.decompress,
        result.core_seconds);
    results_.push_back(result);
  }

  const int rounds_;
  const int threads_;
  const Buffer input_;
  const Buffer stream_;
  const Buffer output_;
  std::unique_ptr<WorkerPool> pool_;
  std::vector<Result> results_;
};

// Goal for float32, compared with the worst of its results.
struct Goal {
  const char* text;
  const char* name;
  double least_density;
  double most_density;
  double Result::*value;
  double goal;
  int threads = 1;
  bool is_most = false;  // false: at least
};

constexpr Goal kGoals[] = {
    {"compress, to 0.50", "avx512", 0, 0.5, &Result::compress, 1.2},
    {"compress, 0.75", "avx512", 0.75, 0.75, &Result::compress, 1.0},
    {"compress, 1.00", "avx512", 1, 1, &Result::compress, 0.8},
    {"decompress, to 0.50", "avx512", 0, 0.5, &Result::decompress, 1.15},
    {"decompress, any", "avx512", 0, 1, &Result::decompress, 0.75},
    {"compress, to 0.50", "avx2", 0, 0.5, &Result::compress, 1.05},
    {"compress, to 0.50", "scalar", 0, 0.5, &Result::compress, 0.35},
    {"core-seconds per GB", "avx512", 0, 1, &Result::core_seconds, 0.35, 1, true},
    {"core-seconds per GB", "avx512", 0, 1, &Result::core_seconds, 0.35, 2, true},
    {"size, 0.00", "avx512", 0, 0, &Result::size, 0.001, 1, true},
    {"size, 0.25", "avx512", 0.25, 0.25, &Result::size, 0.26, 1, true},
    {"size, 0.50", "avx512", 0.5, 0.5, &Result::size, 0.47, 1, true},
    {"size, 1.00", "avx512", 1, 1, &Result::size, 0.86, 1, true},
};

void PrintGoals(const std::vector<Result>& results) {
  std::printf("\nfloat32, multiples of memcpy on one core%22s goal  worst\n", "");
  for (const Goal& goal : kGoals) {
    std::vector<double> values;
    for (const Result& result : results) {
      if (result.word == ZeroValueWord::k32Bits && result.name == goal.name &&
          result.threads == goal.threads && result.density >= goal.least_density &&
          result.density <= goal.most_density) {
        values.push_back(result.*goal.value);
      }
    }
    if (values.empty()) continue;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const double worst = goal.is_most ? *most : *least;
    const bool is_met = goal.is_most ? worst <= goal.goal : worst >= goal.goal;
    std::printf("%-22s %-8s x%d %25s %5.3f %6.3f%s\n", goal.text, goal.name, goal.threads,
                goal.is_most ? "at most" : "at least", goal.goal, worst, is_met ? "" : "  missed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [argc, argv](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  const std::size_t bytes = static_cast<std::size_t>(std::clamp(argument(1, 256), 1, 1024)) << 20;
  const int rounds = std::max(argument(2, 9), 1);
  const int threads = std::clamp(argument(3, 2), 1, tidepool::kMaxZeroValueThreads);
  Benchmark benchmark(bytes, rounds, threads);
  for (const auto word : {ZeroValueWord::k32Bits, ZeroValueWord::k16Bits}) {
    for (const double density : {0.0, 0.25, 0.5, 0.75, 1.0}) benchmark.Run(word, density);
  }
  PrintGoals(benchmark.results());
  return 0;
}

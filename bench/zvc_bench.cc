// The codec beside memcpy on the same buffers: medians over rounds in which every way of copying
// takes its turn, so that a disturbance hits all alike. Prints for each kind of words, share of
// words that are not zero, instruction set and number of threads the size and the speeds in GB/s of
// input and as multiples of memcpy on one core.
//
//   zvc_bench [MIB [ROUNDS [THREADS]]]     256 MiB, 7 rounds and 2 threads when not given
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tidepool/zero_value_codec.h"

namespace {

using tidepool::ZeroValueCodec;
using tidepool::ZeroValueWord;
using Buffer = std::vector<std::byte>;

void Check(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "zvc_bench: %s failed\n", what);
  std::exit(1);
}

// Normal numbers as a ReLU leaves them; where all are wanted, without their signs.
void Fill(Buffer& buffer, ZeroValueWord word, double density) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(1 << 16);
  for (float& number : numbers) number = std::abs(normal(random));
  const std::size_t word_bytes = static_cast<std::size_t>(word);
  const auto limit = static_cast<std::uint64_t>(density * 0x1p32);
  for (std::size_t at = 0; at < buffer.size(); at += word_bytes) {
    const std::uint64_t draw = random();
    const bool is_set = (draw >> 32) < limit;
    std::uint32_t bits;
    std::memcpy(&bits, &numbers[draw & 0xffff], sizeof(bits));
    // The numbers repeat, their last bits do not.
    bits ^= static_cast<std::uint32_t>(draw >> 16 & 0xffff);
    if (word_bytes == 2) bits >>= 16;
    if (!is_set) bits = 0;
    std::memcpy(buffer.data() + at, &bits, word_bytes);
  }
}

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Subject {
  std::unique_ptr<ZeroValueCodec> codec;
  std::size_t bytes = 0;
  std::vector<double> compress_seconds;
  std::vector<double> decompress_seconds;
};

std::vector<Subject> Subjects(ZeroValueWord word, int most_threads) {
  std::vector<Subject> subjects;
  for (const auto set : tidepool::ZeroValueInstructionSets()) {
    // The same code for these words.
    if (word == ZeroValueWord::k32Bits && set == tidepool::ZeroValueInstructionSet::kAvx512Vbmi2) {
      continue;
    }
    for (int threads = 1; threads <= most_threads; threads *= 2) {
      auto codec =
          ZeroValueCodec::Create({.word = word, .threads = threads, .instruction_set = set});
      Check(codec.ok(), "Create");
      subjects.push_back({.codec = *std::move(codec)});
    }
  }
  auto plain = ZeroValueCodec::Create({.word = word, .mode = tidepool::ZeroValueMode::kPlain});
  subjects.push_back({.codec = *std::move(plain)});
  return subjects;
}

void Measure(const Buffer& input, ZeroValueWord word, double density, int rounds, int threads,
             Buffer& stream, Buffer& output) {
  std::vector<Subject> subjects = Subjects(word, threads);
  std::vector<double> copy_seconds;
  for (int round = 0; round < rounds; ++round) {
    copy_seconds.push_back(
        Seconds([&] { std::memcpy(stream.data(), input.data(), input.size()); }));
    for (Subject& subject : subjects) {
      subject.compress_seconds.push_back(Seconds(
          [&] { subject.bytes = subject.codec->Compress(input, absl::MakeSpan(stream)).value(); }));
      subject.decompress_seconds.push_back(Seconds([&] {
        const auto bytes = absl::MakeConstSpan(stream).subspan(0, subject.bytes);
        Check(subject.codec->Decompress(bytes, absl::MakeSpan(output)).ok(), "Decompress");
      }));
      if (round == 0) Check(output == input, "the round trip");
    }
  }
  const double copy = Median(copy_seconds);
  const double gigabytes = static_cast<double>(input.size()) / 1e9;
  const char* const kind = word == ZeroValueWord::k16Bits ? "bfloat16" : "float32";
  std::printf("%-8s %4.2f  %-12s %7s  %7.2f GB/s\n", kind, density, "memcpy", "", gigabytes / copy);
  for (const Subject& subject : subjects) {
    const auto& options = subject.codec->options();
    const std::string name(ZeroValueInstructionSetName(subject.codec->instruction_set()));
    const bool is_plain = options.mode == tidepool::ZeroValueMode::kPlain;
    const double compress = Median(subject.compress_seconds);
    const double decompress = Median(subject.decompress_seconds);
    std::printf(
        "%-8s %4.2f  %-12s x%d %s  size %.4f  compress %6.2f GB/s %5.2fx  decompress "
        "%6.2f GB/s %5.2fx\n",
        kind, density, name.c_str(), options.threads, is_plain ? "plain " : "packed",
        static_cast<double>(subject.bytes) / static_cast<double>(input.size()),
        gigabytes / compress, copy / compress, gigabytes / decompress, copy / decompress);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [argc, argv](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  const std::size_t bytes = static_cast<std::size_t>(std::max(argument(1, 256), 1)) << 20;
  const int rounds = std::max(argument(2, 7), 1);
  const int threads = std::clamp(argument(3, 2), 1, tidepool::kMaxZeroValueThreads);
  Buffer input(bytes);
  Buffer stream(tidepool::ZeroValueBound(bytes), std::byte{1});
  Buffer output(bytes, std::byte{1});
  for (const auto word : {ZeroValueWord::k32Bits, ZeroValueWord::k16Bits}) {
    for (const double density : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      Fill(input, word, density);
      Measure(input, word, density, rounds, threads, stream, output);
    }
  }
  return 0;
}

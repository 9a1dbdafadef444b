// SPDX-License-Identifier: Apache-2.0
// Stratified sample: one line out of each of n equal parts. The addresses ascend, so they can be
// prefetched, and neighbouring lines are not counted twice. Such a sample is never worse than a
// simple one by more than rounding, so the variance between all lines bounds its error.
#include "tidepool/copies/density_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool {
namespace {

constexpr std::size_t kLineBytes = 64;
// Buffers with fewer lines in each part are counted completely.
constexpr std::size_t kLeastLinesPerPart = 4;
// Distance between prefetching and counting a line.
constexpr std::size_t kLinesAhead = 32;

template <typename Word>
std::size_t CountNonzero(const std::byte* line) {
  std::array<Word, kLineBytes / sizeof(Word)> words;
  std::memcpy(words.data(), line, kLineBytes);
  std::size_t count = 0;
  for (const Word word : words) count += word != 0 ? 1 : 0;
  return count;
}

std::size_t CountLine(const std::byte* line, ZeroValueWord word) {
  return word == ZeroValueWord::k16Bits ? CountNonzero<std::uint16_t>(line)
                                        : CountNonzero<std::uint32_t>(line);
}

// Counts the non-zero words of less than a line.
std::size_t CountRest(absl::Span<const std::byte> rest, ZeroValueWord word) {
  std::array<std::byte, kLineBytes> line = {};
  std::copy(rest.begin(), rest.end(), line.begin());
  return CountLine(line.data(), word);
}

// Returns the bytes up to the next cache line; 0 if that would cut a word.
std::size_t BytesToLine(const std::byte* begin, std::size_t word_bytes) {
  const std::size_t bytes = -reinterpret_cast<std::uintptr_t>(begin) % kLineBytes;
  return bytes % word_bytes == 0 ? bytes : 0;
}

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  // Returns the next number in [0, 1).
  double Fraction() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// Sums of the non-zero words in the lines of a sample.
struct Sample {
  std::size_t lines = 0;
  std::size_t sum = 0;
  std::size_t sum_of_squares = 0;
  void Add(std::size_t count) {
    ++lines;
    sum += count;
    sum_of_squares += count * count;
  }
};

Sample TakeSample(const std::byte* begin, std::size_t lines, std::size_t parts,
                  const DensityProbeOptions& options) {
  SplitMix random(options.seed);
  // Unaligned lines lie in two cache lines each.
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(begin) % kLineBytes == 0;
  const double part = static_cast<double>(lines) / static_cast<double>(parts);
  std::array<const std::byte*, kLinesAhead> ahead;
  Sample sample;
  for (std::size_t i = 0; i < parts + kLinesAhead; ++i) {
    const std::byte*& address = ahead[i % kLinesAhead];
    if (i >= kLinesAhead) sample.Add(CountLine(address, options.word));
    if (i >= parts) continue;
    const auto line = static_cast<std::size_t>((static_cast<double>(i) + random.Fraction()) * part);
    address = begin + std::min(line, lines - 1) * kLineBytes;
    __builtin_prefetch(address);
    if (!is_aligned) __builtin_prefetch(address + kLineBytes - 1);
  }
  return sample;
}

// Returns the error of the estimated density (see DensityEstimate::error).
double ErrorOf(const Sample& sample, double words_per_line) {
  const auto n = static_cast<double>(sample.lines);
  const double mean = static_cast<double>(sample.sum) / n;
  const double squares = static_cast<double>(sample.sum_of_squares) / n;
  const double variance = std::max(0.0, squares - mean * mean) * n / (n - 1);
  return 2 * std::sqrt(variance / n) / words_per_line + 3 / n;
}

absl::Status CheckProbe(const DensityProbeOptions& options) {
  if (options.word != ZeroValueWord::k16Bits && options.word != ZeroValueWord::k32Bits) {
    return absl::InvalidArgumentError(
        absl::StrCat("words of ", static_cast<int>(options.word), " bytes, expected 2 or 4"));
  }
  if (options.lines < kLeastProbeLines || options.lines > kMostProbeLines) {
    return absl::InvalidArgumentError(absl::StrCat(options.lines, " lines, expected ",
                                                   kLeastProbeLines, " to ", kMostProbeLines));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DensityEstimate> ProbeDensity(absl::Span<const std::byte> buffer,
                                             const DensityProbeOptions& options) {
  if (absl::Status status = CheckProbe(options); !status.ok()) return status;
  const std::size_t word_bytes = static_cast<std::size_t>(options.word);
  const std::size_t words_per_line = kLineBytes / word_bytes;
  // Words before the first whole cache line and after the last.
  const std::size_t head_bytes = std::min(BytesToLine(buffer.data(), word_bytes), buffer.size());
  const absl::Span<const std::byte> head = buffer.first(head_bytes);
  const std::size_t lines = (buffer.size() - head_bytes) / kLineBytes;
  const absl::Span<const std::byte> body = buffer.subspan(head_bytes, lines * kLineBytes);
  const absl::Span<const std::byte> rest = buffer.subspan(head_bytes + lines * kLineBytes);
  const std::size_t rest_words =
      CeilDivide(head.size(), word_bytes) + CeilDivide(rest.size(), word_bytes);
  const auto words = static_cast<double>(lines * words_per_line + rest_words);
  DensityEstimate estimate;
  if (buffer.empty()) {
    estimate.is_exact = true;
    return estimate;
  }
  const auto parts = static_cast<std::size_t>(options.lines);
  estimate.is_exact = lines <= parts * kLeastLinesPerPart;
  Sample sample;
  double nonzero_words = 0;
  if (estimate.is_exact) {
    for (std::size_t line = 0; line < lines; ++line) {
      sample.Add(CountLine(body.data() + line * kLineBytes, options.word));
    }
    nonzero_words = static_cast<double>(sample.sum);
  } else {
    sample = TakeSample(body.data(), lines, parts, options);
    nonzero_words =
        static_cast<double>(sample.sum) / static_cast<double>(parts) * static_cast<double>(lines);
    estimate.error = ErrorOf(sample, static_cast<double>(words_per_line));
  }
  nonzero_words +=
      static_cast<double>(CountRest(head, options.word) + CountRest(rest, options.word));
  estimate.density = nonzero_words / words;
  estimate.counted_words = static_cast<std::int64_t>(sample.lines * words_per_line + rest_words);
  return estimate;
}

}  // namespace tidepool

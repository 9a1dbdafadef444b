// How many words of a buffer are not zero, from a sample of its cache lines: what zero-value
// compression of it would give (zero_value_codec.h), at a small part of the time that takes.
#ifndef TIDEPOOL_COMPRESS_DENSITY_PROBE_H_
#define TIDEPOOL_COMPRESS_DENSITY_PROBE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/compress/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

struct DensityProbeOptions {
  // As the codec has them: -0.0 is not zero, and zeros follow an end that is no whole word.
  ZeroValueWord word = ZeroValueWord::k32Bits;
  // Of 64 bytes each, that are looked at: kLeastProbeLines to kMostProbeLines. Twice the error
  // needs a quarter of them.
  int lines = 1024;
  // Which lines. The same seed takes the same lines of buffers of the same size.
  std::uint64_t seed = 1;
};

inline constexpr int kLeastProbeLines = 64;
inline constexpr int kMostProbeLines = 1 << 20;

struct DensityEstimate {
  double density = 0;  // words that are not zero / words, 0 to 1; 0 for an empty buffer
  // The density of the whole buffer is within `density` -+ `error` for 95 of 100 seeds at least;
  // 0 when every word was counted. It is
  //     2 s / sqrt(n) + 3 / n
  // for n lines, where s is the standard deviation of the densities of the lines. The first term is
  // the normal approximation, whatever the clusters. The second is for what no sample shows, when
  // few lines differ from all others: none among n of them says with 95 % that fewer than 3 / n of
  // all do (Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 1983).
  double error = 0;
  std::int64_t counted_words = 0;
  bool is_exact = false;  // every word was counted
};

// Looks at one line out of each of options.lines equal parts of the buffer, at a place that is
// drawn, from front to back. Buffers of up to four times so many lines are counted whole, and the
// words at both ends that fill no line always are. Thread-safe. O(options.lines).
// InvalidArgument for options out of range.
TIDEPOOL_EXPORT absl::StatusOr<DensityEstimate> ProbeDensity(absl::Span<const std::byte> buffer,
                                                             const DensityProbeOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_COMPRESS_DENSITY_PROBE_H_

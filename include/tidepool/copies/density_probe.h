// SPDX-License-Identifier: Apache-2.0
// Density probe: estimates the share of non-zero words of a buffer from a sample of its cache
// lines. The estimate predicts how far zero-value compression shrinks the buffer
// (zero_value_codec.h), in a small part of the time.
#ifndef TIDEPOOL_COPIES_DENSITY_PROBE_H_
#define TIDEPOOL_COPIES_DENSITY_PROBE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

struct DensityProbeOptions {
  // Size of a word. Zero is defined as in the codec: -0.0 is not zero, and zeros complete the last
  // word.
  ZeroValueWord word = ZeroValueWord::k32Bits;
  // Number of sampled lines of 64 bytes: kLeastProbeLines to kMostProbeLines. A quarter of the
  // lines doubles the error.
  int lines = 1024;
  // Seed of the choice of lines. Equal seeds choose the same lines in buffers of equal size.
  std::uint64_t seed = 1;
};

inline constexpr int kLeastProbeLines = 64;
inline constexpr int kMostProbeLines = 1 << 20;

struct DensityEstimate {
  double density = 0;  // words that are not zero / words, 0 to 1; 0 for an empty buffer
  // Half width of an interval around `density`. For at least 95 of 100 seeds it contains the
  // density of the whole buffer. 0 when every word was counted. It is
  //     2 s / sqrt(n) + 3 / n
  // for n lines, where s is the standard deviation of the densities of the lines. The first term is
  // the normal approximation, however the zeros cluster. The second covers rare lines that no
  // sample shows: if none of n lines differs, then with 95 % confidence fewer than 3 / n of all
  // lines do (Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA
  // 1983).
  double error = 0;
  std::int64_t counted_words = 0;
  bool is_exact = false;  // every word was counted
};

// Samples one random line out of each of options.lines equal parts of the buffer, from front to
// back. Buffers of up to four times as many lines are counted completely. Words at both ends
// outside of whole lines are always counted. Thread-safe. O(options.lines). Returns InvalidArgument
// for options out of range.
TIDEPOOL_EXPORT absl::StatusOr<DensityEstimate> ProbeDensity(absl::Span<const std::byte> buffer,
                                                             const DensityProbeOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_DENSITY_PROBE_H_

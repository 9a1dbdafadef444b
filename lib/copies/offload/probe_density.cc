// SPDX-License-Identifier: Apache-2.0
#include "lib/copies/offload/probe_density.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/arithmetic.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::offload {
namespace {

DensityEstimate CountOf(const StoredBuffer& stored) {
  const auto word = static_cast<std::int64_t>(stored.word());
  const std::int64_t words = CeilDivide(stored.input_bytes(), word);
  return {.density = static_cast<double>(stored.nonzero_words()) / static_cast<double>(words),
          .counted_words = words,
          .is_exact = true};
}

}  // namespace

absl::StatusOr<DensityEstimate> ProbeHostMemory(const HostMemory& host, std::int64_t bytes,
                                                const DensityProbeOptions& options) {
  if (host.stored() == nullptr) {
    return ProbeDensity(absl::MakeSpan(static_cast<const std::byte*>(host.address()),
                                       static_cast<std::size_t>(bytes)),
                        options);
  }
  if (host.stored()->word() == options.word) return CountOf(*host.stored());
  return absl::InvalidArgumentError(
      absl::StrCat("words of ", static_cast<int>(options.word), " bytes, expected ",
                   static_cast<int>(host.stored()->word()), ", those of the compressed copy"));
}

}  // namespace tidepool::offload

// SPDX-License-Identifier: Apache-2.0
#include "lib/copies/offload/probe_density.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/copies/pipeline/counted_density.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::offload {

absl::StatusOr<DensityEstimate> ProbeHostMemory(const HostMemory& host, std::int64_t bytes,
                                                const DensityProbeOptions& options) {
  if (host.stored() == nullptr) {
    return ProbeDensity(absl::MakeSpan(static_cast<const std::byte*>(host.address()),
                                       static_cast<std::size_t>(bytes)),
                        options);
  }
  if (host.stored()->word() == options.word) return pipeline::CountedDensity(*host.stored());
  return absl::InvalidArgumentError(
      absl::StrCat("words of ", static_cast<int>(options.word), " bytes, expected ",
                   static_cast<int>(host.stored()->word()), ", those of the compressed copy"));
}

}  // namespace tidepool::offload

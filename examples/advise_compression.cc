// SPDX-License-Identifier: Apache-2.0
// Asks whether compressing a buffer pays: from a sample of its words and the machine's profile.
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "check.h"
#include "tidepool/copies/compression_advisor.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/copies/density_probe.h"

int main() {
  std::vector<float> activation(std::size_t{16} << 20);
  for (std::size_t i = 0; i < activation.size(); i += 4) activation[i] = 1.0f;

  // [advise]
  // The file that TIDEPOOL_COMPRESSION_PROFILE names, or else cautious assumptions.
  const auto profile = Check(tidepool::CompressionProfileFromEnvironment());
  const auto advisor =
      Check(tidepool::CompressionAdvisor::Create(profile, {.link_bytes_per_second = 12e9}));

  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(activation.data()),
                                         activation.size() * sizeof(float));
  const auto probe =
      Check(tidepool::ProbeDensity(bytes, {.word = tidepool::ZeroValueWord::k32Bits}));
  const auto advice = Check(advisor.Advise({.bytes = static_cast<std::int64_t>(bytes.size()),
                                            .density = probe.density,
                                            .density_error = probe.error,
                                            .seconds_until_needed = 0.080}));
  // [/advise]
  std::printf("density %.2f: %s (%s), at least %.1f MiB saved, %.1f ms longer\n", probe.density,
              advice.compress ? "compress" : "do not compress",
              std::string(tidepool::CompressionReasonText(advice.reason)).c_str(),
              MiB(advice.least_saved_bytes), advice.delay_seconds * 1e3);
  return 0;
}

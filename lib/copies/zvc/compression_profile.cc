// SPDX-License-Identifier: Apache-2.0
// The model that follows from a compression profile.
#include "tidepool/copies/compression_profile.h"

#include <algorithm>
#include <cmath>

#include "lib/base/arithmetic.h"
#include "lib/copies/zvc/profile_fields.h"

namespace tidepool {
namespace {

constexpr double kSecondsPerNs = 1e-9;

// Returns the share of one bit for each word.
double MaskShare(ZeroValueWord word) { return 1.0 / (8 * static_cast<int>(word)); }

double NsPerByte(const CompressionCost& cost, double ratio) { return cost.a + cost.b * ratio; }

absl::Status CheckText(std::string_view name, const std::string& text, std::size_t most) {
  if (text.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", std::string(name), "' has ", text.size(),
                                                 " bytes, expected at most ", most));
}

}  // namespace

absl::Status CheckCompressionProfile(const CompressionProfile& profile) {
  absl::Status status = zvc::VisitNumbers(
      profile, [](const std::string& name, auto number, const zvc::NumberRange& range) {
        return zvc::CheckNumber(name, static_cast<double>(number), range);
      });
  if (status.ok()) status = CheckText("machine", profile.machine, zvc::kLongestMachine);
  if (status.ok()) {
    status = CheckText("instruction_set", profile.instruction_set, zvc::kLongestInstructionSet);
  }
  if (profile.speedups.empty() || profile.speedups.size() > kMaxZeroValueThreads) {
    return absl::InvalidArgumentError(absl::StrCat("'speedups' has ", profile.speedups.size(),
                                                   " numbers, expected 1 to ",
                                                   kMaxZeroValueThreads));
  }
  for (std::size_t i = 0; status.ok() && i < profile.speedups.size(); ++i) {
    status = zvc::CheckNumber(absl::StrCat("speedups[", i, "]"), profile.speedups[i],
                              zvc::SpeedupRange(i + 1, i == 0 ? 0 : profile.speedups[i - 1]));
  }
  return status;
}

double PlainRatio(ZeroValueWord word, double density) {
  return density == 0 ? 0 : std::min(1.0, density + MaskShare(word));
}

std::int64_t CompressedBytes(const CompressionProfile& profile, std::int64_t bytes,
                             ZeroValueWord word, double density) {
  if (bytes == 0) return static_cast<std::int64_t>(ZeroValueBound(0));
  const double share =
      density == 0 ? 0
                   : std::min(1.0, density * profile.CostsOf(word).packed_share + MaskShare(word));
  // Most bytes of a block besides its words: its index entry and the rounding of its payload.
  constexpr std::int64_t kMostBesides = 8 + 64;
  constexpr auto kBlock = static_cast<std::int64_t>(kZeroValueBlockBytes);
  const std::int64_t besides = CeilDivide(bytes, kBlock) * kMostBesides;
  const auto payload = static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) * share));
  return std::min(payload + besides + 64,
                  static_cast<std::int64_t>(ZeroValueBound(static_cast<std::size_t>(bytes))));
}

double Speedup(const CompressionProfile& profile, int threads) {
  const auto last = static_cast<std::ptrdiff_t>(profile.speedups.size()) - 1;
  return profile
      .speedups[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(threads - 1, 0, last))];
}

double CodecNsPerByte(const CompressionProfile& profile, ZeroValueWord word, double density,
                      TransferDirection direction) {
  const CompressionCosts& costs = profile.CostsOf(word);
  const CompressionCost& cost =
      direction == TransferDirection::kOffload ? costs.compress : costs.decompress;
  return NsPerByte(cost, PlainRatio(word, density)) +
         profile.slot_ns / static_cast<double>(profile.chunk_bytes);
}

double RawSeconds(std::int64_t bytes, double link_bytes_per_second) {
  return static_cast<double>(bytes) / link_bytes_per_second;
}

double TransferSeconds(const CompressionProfile& profile, std::int64_t bytes, ZeroValueWord word,
                       double density, TransferDirection direction, double link_bytes_per_second,
                       int threads) {
  const double seconds_per_byte = CodecNsPerByte(profile, word, density, direction) * kSecondsPerNs;
  const double codec = static_cast<double>(bytes) * seconds_per_byte / Speedup(profile, threads);
  const auto slot = static_cast<double>(std::min(bytes, profile.chunk_bytes));
  return std::max(RawSeconds(bytes, link_bytes_per_second), codec) + slot * seconds_per_byte;
}

double CoreSeconds(const CompressionProfile& profile, std::int64_t bytes, ZeroValueWord word,
                   double density) {
  const double ns = CodecNsPerByte(profile, word, density, TransferDirection::kOffload) +
                    CodecNsPerByte(profile, word, density, TransferDirection::kPrefetch);
  return static_cast<double>(bytes) * ns * kSecondsPerNs;
}

}  // namespace tidepool

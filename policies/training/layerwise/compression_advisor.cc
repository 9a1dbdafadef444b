// SPDX-License-Identifier: Apache-2.0
// Decides by memory first, then by time: a buffer that does not save enough is never worth the
// processor time.
#include "tidepool/copies/compression_advisor.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool {
namespace {

// Compressed data takes whole pages of the host (PagePoolOptions::page_bytes).
constexpr std::int64_t kPageBytes = std::int64_t{64} << 10;

absl::Status Wrong(std::string_view name, double value, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("a ", std::string(name), " of ", value, ", expected ", std::string(expected)));
}

// NaN is in no range.
bool IsBetween(double value, double least, double most) { return value >= least && value <= most; }

absl::Status CheckAdvisorOptions(const CompressionAdvisorOptions& options) {
  if (!(options.link_bytes_per_second > 0)) {
    return Wrong("link", options.link_bytes_per_second, "more than 0 bytes a second");
  }
  if (options.threads < 0 || options.threads > kMaxZeroValueThreads) {
    return Wrong("number of threads", options.threads,
                 absl::StrCat("0 (the profile's) to ", kMaxZeroValueThreads));
  }
  return absl::OkStatus();
}

absl::Status CheckCandidate(const CompressionCandidate& candidate) {
  if (candidate.bytes < 0 ||
      static_cast<std::uint64_t>(candidate.bytes) > kMaxZeroValueInputBytes) {
    return Wrong("size", static_cast<double>(candidate.bytes), "0 to 2^50 bytes");
  }
  if (candidate.word != ZeroValueWord::k16Bits && candidate.word != ZeroValueWord::k32Bits) {
    return Wrong("word", static_cast<int>(candidate.word), "2 or 4 bytes");
  }
  if (!IsBetween(candidate.density, 0, 1)) {
    return Wrong("density", candidate.density, "a share from 0 to 1");
  }
  if (!IsBetween(candidate.density_error, 0, 1)) {
    return Wrong("error of the density", candidate.density_error, "0 to 1");
  }
  if (std::isnan(candidate.seconds_to_leave) || std::isnan(candidate.seconds_until_needed)) {
    return Wrong("time", std::nan(""), "a number of seconds");
  }
  return absl::OkStatus();
}

// Returns the delay of an event beyond its deadline, if compression caused it.
double Delay(double end, double deadline, double raw_end) {
  return std::max(0.0, end - std::max(deadline, raw_end));
}

}  // namespace

std::string_view CompressionReasonText(CompressionReason reason) {
  switch (reason) {
    case CompressionReason::kSaves:
      return "saves memory";
    case CompressionReason::kSavesTooLittle:
      return "saves too little";
    case CompressionReason::kLeavesTooLate:
      return "leaves too late";
    case CompressionReason::kReturnsTooLate:
      return "returns too late";
  }
  return "unknown";
}

absl::StatusOr<CompressionAdvisor> CompressionAdvisor::Create(
    const CompressionProfile& profile, const CompressionAdvisorOptions& options) {
  if (absl::Status status = CheckCompressionProfile(profile); !status.ok()) return status;
  if (absl::Status status = CheckAdvisorOptions(options); !status.ok()) return status;
  CompressionAdvisor advisor(profile, options);
  if (options.threads == 0) advisor.options_.threads = profile.threads;
  return advisor;
}

absl::StatusOr<CompressionAdvice> CompressionAdvisor::Advise(
    const CompressionCandidate& candidate) const {
  if (absl::Status status = CheckCandidate(candidate); !status.ok()) return status;
  const double highest = std::min(1.0, candidate.density + candidate.density_error);
  const auto held = [&](double density) {
    return RoundUp(CompressedBytes(profile_, candidate.bytes, candidate.word, density), kPageBytes);
  };
  const auto seconds = [&](TransferDirection direction) {
    return TransferSeconds(profile_, candidate.bytes, candidate.word, highest, direction,
                           options_.link_bytes_per_second, options_.threads);
  };
  CompressionAdvice advice;
  advice.held_bytes = held(candidate.density);
  advice.most_held_bytes = held(highest);
  advice.saved_bytes = candidate.bytes - advice.held_bytes;
  advice.least_saved_bytes = candidate.bytes - advice.most_held_bytes;
  advice.raw_seconds = RawSeconds(candidate.bytes, options_.link_bytes_per_second);
  advice.offload_seconds = seconds(TransferDirection::kOffload);
  advice.prefetch_seconds = seconds(TransferDirection::kPrefetch);
  advice.core_seconds = CoreSeconds(profile_, candidate.bytes, candidate.word, highest);
  const double leave_delay =
      Delay(advice.offload_seconds, candidate.seconds_to_leave, advice.raw_seconds);
  const double return_delay = Delay(advice.offload_seconds + advice.prefetch_seconds,
                                    candidate.seconds_until_needed, 2 * advice.raw_seconds);
  advice.delay_seconds = std::max(leave_delay, return_delay);
  if (advice.least_saved_bytes <= 0 ||
      static_cast<double>(advice.least_saved_bytes) <
          kLeastCompressionSaving * static_cast<double>(candidate.bytes)) {
    advice.reason = CompressionReason::kSavesTooLittle;
  } else if (leave_delay > 0) {
    advice.reason = CompressionReason::kLeavesTooLate;
  } else if (return_delay > 0) {
    advice.reason = CompressionReason::kReturnsTooLate;
  } else {
    advice.reason = CompressionReason::kSaves;
    advice.compress = true;
  }
  return advice;
}

}  // namespace tidepool

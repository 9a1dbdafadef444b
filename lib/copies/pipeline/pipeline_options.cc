// SPDX-License-Identifier: Apache-2.0
// Options of a pipeline: the valid range of each.
#include "lib/copies/pipeline/pipeline_options.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/copies/zvc/kernels.h"
#include "tidepool/copies/compression_profile.h"

namespace tidepool::pipeline {
namespace {

constexpr int kMostChunkFraction = 65536;

absl::Status CheckOptions(const CompressionPipelineOptions& options) {
  const std::int64_t slot_bytes = options.ring.slot_bytes;
  constexpr auto kBlock = static_cast<std::int64_t>(kZeroValueBlockBytes);
  if (slot_bytes < kBlock || slot_bytes % kBlock != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_bytes ", slot_bytes, ", expected a multiple of ", kBlock));
  }
  if (options.threads < 1 || options.threads > kMaxZeroValueThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads ", options.threads, ", expected 1 to ", kMaxZeroValueThreads));
  }
  if (options.chunk_fraction < 1 || options.chunk_fraction > kMostChunkFraction) {
    return absl::InvalidArgumentError(absl::StrCat("chunk_fraction ", options.chunk_fraction,
                                                   ", expected 1 to ", kMostChunkFraction));
  }
  if (options.mode != ZeroValueMode::kPacked && options.mode != ZeroValueMode::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat("mode ", static_cast<int>(options.mode), ", expected packed or plain"));
  }
  if (options.instruction_set.has_value() && !zvc::HasInstructionSet(*options.instruction_set)) {
    return absl::InvalidArgumentError(
        absl::StrCat("instruction_set ", static_cast<int>(*options.instruction_set),
                     ", expected an instruction set of this processor"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompressionPipelineOptions> ResolveOptions(
    const CompressionPipelineOptions& options) {
  CompressionPipelineOptions resolved = options;
  if (options.threads == 0 || options.ring.slot_bytes == 0) {
    const absl::StatusOr<CompressionProfile> profile = CompressionProfileFromEnvironment();
    if (!profile.ok()) return profile.status();
    if (options.threads == 0) resolved.threads = profile->threads;
    if (options.ring.slot_bytes == 0) resolved.ring.slot_bytes = profile->chunk_bytes;
  }
  if (absl::Status status = CheckOptions(resolved); !status.ok()) return status;
  return resolved;
}

}  // namespace tidepool::pipeline

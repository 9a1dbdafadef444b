// SPDX-License-Identifier: Apache-2.0
// CompressionProfile: how fast a machine compresses, and the model of compressed transfers
// (compression_pipeline.h) that follows: how long a transfer takes and how many bytes it leaves.
//
// `tidepool tune compression --save FILE` measures a machine and writes a profile. The library
// reads the profile that TIDEPOOL_COMPRESSION_PROFILE names. All functions here are pure functions
// of a profile, except the three that read or write files.
//
// The model is fitted to measurements of this library's codec on memory outside the caches. The
// time t for a byte of input grows linearly with the share r that the codec writes:
//     t = a + b r,    r = bytes that plain zero-value compression would leave / bytes of input
// A transfer of B bytes over a link in slots takes as long as the slower of link and codec. The
// time to compress or decompress one slot is not overlapped:
//     max(B / link, B t / speedup(threads)) + slot t
#ifndef TIDEPOOL_COPIES_COMPRESSION_PROFILE_H_
#define TIDEPOOL_COPIES_COMPRESSION_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

// Nanoseconds of one core for a byte of input: a + b r.
struct CompressionCost {
  double a = 0;
  double b = 0;
};

// Costs for words of one size.
struct CompressionCosts {
  CompressionCost compress;
  CompressionCost decompress;
  // Share of the bits of a non-zero word that ZeroValueMode::kPacked keeps. It depends on the data
  // more than on the machine: normal numbers after a ReLU keep 0.85 of 32 bits and 0.70 of 16 bits.
  // With 1, sizes are those of the plain mode and never too small.
  double packed_share = 1;
};

// Measurements of a machine. The defaults are assumptions for machines without measurement: half as
// fast as the slowest measured machine with AVX2, with sizes of the plain mode.
struct CompressionProfile {
  // Name of the processor for people. At most 1,000 bytes.
  std::string machine = "not measured";
  // Name from ZeroValueInstructionSetName, or any other text.
  std::string instruction_set = "unknown";
  int processors = 2;
  // Recommended number of threads that compress and decompress, and bytes of a slot of the staging
  // ring.
  int threads = 2;
  std::int64_t chunk_bytes = std::int64_t{1} << 20;
  // Fixed time of a thread for each slot, in addition to the time for its bytes.
  double slot_ns = 5'000;
  double memcpy_bytes_per_second = 4e9;  // of one core
  // Speedup of 1, 2, 3, ... threads over one. The last value holds for more threads.
  std::vector<double> speedups = {1, 1.7};
  CompressionCosts words16 = {{0.4, 0.4}, {0.4, 0.3}, 1};
  CompressionCosts words32 = {{0.4, 0.4}, {0.4, 0.3}, 1};

  const CompressionCosts& CostsOf(ZeroValueWord word) const {
    return word == ZeroValueWord::k16Bits ? words16 : words32;
  }
};

// Returns InvalidArgument for a profile with an impossible number: negative, not finite, or out of
// proportion. Every profile that is read was checked; the functions below take only checked ones.
TIDEPOOL_EXPORT absl::Status CheckCompressionProfile(const CompressionProfile& profile);

// Returns the profile as JSON (docs/formats/compression_profile.md), from which it can be read
// back.
TIDEPOOL_EXPORT std::string CompressionProfileJson(const CompressionProfile& profile);

// Writes the profile, or leaves the file at `path` unchanged. Returns InvalidArgument for an
// invalid profile, and "PATH: error" when the file cannot be written.
TIDEPOOL_EXPORT absl::Status WriteCompressionProfile(const CompressionProfile& profile,
                                                     const std::string& path);
// Reads a profile. Each field must be in the file exactly once, and no other field. Returns
// InvalidArgument with "PATH:LINE: error", or the error of the system for a file that cannot be
// read.
TIDEPOOL_EXPORT absl::StatusOr<CompressionProfile> ReadCompressionProfile(const std::string& path);

inline constexpr char kCompressionProfileVariable[] = "TIDEPOOL_COMPRESSION_PROFILE";
// Returns the profile in the file that the environment variable names, or the default profile when
// the variable is unset or empty. Returns the errors of ReadCompressionProfile after the
// variable's name, so a requested profile is never silently ignored.
TIDEPOOL_EXPORT absl::StatusOr<CompressionProfile> CompressionProfileFromEnvironment();

// Functions of the profile's model. `density` is the share of non-zero words, 0 to 1.

// Returns r above: one bit for each word plus the non-zero words, at most 1. Returns 0 when all
// words are zero.
TIDEPOOL_EXPORT double PlainRatio(ZeroValueWord word, double density);
// Returns the largest stream, with index and all rounding, if every block has this density and the
// profile's packed_share. The mode is plain for a packed_share of 1, and packed otherwise. The
// result never exceeds ZeroValueBound(bytes).
TIDEPOOL_EXPORT std::int64_t CompressedBytes(const CompressionProfile& profile, std::int64_t bytes,
                                             ZeroValueWord word, double density);
TIDEPOOL_EXPORT double Speedup(const CompressionProfile& profile, int threads);

enum class TransferDirection : std::uint8_t { kOffload, kPrefetch };

// Returns the nanoseconds of one core for a byte of input, including the byte's part of the slot
// overhead.
TIDEPOOL_EXPORT double CodecNsPerByte(const CompressionProfile& profile, ZeroValueWord word,
                                      double density, TransferDirection direction);
// Return the seconds of an uncompressed transfer, and of one that compresses or decompresses on the
// way. `link_bytes_per_second` is more than 0 and may be infinite.
TIDEPOOL_EXPORT double RawSeconds(std::int64_t bytes, double link_bytes_per_second);
TIDEPOOL_EXPORT double TransferSeconds(const CompressionProfile& profile, std::int64_t bytes,
                                       ZeroValueWord word, double density,
                                       TransferDirection direction, double link_bytes_per_second,
                                       int threads);
// Returns the core seconds of all threads together, for both directions.
TIDEPOOL_EXPORT double CoreSeconds(const CompressionProfile& profile, std::int64_t bytes,
                                   ZeroValueWord word, double density);

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_COMPRESSION_PROFILE_H_

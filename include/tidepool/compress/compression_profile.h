// CompressionProfile: how fast a machine compresses, and what follows from it: how long a transfer
// takes that compresses on the way (compression_pipeline.h), and how many bytes it leaves.
//
// `tidepool tune compression --save FILE` measures a machine and writes a profile; the library
// reads the one that TIDEPOOL_COMPRESSION_PROFILE names. Everything here is a pure function of a
// profile, but for the three that say that they read or write.
//
// The model is fitted to measurements of this library's codec, on memory that is not in the cache:
// the time for a byte of input grows with what the codec writes, in straight proportion,
//     t = a + b r,    r = bytes that plain zero-value compression would leave / bytes of input
// and a transfer of B bytes over a link, in slots, takes as long as the slower of both, and the
// time to compress (decompress) a slot, which nothing overlaps:
//     max(B / link, B t / speedup(threads)) + slot t
#ifndef TIDEPOOL_COMPRESS_COMPRESSION_PROFILE_H_
#define TIDEPOOL_COMPRESS_COMPRESSION_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/compress/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

// Nanoseconds of one core for a byte of input: a + b r.
struct CompressionCost {
  double a = 0;
  double b = 0;
};

// Of words of one size.
struct CompressionCosts {
  CompressionCost compress;
  CompressionCost decompress;
  // Of a word that is not zero, the share of its bits that ZeroValueMode::kPacked keeps. Depends on
  // the data more than on the machine: normal numbers behind a ReLU keep 0.85 of 32 bits and 0.70
  // of 16. With 1 sizes are those of the plain mode, and never too small.
  double packed_share = 1;
};

// The members as they are by default are what is assumed where nothing was measured: half as fast
// as the slowest machine with AVX2 that was, and sizes as the plain mode leaves them.
struct CompressionProfile {
  // As people read it: which processor. At most 1,000 bytes.
  std::string machine = "not measured";
  // As ZeroValueInstructionSetName has it, or something else.
  std::string instruction_set = "unknown";
  int processors = 2;
  // Recommended: threads that compress and decompress, and the bytes of a slot of the staging ring.
  int threads = 2;
  std::int64_t chunk_bytes = std::int64_t{1} << 20;
  // What a slot costs a thread beside the time for its bytes.
  double slot_ns = 5'000;
  double memcpy_bytes_per_second = 4e9;  // of one core
  // How much faster 1, 2, 3, ... threads are than one. From behind the last on it stays.
  std::vector<double> speedups = {1, 1.7};
  CompressionCosts words16 = {{0.4, 0.4}, {0.4, 0.3}, 1};
  CompressionCosts words32 = {{0.4, 0.4}, {0.4, 0.3}, 1};

  const CompressionCosts& CostsOf(ZeroValueWord word) const {
    return word == ZeroValueWord::k16Bits ? words16 : words32;
  }
};

// InvalidArgument for a profile with a number that cannot be: negative, not finite, or out of any
// proportion. Every profile that is read was checked; the functions below take only such.
TIDEPOOL_EXPORT absl::Status CheckCompressionProfile(const CompressionProfile& profile);

// What it takes to be read back; as JSON (docs/formats/compression_profile.md).
TIDEPOOL_EXPORT std::string CompressionProfileJson(const CompressionProfile& profile);

// Writes it, or leaves what is at `path` as it is. InvalidArgument for a profile that cannot be,
// and "PATH:0: what is wrong, what was expected".
TIDEPOOL_EXPORT absl::Status WriteCompressionProfile(const CompressionProfile& profile,
                                                     const std::string& path);
// Everything that a profile has must be there once, and nothing else. InvalidArgument with
// "PATH:LINE: what is wrong, what was expected"; what the system says of a file that cannot be
// read.
TIDEPOOL_EXPORT absl::StatusOr<CompressionProfile> ReadCompressionProfile(const std::string& path);

inline constexpr char kCompressionProfileVariable[] = "TIDEPOOL_COMPRESSION_PROFILE";
// The profile in the file that the environment variable names; the default one when it is not set
// or empty. Errors as above: a profile that was asked for is not silently left out.
TIDEPOOL_EXPORT absl::StatusOr<CompressionProfile> CompressionProfileFromEnvironment();

// Of the profile's model. `density` is the share of words that are not zero, 0 to 1.

// r above: a bit for each word and the words that are not zero, at most 1; 0 where all are zero.
TIDEPOOL_EXPORT double PlainRatio(ZeroValueWord word, double density);
// Of plain or packed mode, whichever the profile's packed_share describes, with the index and all
// rounding: the most that a stream is where every block has that density and that share, and never
// more than ZeroValueBound(bytes).
TIDEPOOL_EXPORT std::int64_t CompressedBytes(const CompressionProfile& profile, std::int64_t bytes,
                                             ZeroValueWord word, double density);
TIDEPOOL_EXPORT double Speedup(const CompressionProfile& profile, int threads);

enum class TransferDirection : std::uint8_t { kOffload, kPrefetch };

// Nanoseconds of one core for a byte of input, its part of a slot's overhead included.
TIDEPOOL_EXPORT double CodecNsPerByte(const CompressionProfile& profile, ZeroValueWord word,
                                      double density, TransferDirection direction);
// Of a transfer as it is, and of one that compresses or decompresses on the way.
// `link_bytes_per_second` is more than 0 and may be infinite.
TIDEPOOL_EXPORT double RawSeconds(std::int64_t bytes, double link_bytes_per_second);
TIDEPOOL_EXPORT double TransferSeconds(const CompressionProfile& profile, std::int64_t bytes,
                                       ZeroValueWord word, double density,
                                       TransferDirection direction, double link_bytes_per_second,
                                       int threads);
// Of all threads together, for both directions.
TIDEPOOL_EXPORT double CoreSeconds(const CompressionProfile& profile, std::int64_t bytes,
                                   ZeroValueWord word, double density);

}  // namespace tidepool

#endif  // TIDEPOOL_COMPRESS_COMPRESSION_PROFILE_H_

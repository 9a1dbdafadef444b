// SPDX-License-Identifier: Apache-2.0
// Zero-value compression: shrinks buffers with many zero words, such as activations after a ReLU,
// at about the speed of memory and without loss. Words are compared and kept as bits: -0.0 is not
// zero, and NaN keeps its payload.
//
// A stream is a header, an index of 8 bytes for each block of 8 KiB of input, and the payloads of
// the blocks (docs/formats/zero_value_format.md). Its bytes depend only on the input, the word size
// and the mode. They do not depend on the number of threads or the instruction set.
#ifndef TIDEPOOL_COPIES_ZERO_VALUE_CODEC_H_
#define TIDEPOOL_COPIES_ZERO_VALUE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"

namespace tidepool {

// Size of a word. Inputs need not be aligned or consist of whole words: an input is compressed as
// if zeros followed it.
enum class ZeroValueWord : std::uint8_t {
  k16Bits = 2,  // bfloat16, float16
  k32Bits = 4,  // float32
};

enum class ZeroValueMode : std::uint8_t {
  kPacked = 0,  // stores non-zero words in as few bits as the range of their block needs
  kPlain = 1,   // stores non-zero words unchanged, as the papers do; larger, not faster
};

// Instruction sets; each includes the sets before it. 32-bit words use the same code for kAvx512
// and kAvx512Vbmi2.
enum class ZeroValueInstructionSet : std::uint8_t { kScalar, kAvx2, kAvx512, kAvx512Vbmi2 };

// Returns "scalar", "avx2", "avx512" or "avx512-vbmi2".
TIDEPOOL_EXPORT std::string_view ZeroValueInstructionSetName(ZeroValueInstructionSet set);
// Returns the sets that this processor supports, ascending; the first is always kScalar.
TIDEPOOL_EXPORT std::vector<ZeroValueInstructionSet> ZeroValueInstructionSets();

// Bytes of input in a block; the last block of an input may hold less.
inline constexpr std::size_t kZeroValueBlockBytes = 8192;
// Largest input: 1 PiB.
inline constexpr std::size_t kMaxZeroValueInputBytes = std::size_t{1} << 50;
inline constexpr int kMaxZeroValueThreads = 256;

// Returns an upper bound for the stream of any input of `input_bytes` (at most
// kMaxZeroValueInputBytes). The bound is at most 1.001 * input_bytes + 192.
TIDEPOOL_EXPORT std::size_t ZeroValueBound(std::size_t input_bytes);

// View of a stream with checked header and index, so no offset in them leads outside the stream.
// Reads the stream's memory, which must outlive the view and stay unchanged. Thread-safe.
class TIDEPOOL_EXPORT ZeroValueStream {
 public:
  // Checks a stream; `bytes` is exactly one stream. Returns DataLoss when it is damaged or cut off,
  // and Unimplemented for another version. Takes time proportional to the index.
  static absl::StatusOr<ZeroValueStream> Open(absl::Span<const std::byte> bytes);

  std::size_t input_bytes() const { return input_bytes_; }
  ZeroValueWord word() const { return word_; }
  ZeroValueMode mode() const { return mode_; }
  std::size_t blocks() const { return blocks_; }
  // Returns the bytes of input in `block`: kZeroValueBlockBytes for all blocks except the last.
  std::size_t BlockBytes(std::size_t block) const;
  // Number of words of the input that are not zero.
  std::size_t nonzero_words() const { return nonzero_words_; }

  // Writes one block of the input to `output`, which must have exactly BlockBytes(block) bytes.
  // Takes constant time. Checks that the payload has a valid form, but not the stream's checksum:
  // only ZeroValueCodec::Decompress detects damage inside the packed words.
  // Returns OutOfRange for an unknown block. Returns InvalidArgument when `output` has another size
  // or overlaps the stream, or when the processor lacks `set`. Returns DataLoss when the payload is
  // damaged; `output` is then undefined.
  absl::Status DecompressBlock(std::size_t block, absl::Span<std::byte> output) const;
  absl::Status DecompressBlock(std::size_t block, absl::Span<std::byte> output,
                               ZeroValueInstructionSet set) const;

 private:
  friend class ZeroValueCodec;
  ZeroValueStream() = default;
  // Returns the offset in `bytes_` at which the payload of `block` begins.
  std::size_t PayloadBegin(std::size_t block) const;

  absl::Span<const std::byte> bytes_;
  std::size_t input_bytes_ = 0;
  std::size_t blocks_ = 0;
  std::size_t nonzero_words_ = 0;
  std::uint64_t contents_hash_ = 0;  // expected hash of index and payloads
  ZeroValueWord word_ = ZeroValueWord::k32Bits;
  ZeroValueMode mode_ = ZeroValueMode::kPacked;
  std::vector<std::size_t> group_begins_;  // offset in `bytes_` of each group of blocks
};

struct ZeroValueOptions {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  ZeroValueMode mode = ZeroValueMode::kPacked;
  // Number of threads that work on one buffer, including the caller's: 1 to kMaxZeroValueThreads.
  int threads = 1;
  // Instruction set; by default the best of the processor. Tests and measurements choose others.
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;
  // Whether output bypasses the caches (by non-temporal stores) where its address is a multiple of
  // 64. Buffers larger than the caches are then decompressed faster, by one thread too; a program
  // that reads them at once gains nothing, compression gains little, and small buffers lose.
  bool streaming_stores = false;
};

// Compresses and decompresses with its own threads. Thread-safe: callers on several threads share
// the codec's threads, and each caller makes progress without them. Not usable in a forked child,
// which lacks the codec's threads.
class TIDEPOOL_EXPORT ZeroValueCodec {
 public:
  // Creates a codec. Returns InvalidArgument for options out of range or an instruction set that
  // the processor lacks, and ResourceExhausted when threads cannot be started.
  static absl::StatusOr<std::unique_ptr<ZeroValueCodec>> Create(const ZeroValueOptions& options);
  ~ZeroValueCodec();
  ZeroValueCodec(const ZeroValueCodec&) = delete;
  ZeroValueCodec& operator=(const ZeroValueCodec&) = delete;

  // Writes the stream of `input` to the beginning of `output` and returns the stream's length.
  // `output` must be at least that long; ZeroValueBound(input.size()) is always enough.
  // Returns ResourceExhausted, with the needed size, when `output` is too small; `output` is then
  // undefined. Returns InvalidArgument when input and output overlap or the input is too large.
  absl::StatusOr<std::size_t> Compress(absl::Span<const std::byte> input,
                                       absl::Span<std::byte> output) const;

  // Writes the original input to the beginning of `output` and returns its length. Word size and
  // mode are read from the stream.
  // Returns DataLoss when any part of the stream is damaged; `output` is then undefined. Returns
  // InvalidArgument when stream and output overlap, and ResourceExhausted, with the needed size,
  // when `output` is too small.
  absl::StatusOr<std::size_t> Decompress(absl::Span<const std::byte> stream,
                                         absl::Span<std::byte> output) const;
  absl::StatusOr<std::size_t> Decompress(const ZeroValueStream& stream,
                                         absl::Span<std::byte> output) const;

  const ZeroValueOptions& options() const { return options_; }
  ZeroValueInstructionSet instruction_set() const { return set_; }

 private:
  class Workers;
  ZeroValueCodec(const ZeroValueOptions& options, ZeroValueInstructionSet set);

  ZeroValueOptions options_;
  ZeroValueInstructionSet set_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_ZERO_VALUE_CODEC_H_

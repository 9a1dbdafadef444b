// Zero-value compression: makes buffers with many zero words (activations after a ReLU) small at
// about the speed of memory, without loss. Words are compared and kept as bits: -0.0 is no zero,
// and NaN keeps its payload.
//
// A stream is a header, an index of 8 bytes for each block of 8 KiB of input, and the payloads of
// the blocks (docs/formats/zero_value_format.md). Its bytes depend on the input, the size of the
// words and the mode, and on nothing else: not on the number of threads, nor on the instruction
// set.
#ifndef TIDEPOOL_COMPRESS_ZERO_VALUE_CODEC_H_
#define TIDEPOOL_COMPRESS_ZERO_VALUE_CODEC_H_

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

// What counts as a word. Inputs need not be whole words nor aligned: an input is compressed as if
// zeros followed it.
enum class ZeroValueWord : std::uint8_t {
  k16Bits = 2,  // bfloat16, float16
  k32Bits = 4,  // float32
};

enum class ZeroValueMode : std::uint8_t {
  kPacked = 0,  // what is not zero is stored in as few bits as its block's range needs
  kPlain = 1,   // what is not zero is stored as it is, as the papers do; larger, no faster
};

// Each one has those before it. 32-bit words use the same code for kAvx512 and kAvx512Vbmi2.
enum class ZeroValueInstructionSet : std::uint8_t { kScalar, kAvx2, kAvx512, kAvx512Vbmi2 };

// "scalar", "avx2", "avx512", "avx512-vbmi2".
TIDEPOOL_EXPORT std::string_view ZeroValueInstructionSetName(ZeroValueInstructionSet set);
// What this processor has, in ascending order; the first is always kScalar.
TIDEPOOL_EXPORT std::vector<ZeroValueInstructionSet> ZeroValueInstructionSets();

// The bytes of input that a block holds; the last block of an input may hold less.
inline constexpr std::size_t kZeroValueBlockBytes = 8192;
// No input is larger: 1 PiB.
inline constexpr std::size_t kMaxZeroValueInputBytes = std::size_t{1} << 50;
inline constexpr int kMaxZeroValueThreads = 256;

// No stream of an input of `input_bytes` (at most kMaxZeroValueInputBytes) is longer, whatever is
// in it: at most 1.001 * input_bytes + 192.
TIDEPOOL_EXPORT std::size_t ZeroValueBound(std::size_t input_bytes);

// A stream whose header and index were checked: nothing in them leads outside of the stream. Reads
// the stream's memory, which must outlive it and stay as it is. Thread-safe.
class TIDEPOOL_EXPORT ZeroValueStream {
 public:
  // Takes time in proportion to the index. `bytes` is exactly one stream. DataLoss when it is
  // damaged or cut off; Unimplemented for another version.
  static absl::StatusOr<ZeroValueStream> Open(absl::Span<const std::byte> bytes);

  std::size_t input_bytes() const { return input_bytes_; }
  ZeroValueWord word() const { return word_; }
  ZeroValueMode mode() const { return mode_; }
  std::size_t blocks() const { return blocks_; }
  // Of the input, in block `block`: kZeroValueBlockBytes for all but the last.
  std::size_t BlockBytes(std::size_t block) const;
  // Words of the input that are not zero.
  std::size_t nonzero_words() const { return nonzero_words_; }

  // Writes the bytes of the input in one block to `output`, which has room for exactly
  // BlockBytes(block). Constant time. Checks that the payload is one, not the stream's checksum:
  // damage inside of the packed words shows only in ZeroValueCodec::Decompress.
  // OutOfRange for a block that is not there; InvalidArgument when `output` has another size or
  // overlaps the stream, or when the processor lacks `set`; DataLoss when the payload is damaged:
  // then `output` holds anything.
  absl::Status DecompressBlock(std::size_t block, absl::Span<std::byte> output) const;
  absl::Status DecompressBlock(std::size_t block, absl::Span<std::byte> output,
                               ZeroValueInstructionSet set) const;

 private:
  friend class ZeroValueCodec;
  ZeroValueStream() = default;
  // Where the payload of `block` begins in `bytes_`.
  std::size_t PayloadBegin(std::size_t block) const;

  absl::Span<const std::byte> bytes_;
  std::size_t input_bytes_ = 0;
  std::size_t blocks_ = 0;
  std::size_t nonzero_words_ = 0;
  std::uint64_t contents_hash_ = 0;  // that index and payloads ought to have
  ZeroValueWord word_ = ZeroValueWord::k32Bits;
  ZeroValueMode mode_ = ZeroValueMode::kPacked;
  std::vector<std::size_t> group_begins_;  // of each group of blocks, in `bytes_`
};

struct ZeroValueOptions {
  ZeroValueWord word = ZeroValueWord::k32Bits;
  ZeroValueMode mode = ZeroValueMode::kPacked;
  // That work on one buffer, the caller's among them: 1 to kMaxZeroValueThreads.
  int threads = 1;
  // The best that the processor has when not given. Others are for tests and measurements.
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;
  // What is written goes past the caches (by non-temporal stores) where its address is a multiple
  // of 64. With several threads that can be faster for buffers larger than the caches; with one
  // it is slower.
  bool streaming_stores = false;
};

// Compresses and decompresses with the threads that it keeps. Thread-safe: callers on several
// threads share them, and each makes progress by itself. Not for a forked child, which has none of
// those that are kept.
class TIDEPOOL_EXPORT ZeroValueCodec {
 public:
  // InvalidArgument for options out of their range, and for an instruction set that the processor
  // lacks; ResourceExhausted when threads cannot be started.
  static absl::StatusOr<std::unique_ptr<ZeroValueCodec>> Create(const ZeroValueOptions& options);
  ~ZeroValueCodec();
  ZeroValueCodec(const ZeroValueCodec&) = delete;
  ZeroValueCodec& operator=(const ZeroValueCodec&) = delete;

  // Writes the stream of `input` to the beginning of `output` and says how long it is. `output`
  // needs room for that and no more; ZeroValueBound(input.size()) is always enough.
  // ResourceExhausted when there is less: the error says how many bytes it takes, and `output`
  // holds anything. InvalidArgument when they overlap or the input is too large.
  absl::StatusOr<std::size_t> Compress(absl::Span<const std::byte> input,
                                       absl::Span<std::byte> output) const;

  // Writes what was compressed to the beginning of `output` and says how long it is. The stream
  // says itself what its words and its mode are. DataLoss when it is damaged, wherever it is:
  // then `output` holds anything. InvalidArgument when they overlap; ResourceExhausted when
  // `output` is too small: the error says how many bytes it takes.
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

#endif  // TIDEPOOL_COMPRESS_ZERO_VALUE_CODEC_H_

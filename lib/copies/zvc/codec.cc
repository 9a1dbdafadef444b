// SPDX-License-Identifier: Apache-2.0
// Zero-value codec: compresses whole buffers. Several threads take tasks of a few blocks in order.
// A task's payloads begin at the sum of the sizes of all earlier tasks, known once those tasks are
// scanned. No thread ever sleeps to wait for another.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/locks/mutex.h"
#include "lib/copies/zvc/block_codec.h"
#include "lib/copies/zvc/kernels.h"
#include "lib/copies/zvc/ranges.h"
#include "lib/copies/zvc/stream_parts.h"
#include "lib/copies/zvc/worker_pool.h"
#include "lib/copies/zvc/zero_value_format.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
class ZeroValueCodec::Workers {
 public:
  explicit Workers(std::unique_ptr<zvc::WorkerPool> pool) : pool_(std::move(pool)) {}
  zvc::WorkerPool& pool() { return *pool_; }

 private:
  std::unique_ptr<zvc::WorkerPool> pool_;
};

namespace {

// Blocks that a thread compresses at once: few enough that their words stay in the first-level
// cache.
constexpr std::size_t kTaskBlocks = 2;

// Whether to bypass the caches: non-temporal stores need aligned rows.
bool IsStreaming(const ZeroValueOptions& options, absl::Span<std::byte> output) {
  return options.streaming_stores &&
         reinterpret_cast<std::uintptr_t>(output.data()) % zvc::kRowBytes == 0;
}

class Compression {
 public:
  Compression(const ZeroValueOptions& options, ZeroValueInstructionSet set,
              absl::Span<const std::byte> input, absl::Span<std::byte> output)
      : options_(options),
        format_(zvc::FormatOf(set, options.word, IsStreaming(options, output))),
        input_(input),
        output_(output),
        blocks_(zvc::BlocksOf(input.size())),
        payloads_begin_(zvc::PayloadsBegin(blocks_)),
        has_room_for_index_(output.size() >= payloads_begin_) {}

  void RunAlone() {
    zvc::BlockCompressor compressor(format_, IsPlain());
    std::size_t begin = payloads_begin_;
    std::size_t expected = 0;  // size of the last payload, as a guess for the next
    for (std::size_t block = 0; block < blocks_; ++block) {
      FetchOutput(begin, expected);
      Scan(compressor, block, block + 1);
      expected = compressor.payload_bytes();
      hash_ += Write(compressor, block, begin);
      begin += compressor.payload_bytes();
    }
    zvc::FinishStreaming();
    end_ = begin;
  }

  void RunWith(zvc::WorkerPool& pool) {
    const std::size_t tasks = CeilDivide(blocks_, kTaskBlocks);
    sizes_ = std::vector<std::atomic<std::size_t>>(tasks);
    begins_ = std::vector<std::atomic<std::size_t>>(tasks + 1);
    begins_[0] = payloads_begin_;
    pool.RunWithAll([this] { Work(); });
    end_ = BeginOf(tasks);
  }

  absl::StatusOr<std::size_t> Finish() {
    if (end_ > output_.size()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "an output of ", output_.size(), " bytes, expected at least ", end_, " for the stream"));
    }
    const std::size_t entries_end = sizeof(zvc::Header) + blocks_ * sizeof(zvc::IndexEntry);
    std::memset(output_.data() + entries_end, 0, payloads_begin_ - entries_end);
    zvc::Header header;
    header.word_bytes = static_cast<std::uint8_t>(options_.word);
    header.mode = static_cast<std::uint8_t>(options_.mode);
    header.input_bytes = input_.size();
    header.payload_bytes = end_ - payloads_begin_;
    header.checksum = zvc::HeaderHash(header) + hash_;
    header.header_checksum = zvc::HeaderChecksum(header);
    std::memcpy(output_.data(), &header, sizeof(header));
    return end_;
  }

 private:
  bool IsPlain() const { return options_.mode == ZeroValueMode::kPlain; }

  // Takes the next task already while it works on one, because the last block of a task prefetches
  // the first block of the next.
  void Work() {
    std::vector<zvc::BlockCompressor> compressors(kTaskBlocks, {format_, IsPlain()});
    std::uint64_t hash = 0;
    std::size_t task = next_.fetch_add(1, std::memory_order_relaxed);
    while (task < sizes_.size()) {
      const std::size_t next_task = next_.fetch_add(1, std::memory_order_relaxed);
      hash += CompressTask(compressors, task, next_task);
      task = next_task;
    }
    zvc::FinishStreaming();
    hash_.fetch_add(hash, std::memory_order_relaxed);
  }

  std::size_t EndOfTask(std::size_t task) const {
    return std::min((task + 1) * kTaskBlocks, blocks_);
  }

  // Compresses a task. Publishes the size of all its payloads before it writes them, so that the
  // thread with the next task need not wait for the writes.
  std::uint64_t CompressTask(std::vector<zvc::BlockCompressor>& compressors, std::size_t task,
                             std::size_t next_task) {
    const std::size_t first = task * kTaskBlocks;
    const std::size_t end = EndOfTask(task);
    std::size_t bytes = 0;
    for (std::size_t block = first; block < end; ++block) {
      Scan(compressors[block - first], block,
           block + 1 < end ? block + 1 : next_task * kTaskBlocks);
      bytes += compressors[block - first].payload_bytes();
    }
    sizes_[task].store(bytes + 1, std::memory_order_relaxed);
    std::size_t begin = BeginOf(task);
    std::uint64_t hash = 0;
    for (std::size_t block = first; block < end; ++block) {
      zvc::BlockCompressor& compressor = compressors[block - first];
      if (block + 1 < end) {
        FetchOutput(begin + compressor.payload_bytes(),
                    compressors[block + 1 - first].payload_bytes());
      }
      hash += Write(compressor, block, begin);
      begin += compressor.payload_bytes();
    }
    return hash;
  }

  // Returns the offset of the first payload of a started task: the end of all earlier payloads.
  std::size_t BeginOf(std::size_t task) {
    std::size_t known = task;
    while (begins_[known].load(std::memory_order_relaxed) == 0) --known;
    std::size_t begin = begins_[known].load(std::memory_order_relaxed);
    for (; known < task; ++known) {
      begin += SizeOf(known);
      begins_[known + 1].store(begin, std::memory_order_relaxed);
    }
    return begin;
  }

  // Returns the payload bytes of a started task. Its thread will publish them soon; if it does not,
  // that thread is not running. Computing the size again is then faster than waiting, and gives the
  // same size.
  std::size_t SizeOf(std::size_t task) {
    constexpr int kSpins = 500;
    for (int spin = 0; spin < kSpins; ++spin) {
      const std::size_t size = sizes_[task].load(std::memory_order_relaxed);
      if (size != 0) return size - 1;
      zvc::Pause();
    }
    zvc::BlockCompressor compressor(format_, IsPlain());
    std::size_t bytes = 0;
    for (std::size_t block = task * kTaskBlocks; block < EndOfTask(task); ++block) {
      compressor.Scan(BlockAt(block), input_.data());
      bytes += compressor.payload_bytes();
    }
    sizes_[task].store(bytes + 1, std::memory_order_relaxed);
    return bytes;
  }

  absl::Span<const std::byte> BlockAt(std::size_t block) const {
    return input_.subspan(block * zvc::kBlockBytes, zvc::kBlockBytes);
  }

  void FetchOutput(std::size_t begin, std::size_t bytes) const {
    if (options_.streaming_stores || begin + bytes > output_.size()) return;
    zvc::FetchForWriting(output_.data() + begin, bytes);
  }

  // Scans one block, prefetches block `next` if there is one, and writes the index entry if the
  // output has room for the index.
  void Scan(zvc::BlockCompressor& compressor, std::size_t block, std::size_t next) {
    const zvc::IndexEntry entry =
        compressor.Scan(BlockAt(block), BlockAt(next < blocks_ ? next : block).data());
    if (!has_room_for_index_) return;
    std::memcpy(output_.data() + sizeof(zvc::Header) + block * sizeof(entry), &entry,
                sizeof(entry));
  }

  // Writes the payload, if there is room for it, and returns its part of the checksum.
  std::uint64_t Write(zvc::BlockCompressor& compressor, std::size_t block, std::size_t begin) {
    if (begin + compressor.payload_bytes() > output_.size()) return 0;
    return zvc::BlockHash(block, compressor.entry(), compressor.Write(output_.data() + begin));
  }

  const ZeroValueOptions& options_;
  const zvc::BlockFormat format_;
  const absl::Span<const std::byte> input_;
  const absl::Span<std::byte> output_;
  const std::size_t blocks_;
  const std::size_t payloads_begin_;
  const bool has_room_for_index_;
  std::atomic<std::uint64_t> hash_ = 0;
  std::size_t end_ = 0;
  std::atomic<std::size_t> next_ = 0;
  // sizes_ and begins_ are single numbers that publish no other memory, so relaxed order suffices.
  // sizes_: one more than the payload bytes of each task; 0 while unknown.
  std::vector<std::atomic<std::size_t>> sizes_;
  // Offset of the first payload of each task in the output, and of the end of the last; 0 while
  // unknown.
  std::vector<std::atomic<std::size_t>> begins_;
};

class Decompression {
 public:
  Decompression(const zvc::BlockFormat& format, absl::Span<const std::byte> bytes,
                const ZeroValueStream& stream, const std::vector<std::size_t>& group_begins,
                absl::Span<std::byte> output)
      : format_(format),
        bytes_(bytes),
        stream_(stream),
        group_begins_(group_begins),
        output_(output) {}

  // Decompresses groups of blocks until none is left. Any number of threads may run this at once.
  void Work() {
    std::uint64_t hash = 0;
    for (;;) {
      const std::size_t group = next_.fetch_add(1, std::memory_order_relaxed);
      if (group >= group_begins_.size()) break;
      hash += DecompressGroup(group);
    }
    zvc::FinishStreaming();
    hash_.fetch_add(hash, std::memory_order_relaxed);
  }

  absl::Status Finish(std::uint64_t hash) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    if (hash_ == hash) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("zero-value stream: the hash of its contents is ",
                                            hash_.load(), ", expected ", hash));
  }

 private:
  std::uint64_t DecompressGroup(std::size_t group) {
    const std::byte* payload = bytes_.data() + group_begins_[group];
    const std::size_t first = group * zvc::kGroupBlocks;
    const std::size_t end = std::min(first + zvc::kGroupBlocks, stream_.blocks());
    std::uint64_t hash = 0;
    for (std::size_t block = first; block < end; ++block) {
      const zvc::IndexEntry entry = zvc::EntryAt(bytes_, block);
      const std::size_t block_bytes = stream_.BlockBytes(block);
      zvc::RowSums sums;
      const absl::Status status = zvc::DecompressPayload(
          format_, entry, payload, output_.subspan(block * zvc::kBlockBytes, block_bytes), sums);
      if (!status.ok()) Remember(block, status);
      hash += zvc::BlockHash(block, entry, sums);
      payload += zvc::PayloadBytes(entry, format_.word_bytes, block_bytes);
    }
    return hash;
  }

  // Keeps the error of the first damaged block, independent of the order in which threads find
  // errors.
  void Remember(std::size_t block, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    if (!status_.ok() && damaged_block_ < block) return;
    damaged_block_ = block;
    status_ = absl::DataLossError(
        absl::StrCat("zero-value stream: block ", block, ": ", status.message()));
  }

  const zvc::BlockFormat format_;
  const absl::Span<const std::byte> bytes_;
  const ZeroValueStream& stream_;
  const std::vector<std::size_t>& group_begins_;
  const absl::Span<std::byte> output_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> hash_ = 0;
  locks::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::size_t damaged_block_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status CheckOptions(const ZeroValueOptions& options) {
  if (options.threads < 1 || options.threads > kMaxZeroValueThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.threads, " threads, expected 1 to ", kMaxZeroValueThreads));
  }
  if (options.word != ZeroValueWord::k16Bits && options.word != ZeroValueWord::k32Bits) {
    return absl::InvalidArgumentError(
        absl::StrCat("words of ", static_cast<int>(options.word), " bytes, expected 2 or 4"));
  }
  if (options.mode != ZeroValueMode::kPacked && options.mode != ZeroValueMode::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat("mode ", static_cast<int>(options.mode), ", expected packed or plain"));
  }
  if (options.instruction_set.has_value() && !zvc::HasInstructionSet(*options.instruction_set)) {
    return zvc::LacksInstructionSet(*options.instruction_set);
  }
  return absl::OkStatus();
}

}  // namespace

ZeroValueCodec::ZeroValueCodec(const ZeroValueOptions& options, ZeroValueInstructionSet set)
    : options_(options), set_(set) {}
ZeroValueCodec::~ZeroValueCodec() = default;

absl::StatusOr<std::unique_ptr<ZeroValueCodec>> ZeroValueCodec::Create(
    const ZeroValueOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  auto pool = zvc::WorkerPool::Create(options.threads - 1);
  if (!pool.ok()) return pool.status();
  std::unique_ptr<ZeroValueCodec> codec(
      new ZeroValueCodec(options, options.instruction_set.value_or(zvc::BestInstructionSet())));
  codec->workers_ = std::make_unique<Workers>(*std::move(pool));
  return codec;
}

absl::StatusOr<std::size_t> ZeroValueCodec::Compress(absl::Span<const std::byte> input,
                                                     absl::Span<std::byte> output) const {
  if (input.size() > kMaxZeroValueInputBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an input of ", input.size(), " bytes, expected at most ", kMaxZeroValueInputBytes));
  }
  if (zvc::Overlap(input, output)) {
    return absl::InvalidArgumentError("the output overlaps the input");
  }
  Compression compression(options_, set_, input, output);
  if (options_.threads == 1) {
    compression.RunAlone();
  } else {
    compression.RunWith(workers_->pool());
  }
  return compression.Finish();
}

absl::StatusOr<std::size_t> ZeroValueCodec::Decompress(absl::Span<const std::byte> stream,
                                                       absl::Span<std::byte> output) const {
  const auto opened = ZeroValueStream::Open(stream);
  if (!opened.ok()) return opened.status();
  return Decompress(*opened, output);
}

absl::StatusOr<std::size_t> ZeroValueCodec::Decompress(const ZeroValueStream& stream,
                                                       absl::Span<std::byte> output) const {
  if (output.size() < stream.input_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an output of ", output.size(), " bytes, expected at least ",
                     stream.input_bytes(), " for the decompressed input"));
  }
  if (zvc::Overlap(stream.bytes_, output)) {
    return absl::InvalidArgumentError("the output overlaps the stream");
  }
  Decompression decompression(zvc::FormatOf(set_, stream.word(), IsStreaming(options_, output)),
                              stream.bytes_, stream, stream.group_begins_, output);
  workers_->pool().RunWithAll([&decompression] { decompression.Work(); });
  if (absl::Status status = decompression.Finish(stream.contents_hash_); !status.ok())
    return status;
  return stream.input_bytes();
}

}  // namespace tidepool

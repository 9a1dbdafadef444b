// SPDX-License-Identifier: Apache-2.0
// The store in compressed memory. Each block is a stream of its own.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/copies/contents/block_bytes.h"
#include "tidepool/copies/contents_stores.h"

namespace tidepool {
namespace {

using contents::kBlockBytes;

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class CompressedStore final : public ContentsStore {
 public:
  explicit CompressedStore(std::unique_ptr<ZeroValueCodec> codec) : codec_(std::move(codec)) {}

  std::int64_t block_bytes() const override { return kBlockBytes; }
  SleepMode mode() const override { return SleepMode::kCompressed; }
  std::int64_t held_bytes() const override { return held_bytes_; }

  absl::Status Begin(std::int64_t bytes) override {
    bytes_ = bytes;
    return absl::OkStatus();
  }
  // The memory has room for any block, and then gives the unused pages back.
  absl::Status Put(std::int64_t /*index*/, absl::Span<const std::byte> block) override {
    const std::size_t bound = ZeroValueBound(block.size());
    Memory memory(static_cast<std::byte*>(std::malloc(bound)));
    if (memory == nullptr) return NoMemory();
    const absl::StatusOr<std::size_t> bytes =
        codec_->Compress(block, absl::MakeSpan(memory.get(), bound));
    if (!bytes.ok()) return bytes.status();
    if (void* const smaller = std::realloc(memory.get(), *bytes); smaller != nullptr) {
      static_cast<void>(memory.release());
      memory.reset(static_cast<std::byte*>(smaller));
    }
    blocks_.push_back({std::move(memory), *bytes});
    held_bytes_ += static_cast<std::int64_t>(*bytes);
    return absl::OkStatus();
  }
  absl::Status Get(std::int64_t index, absl::Span<std::byte> block) override {
    const Block& kept = blocks_[static_cast<std::size_t>(index)];
    return codec_->Decompress(absl::MakeConstSpan(kept.memory.get(), kept.bytes), block).status();
  }

 private:
  using Memory = std::unique_ptr<std::byte, Freed>;
  struct Block {
    Memory memory;
    std::size_t bytes = 0;
  };

  absl::Status NoMemory() const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the host has no memory for ", text::ExactSize(bytes_), " of contents, of which ",
        text::ExactSize(held_bytes_), " are compressed so far; free some, or keep them in a file"));
  }

  const std::unique_ptr<ZeroValueCodec> codec_;
  std::vector<Block> blocks_;
  std::int64_t bytes_ = 0;
  std::int64_t held_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ContentsStore>> MakeCompressedStore(
    const ZeroValueOptions& options) {
  absl::StatusOr<std::unique_ptr<ZeroValueCodec>> codec = ZeroValueCodec::Create(options);
  if (!codec.ok()) return codec.status();
  return std::make_unique<CompressedStore>(*std::move(codec));
}

}  // namespace tidepool

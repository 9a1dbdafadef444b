// SPDX-License-Identifier: Apache-2.0
// Native reader: a header, then blocks with checksums. A recording may be cut off anywhere; its
// complete blocks form a trace that ended early. Damage is an error.
#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/native/native_events.h"
#include "lib/trace/native/native_format.h"
#include "lib/trace/native/native_trace.h"

namespace tidepool::native {

namespace {

struct Header {
  std::int64_t default_alignment = 0;
  TraceFormat original_format = TraceFormat::kNative;
};

std::string Hexadecimal(std::uint32_t value) {
  return absl::StrCat("0x", absl::Hex(value, absl::kZeroPad8));
}

absl::StatusOr<Header> ReadHeader(io::ByteSource& source) {
  char bytes[kHeaderBytes];
  absl::StatusOr<std::size_t> got = io::ReadFully(source, bytes, sizeof(bytes));
  if (!got.ok()) return got.status();
  if (*got < sizeof(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the file is cut off: ", *got,
                                                   " bytes, expected a header of ", sizeof(bytes)));
  }
  const std::uint32_t version = Load32(bytes + 8);
  if (version < 1 || version > kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("a native trace of version ", version, ", expected version 1 to ", kVersion));
  }
  const std::uint32_t checksum = Checksum({bytes, 20});
  if (Load32(bytes + 20) != checksum) {
    return absl::InvalidArgumentError(absl::StrCat("a damaged header: checksum ",
                                                   Hexadecimal(Load32(bytes + 20)), ", expected ",
                                                   Hexadecimal(checksum)));
  }
  const std::uint32_t alignment = Load32(bytes + 12);
  const std::uint32_t format = Load32(bytes + 16);
  if (!IsAlignment(alignment) || format >= std::size(kOriginalFormats)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", alignment, " and original format ", format,
        ", expected a power of two up to 1 GiB and at most ", std::size(kOriginalFormats) - 1));
  }
  return Header{alignment, kOriginalFormats[format]};
}

// Reads blocks one after the other.
class BlockReader {
 public:
  explicit BlockReader(io::ByteSource& source) : source_(source) {}

  // Reads the next block. Returns false at the end, or if the last block is incomplete.
  absl::StatusOr<bool> Next() {
    position_ += block_bytes_;
    char header[kBlockHeaderBytes];
    absl::StatusOr<bool> whole = Read(header, sizeof(header));
    if (!whole.ok() || !*whole) return whole;
    if (absl::Status status = CheckSum(header + 8, {header, 8}); !status.ok()) return status;
    const std::size_t size = Load32(header);
    if (size > kMostBlockBytes) {
      return Error(absl::StrCat(size, " bytes, expected at most ", kMostBlockBytes));
    }
    contents_.resize(size);
    whole = Read(contents_.data(), size);
    if (!whole.ok() || !*whole) return whole;
    if (absl::Status status = CheckSum(header + 4, contents_); !status.ok()) return status;
    block_bytes_ = sizeof(header) + size;
    return true;
  }

  const std::string& contents() const { return contents_; }

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("block at byte ", position_, ": ", what));
  }

 private:
  absl::StatusOr<bool> Read(char* bytes, std::size_t size) {
    absl::StatusOr<std::size_t> got = io::ReadFully(source_, bytes, size);
    if (!got.ok()) return got.status();
    return *got == size;
  }

  absl::Status CheckSum(const char* stored, std::string_view bytes) const {
    const std::uint32_t checksum = Checksum(bytes);
    if (Load32(stored) == checksum) return absl::OkStatus();
    return Error(absl::StrCat("checksum ", Hexadecimal(Load32(stored)), ", expected ",
                              Hexadecimal(checksum)));
  }

  io::ByteSource& source_;
  std::string contents_;
  std::size_t position_ = kHeaderBytes;
  std::size_t block_bytes_ = 0;
};

absl::Status ExpectEnd(io::ByteSource& source) {
  char byte = 0;
  absl::StatusOr<std::size_t> more = source.Read(&byte, 1);
  if (!more.ok()) return more.status();
  if (*more == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("bytes after the end of the trace");
}

absl::StatusOr<Trace> ReadBlocks(io::ByteSource& source) {
  absl::StatusOr<Header> header = ReadHeader(source);
  if (!header.ok()) return header.status();
  NativeEvents events(header->original_format, header->default_alignment);
  BlockReader blocks(source);
  for (;;) {
    absl::StatusOr<bool> found = blocks.Next();
    if (!found.ok()) return found.status();
    if (!*found) return events.Build();
    absl::Status status = events.Add(blocks.contents());
    if (!status.ok()) return blocks.Error(status.message());
    if (!events.is_at_end()) continue;
    status = ExpectEnd(source);
    if (!status.ok()) return status;
    return events.Build();
  }
}

}  // namespace

bool IsNative(std::string_view beginning) { return beginning == kMagic; }

absl::StatusOr<Trace> ReadNative(io::ByteSource& source, const std::string& name,
                                 const ReadOptions& /*options*/) {
  absl::StatusOr<Trace> trace = ReadBlocks(source);
  return trace.ok() ? std::move(trace) : text::AboutFile(name, trace.status());
}

}  // namespace tidepool::native

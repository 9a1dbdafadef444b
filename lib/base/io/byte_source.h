// SPDX-License-Identifier: Apache-2.0
// Byte source: the input of readers, from a file or memory, decompressed when it is gzip.
#ifndef TIDEPOOL_LIB_BASE_IO_BYTE_SOURCE_H_
#define TIDEPOOL_LIB_BASE_IO_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidepool::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `size` bytes; returns 0 only at the end. Errors do not name the file.
  virtual absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) = 0;
  // Returns how many bytes of the file were read so far: compressed bytes if it is compressed.
  virtual std::uint64_t file_bytes() const = 0;
  // Returns how many bytes the file has, for estimates; 0 when unknown.
  virtual std::uint64_t file_size() const { return 0; }
};

// Opens a regular file. Refuses anything else (a directory, a FIFO, a device) without waiting for
// it. Errors name the `expected` contents, such as "a trace", but not the file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path, const char* expected);

// Reads from `contents`, which must outlive the source.
std::unique_ptr<ByteSource> FromMemory(std::string_view contents);

// Returns a source that reads from `source` until the stop is requested; Cancelled from then on.
std::unique_ptr<ByteSource> Stoppable(std::unique_ptr<ByteSource> source, std::stop_token stop);

// Returns the first `count` bytes of `source`, or all if there are fewer, and puts them back.
absl::StatusOr<std::string> Peek(std::unique_ptr<ByteSource>& source, std::size_t count);

// Reads until the buffer is full or the source ends. Returns the number of bytes read.
absl::StatusOr<std::size_t> ReadFully(ByteSource& source, char* buffer, std::size_t size);

// Returns a source that decompresses `source` if it begins like gzip (one member or several), and
// otherwise `source` itself.
absl::StatusOr<std::unique_ptr<ByteSource>> Uncompressed(std::unique_ptr<ByteSource> source);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_BYTE_SOURCE_H_

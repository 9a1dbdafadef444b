// Where a reader's bytes come from: a file or memory, uncompressed on the way when they are gzip.
#ifndef TIDEPOOL_LIB_IO_BYTE_SOURCE_H_
#define TIDEPOOL_LIB_IO_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidepool::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `size` bytes, at least one unless the end is reached: then 0. Errors say what is
  // wrong and what was expected, without the place.
  virtual absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) = 0;
  // Says how many bytes of the file, compressed or not, were read for it so far.
  virtual std::uint64_t file_bytes() const = 0;
};

// Opens a regular file; anything else (a directory, a FIFO, a device) is refused without waiting
// for it.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// `contents` outlives the source.
std::unique_ptr<ByteSource> FromMemory(std::string_view contents);

// Reads the first bytes of `source`, `count` or as many as there are, and puts them back.
absl::StatusOr<std::string> Peek(std::unique_ptr<ByteSource>& source, std::size_t count);

// Reads until `size` bytes are there or the end is reached; says how many.
absl::StatusOr<std::size_t> ReadFully(ByteSource& source, char* buffer, std::size_t size);

// Uncompresses `source` when it begins like gzip (one member or several), passes it through
// otherwise.
absl::StatusOr<std::unique_ptr<ByteSource>> Uncompressed(std::unique_ptr<ByteSource> source);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_IO_BYTE_SOURCE_H_

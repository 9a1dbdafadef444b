// SPDX-License-Identifier: Apache-2.0
// Byte sources: files, memory, and decompression of gzip by zlib.
#include "lib/base/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tidepool::io {
namespace {

class FileSource final : public ByteSource {
 public:
  explicit FileSource(int descriptor) : descriptor_(descriptor) {}
  void SetSize(std::uint64_t size) { size_ = size; }
  ~FileSource() override { close(descriptor_); }

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    for (;;) {
      const ssize_t got = read(descriptor_, buffer, size);
      if (got >= 0) {
        file_bytes_ += static_cast<std::uint64_t>(got);
        return static_cast<std::size_t>(got);
      }
      if (errno != EINTR)
        return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", strerror(errno)));
    }
  }
  std::uint64_t file_bytes() const override { return file_bytes_; }
  std::uint64_t file_size() const override { return size_; }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
  std::uint64_t file_bytes_ = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view contents) : size_(contents.size()), rest_(contents) {}

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    const std::size_t count = rest_.copy(buffer, size);
    rest_.remove_prefix(count);
    return count;
  }
  std::uint64_t file_bytes() const override { return size_ - rest_.size(); }
  std::uint64_t file_size() const override { return size_; }

 private:
  std::size_t size_;
  std::string_view rest_;
};

class StoppableSource final : public ByteSource {
 public:
  StoppableSource(std::unique_ptr<ByteSource> source, std::stop_token stop)
      : source_(std::move(source)), stop_(std::move(stop)) {}

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    if (stop_.stop_requested()) return absl::CancelledError("interrupted");
    return source_->Read(buffer, size);
  }
  std::uint64_t file_bytes() const override { return source_->file_bytes(); }
  std::uint64_t file_size() const override { return source_->file_size(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::stop_token stop_;
};

// Returns the first bytes, which were read to recognise the contents, before the rest.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    if (used_ == prefix_.size()) return rest_->Read(buffer, size);
    const std::size_t count = prefix_.copy(buffer, size, used_);
    used_ += count;
    return count;
  }
  std::uint64_t file_bytes() const override { return rest_->file_bytes(); }
  std::uint64_t file_size() const override { return rest_->file_size(); }

 private:
  std::string prefix_;
  std::size_t used_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed) : compressed_(std::move(compressed)) {
    constexpr int kGzipOnly = 16;
    inflateInit2(&stream_, MAX_WBITS + kGzipOnly);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1U << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        absl::StatusOr<std::size_t> got = compressed_->Read(input_.data(), input_.size());
        if (!got.ok()) return got;
        if (*got == 0) {
          if (between_members_) return std::size_t{0};
          return absl::InvalidArgumentError(
              "the file is cut off: its gzip data end early, expected all of it");
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(*got);
      }
      if (absl::Status status = Inflate(); !status.ok()) return status;
    }
    return wanted - stream_.avail_out;
  }
  std::uint64_t file_bytes() const override { return compressed_->file_bytes(); }
  std::uint64_t file_size() const override { return compressed_->file_size(); }

 private:
  absl::Status Inflate() {
    if (std::exchange(between_members_, false)) inflateReset(&stream_);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return absl::InvalidArgumentError(absl::StrCat(
          "damaged gzip data: ", stream_.msg != nullptr ? stream_.msg : "unknown error",
          ", expected a file that gzip wrote"));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSource> compressed_;
  std::array<char, 1 << 16> input_;
  z_stream stream_ = {};
  bool between_members_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path,
                                                     const char* expected) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const std::string why =
        absl::StrCat("cannot be opened: ", strerror(errno), ", expected ", expected);
    return errno == ENOENT ? absl::NotFoundError(why) : absl::InvalidArgumentError(why);
  }
  auto source = std::make_unique<FileSource>(descriptor);
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(S_ISDIR(info.st_mode)    ? "a directory"
                                                   : S_ISFIFO(info.st_mode) ? "a FIFO"
                                                                            : "not a regular file",
                                                   ", expected a regular file"));
  }
  source->SetSize(static_cast<std::uint64_t>(info.st_size));
  return source;
}

std::unique_ptr<ByteSource> FromMemory(std::string_view contents) {
  return std::make_unique<MemorySource>(contents);
}

absl::StatusOr<std::size_t> ReadFully(ByteSource& source, char* buffer, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    absl::StatusOr<std::size_t> got = source.Read(buffer + have, size - have);
    if (!got.ok()) return got;
    if (*got == 0) break;
    have += *got;
  }
  return have;
}

std::unique_ptr<ByteSource> Stoppable(std::unique_ptr<ByteSource> source, std::stop_token stop) {
  return std::make_unique<StoppableSource>(std::move(source), std::move(stop));
}

absl::StatusOr<std::string> Peek(std::unique_ptr<ByteSource>& source, std::size_t count) {
  std::string beginning(count, '\0');
  absl::StatusOr<std::size_t> have = ReadFully(*source, beginning.data(), count);
  if (!have.ok()) return have.status();
  beginning.resize(*have);
  source = std::make_unique<PrefixedSource>(beginning, std::move(source));
  return beginning;
}

absl::StatusOr<std::unique_ptr<ByteSource>> Uncompressed(std::unique_ptr<ByteSource> source) {
  absl::StatusOr<std::string> beginning = Peek(source, 2);
  if (!beginning.ok()) return beginning.status();
  if (*beginning != "\x1f\x8b") return source;
  return std::make_unique<GzipSource>(std::move(source));
}

}  // namespace tidepool::io

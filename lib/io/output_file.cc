// SPDX-License-Identifier: Apache-2.0
// Output files: writes through zlib to a temporary file and renames it.
#include "tidepool/trace/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <streambuf>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/io/quote.h"

namespace tidepool {
namespace {

// Stream buffer over zlib, which copies unchanged in its transparent mode.
class GzipBuffer final : public std::streambuf {
 public:
  explicit GzipBuffer(gzFile file) : file_(file) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

  bool Flush() {
    const auto count = static_cast<unsigned>(pptr() - pbase());
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return count == 0 || gzwrite(file_, buffer_.data(), count) == static_cast<int>(count);
  }

 protected:
  int_type overflow(int_type c) override {
    if (!Flush()) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

 private:
  gzFile file_;
  std::array<char, 1 << 16> buffer_;
};

absl::Status FileError(const std::string& path, const char* what) {
  return io::AboutFile(
      path, absl::InvalidArgumentError(absl::StrCat(what, ": ", strerror(errno),
                                                    ", expected a path that can be written")));
}

absl::Status WriteTo(int descriptor, const std::string& path,
                     const std::function<absl::Status(std::ostream&)>& write) {
  gzFile file = gzdopen(descriptor, absl::EndsWith(path, ".gz") ? "wb" : "wbT");
  if (file == nullptr) {
    close(descriptor);
    return FileError(path, "cannot be written");
  }
  GzipBuffer buffer(file);
  std::ostream out(&buffer);
  absl::Status status = write(out);
  const bool complete = out.good() && buffer.Flush();
  errno = 0;
  const bool closed = gzclose(file) == Z_OK;
  if (!status.ok()) return io::AboutFile(path, status);
  return complete && closed ? absl::OkStatus() : FileError(path, "cannot be written completely");
}

}  // namespace

absl::Status WriteFile(const std::string& path,
                       const std::function<absl::Status(std::ostream&)>& write) {
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  // These names may refer to a regular file that is already open: write in target.
  const bool is_open_already = absl::StartsWith(path, "/dev/") || absl::StartsWith(path, "/proc/");
  if (exists && (is_open_already || !S_ISREG(info.st_mode))) {
    const int descriptor =
        path == "/dev/stdout" ? dup(STDOUT_FILENO) : open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError(path, "cannot be opened");
    return WriteTo(descriptor, path, write);
  }
  // Through a symbolic link, replace the file that it points to.
  std::error_code ignored;
  const std::string target =
      exists ? std::filesystem::canonical(path, ignored).string() : std::string(path);
  const std::string draft = absl::StrCat(target, ".", getpid(), ".part");
  const int descriptor = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "cannot be created");
  if (exists) fchmod(descriptor, info.st_mode & 07777);
  absl::Status status = WriteTo(descriptor, path, write);
  if (status.ok() && std::rename(draft.c_str(), target.c_str()) != 0) {
    status = FileError(path, "cannot be replaced");
  }
  if (!status.ok()) unlink(draft.c_str());
  return status;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Output files: writes through zlib to a file without a name, which replaces the old one when it
// is complete.
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
#include <optional>
#include <streambuf>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

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
  return text::AboutFile(
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
  if (!status.ok()) return text::AboutFile(path, status);
  return complete && closed ? absl::OkStatus() : FileError(path, "cannot be written completely");
}

// A file that has no name until it is complete, so a process that is killed leaves no file.
// Some file systems have none (NFS): there it has the name of the draft from the beginning.
class Draft {
 public:
  explicit Draft(const std::string& target) : name_(absl::StrCat(target, ".", getpid(), ".part")) {
    struct stat ignored = {};
    if (lstat(name_.c_str(), &ignored) != 0 && errno == ENAMETOOLONG) return;
    const std::string folder = std::filesystem::path(target).parent_path().string();
    if (access("/proc/self/fd", X_OK) == 0) {
      descriptor_ =
          open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    }
    if (descriptor_ >= 0) return;
    descriptor_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    has_name_ = descriptor_ >= 0;
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (descriptor_ >= 0) close(descriptor_);
    if (has_name_) unlink(name_.c_str());
  }

  int descriptor() const { return descriptor_; }

  // Gives the file the target's name in place of the file that has it. Sets errno on failure.
  bool Rename(const std::string& target) {
    const std::string link = absl::StrCat("/proc/self/fd/", descriptor_);
    has_name_ = has_name_ ||
                linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    if (!has_name_ || std::rename(name_.c_str(), target.c_str()) != 0) return false;
    has_name_ = false;
    return true;
  }

 private:
  std::string name_;
  int descriptor_ = -1;
  bool has_name_ = false;
};

absl::Status Replace(const std::string& target, std::optional<mode_t> mode, const std::string& path,
                     const std::function<absl::Status(std::ostream&)>& write) {
  Draft draft(target);
  if (draft.descriptor() < 0) return FileError(path, "cannot be created");
  if (mode.has_value()) fchmod(draft.descriptor(), *mode);
  if (absl::Status status = WriteTo(dup(draft.descriptor()), path, write); !status.ok()) {
    return status;
  }
  return draft.Rename(target) ? absl::OkStatus() : FileError(path, "cannot be replaced");
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
  return Replace(target, exists ? std::optional(info.st_mode & 07777) : std::nullopt, path, write);
}

}  // namespace tidepool

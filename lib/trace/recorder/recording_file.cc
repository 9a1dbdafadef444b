// SPDX-License-Identifier: Apache-2.0
// Recording file: writes by system calls, so no bytes wait in a buffer of the process.
#include "lib/trace/recorder/recording_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

namespace tidepool::recorder {

namespace {

// Returns the error of the last system call on a file.
absl::Status SystemError(const std::string& path, const char* what) {
  const int error = errno;
  return text::AboutFile(path, absl::Status(absl::ErrnoToStatusCode(error),
                                            absl::StrCat(what, ": ", strerror(error),
                                                         ", expected a path that can be written")));
}

}  // namespace

absl::StatusOr<RecordingFile> RecordingFile::Create(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for its reader.
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) return SystemError(path, "cannot be created");
  RecordingFile file(path, descriptor);
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return text::AboutFile(
        path, absl::InvalidArgumentError("not a regular file, expected a regular file"));
  }
  return file;
}

RecordingFile::RecordingFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

RecordingFile::RecordingFile(RecordingFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

RecordingFile::~RecordingFile() { Close().IgnoreError(); }

absl::Status RecordingFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status RecordingFile::Close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0 || close(descriptor) == 0) return absl::OkStatus();
  return SystemError(path_, "cannot be closed");
}

}  // namespace tidepool::recorder

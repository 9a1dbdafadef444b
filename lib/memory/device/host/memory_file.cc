// SPDX-License-Identifier: Apache-2.0
// All ranges lie in one file, since descriptors are scarce and offsets are plenty. The first free
// range that is large enough serves. The file is as long as the highest offset that was ever used.
#include "lib/memory/device/host/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"

namespace tidepool::host {
namespace {

// The largest length of a file that the system accepts, rounded down to a MiB.
constexpr std::int64_t kLongestFile = std::numeric_limits<std::int64_t>::max() >> 20 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create() {
  const int descriptor = memfd_create("tidepool host device", MFD_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "no file in memory");
  return std::unique_ptr<MemoryFile>(new MemoryFile(descriptor));
}

MemoryFile::MemoryFile(int descriptor) : descriptor_(descriptor), free_(kLongestFile) {}

MemoryFile::~MemoryFile() { close(descriptor_); }

absl::StatusOr<std::int64_t> MemoryFile::Allocate(std::int64_t bytes) {
  const std::optional<std::int64_t> offset = free_.Take(bytes);
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError("no free range of the file in memory is large enough");
  }
  if (absl::Status status = GrowTo(*offset + bytes); !status.ok()) {
    free_.GiveBack(*offset, bytes);
    return status;
  }
  return *offset;
}

void MemoryFile::Free(std::int64_t offset, std::int64_t bytes) {
  // If the pages cannot be given back now, they are used again with the range.
  while (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0 &&
         errno == EINTR) {
  }
  free_.GiveBack(offset, bytes);
}

absl::Status MemoryFile::MapAt(void* address, std::int64_t offset, std::int64_t bytes) const {
  if (mmap(address, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED,
           descriptor_, offset) == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "the host cannot map");
  }
  return absl::OkStatus();
}

absl::Status MemoryFile::GrowTo(std::int64_t bytes) {
  if (bytes <= bytes_) return absl::OkStatus();
  rlimit limit{};
  // Beyond the limit the system sends a signal that ends the process.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<rlim_t>(bytes) > limit.rlim_cur) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the file in memory cannot grow to ", text::ExactSize(bytes), ", expected at most ",
        text::ExactSize(static_cast<std::int64_t>(limit.rlim_cur)),
        ": the limit on the size of files"));
  }
  if (ftruncate(descriptor_, bytes) != 0) {
    return absl::ErrnoToStatus(errno, "the file in memory cannot grow");
  }
  bytes_ = bytes;
  return absl::OkStatus();
}

}  // namespace tidepool::host

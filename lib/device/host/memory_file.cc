// SPDX-License-Identifier: Apache-2.0
// All ranges lie in one file, since descriptors are scarce and offsets are plenty. The first free
// range that is large enough serves. The file is as long as the highest offset that was ever used.
#include "lib/device/host/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/text/sizes.h"

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

MemoryFile::MemoryFile(int descriptor) : descriptor_(descriptor), free_{{0, kLongestFile}} {}

MemoryFile::~MemoryFile() { close(descriptor_); }

absl::StatusOr<std::int64_t> MemoryFile::Allocate(std::int64_t bytes) {
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& range) { return range.second >= bytes; });
  if (found == free_.end()) {
    return absl::ResourceExhaustedError("no free range of the file in memory is large enough");
  }
  const auto [offset, free_bytes] = *found;
  if (absl::Status status = GrowTo(offset + bytes); !status.ok()) return status;
  free_.erase(found);
  if (free_bytes > bytes) free_.emplace(offset + bytes, free_bytes - bytes);
  return offset;
}

void MemoryFile::Free(std::int64_t offset, std::int64_t bytes) {
  // If the pages cannot be given back now, they are used again with the range.
  while (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) != 0 &&
         errno == EINTR) {
  }
  auto stretch = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(stretch); next != free_.end() && next->first == offset + bytes) {
    stretch->second += next->second;
    free_.erase(next);
  }
  if (stretch == free_.begin()) return;
  const auto previous = std::prev(stretch);
  if (previous->first + previous->second == offset) {
    previous->second += stretch->second;
    free_.erase(stretch);
  }
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

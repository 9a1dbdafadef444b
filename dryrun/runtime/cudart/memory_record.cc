// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/memory_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tidepool::cudart_host {

void MemoryRecord::Served(int device, std::int64_t bytes, std::int64_t held) {
  const locks::MutexLock lock(&mutex_);
  Entry& entry = Of(device);
  const bool was_refused = entry.refused_bytes > 0 && bytes >= entry.refused_bytes;
  if (held <= entry.peak_bytes && !was_refused) return;
  entry.peak_bytes = std::max(held, entry.peak_bytes);
  if (was_refused) entry.refused_bytes = 0;
  Write(device);
}

void MemoryRecord::Refused(int device, std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  Of(device).refused_bytes = bytes;
  Write(device);
}

MemoryRecord::Entry& MemoryRecord::Of(int device) {
  const auto index = static_cast<std::size_t>(device - kHost);
  if (index >= entries_.size()) entries_.resize(index + 1);
  return entries_[index];
}

void MemoryRecord::Write(int device) {
  const char* const folder = std::getenv("CUDART_HOST_FOLDER");
  if (folder == nullptr) return;
  if (file_ < 0) {
    const std::string path = std::string(folder) + "/memory-" + std::to_string(getpid());
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  const Entry entry = Of(device);
  const auto offset = static_cast<off_t>(sizeof(entry)) * (device - kHost);
  if (pwrite(file_, &entry, sizeof(entry), offset) != static_cast<ssize_t>(sizeof(entry))) {
    std::fprintf(stderr, "cudart_host: CUDART_HOST_FOLDER=%s cannot be written: %s\n", folder,
                 std::strerror(errno));
  }
}

}  // namespace tidepool::cudart_host

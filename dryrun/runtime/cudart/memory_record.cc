// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/memory_record.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace tidepool::cudart_host {
namespace {

constexpr std::string_view kPrefix = "memory-";

// A lock of the whole file. It ends with the process that holds it, however that ends, and a forked
// process does not inherit it.
struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool IsLocked(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct flock lock = WholeFile();
  const bool is_locked = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  return is_locked;
}

// Returns the other processes with a record in the folder that live, each after a blank.
std::string OthersIn(const std::string& folder) {
  std::string others;
  std::error_code error;
  const std::string own = std::string(kPrefix) + std::to_string(getpid());
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    // Its own lock would end where it closes the file.
    if (!name.starts_with(kPrefix) || name == own || !IsLocked(at->path())) continue;
    others += " " + name.substr(kPrefix.size());
  }
  return others;
}

// Whether the process has PyTorch for Python, which the dry run's own part in Python records.
bool HasPyTorch() {
  void* const library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

}  // namespace

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
  if (file_ < 0) Open(folder);
  const Entry entry = Of(device);
  const auto offset = static_cast<off_t>(sizeof(entry)) * (device - kHost);
  if (pwrite(file_, &entry, sizeof(entry), offset) != static_cast<ssize_t>(sizeof(entry))) {
    std::fprintf(stderr, "cudart_host: CUDART_HOST_FOLDER=%s cannot be written: %s\n", folder,
                 std::strerror(errno));
  }
}

// The lock comes first: of two processes that begin at a time, at least one finds the other.
void MemoryRecord::Open(const std::string& folder) {
  const std::string process = std::to_string(getpid());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  file_ = open((folder + "/" + std::string(kPrefix) + process).c_str(),
               O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  struct flock lock = WholeFile();
  fcntl(file_, F_SETLK, &lock);
  std::ofstream beside(folder + "/beside-" + process);
  beside << std::chrono::nanoseconds(now).count() << OthersIn(folder) << '\n';
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) beside << visible << '\n';
  if (HasPyTorch()) std::ofstream(folder + "/pytorch-" + process);
}

}  // namespace tidepool::cudart_host

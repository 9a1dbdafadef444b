// SPDX-License-Identifier: Apache-2.0
// Pages are populated in stretches that threads take in turn; where the system cannot populate
// (before Linux 5.14), a byte of every page is written.
#include "lib/memory/pinned/host_memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/thread.h"
#include "lib/base/text/sizes.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

namespace tidepool::pinned {
namespace {

constexpr std::int64_t kStretch = std::int64_t{8} << 20;
constexpr int kMostThreads = 16;
constexpr int kMostThreadsAsked = 1024;
constexpr int kMostNodes = 1024;

absl::Status NoMemory(std::int64_t bytes, int error) {
  return absl::Status(absl::StatusCode::kResourceExhausted,
                      absl::StrCat("the host cannot map ", text::ExactSize(bytes),
                                   ", expected free memory and limits (ulimit -v) for them: ",
                                   absl::ErrnoToStatus(error, "mmap").message()));
}

absl::StatusOr<void*> MapHuge(std::int64_t bytes) {
  void* const address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
  if (address != MAP_FAILED) return address;
  return absl::ResourceExhaustedError(absl::StrCat(
      "huge pages are required, expected ", bytes / kHugePage,
      " free ones of 2 MiB (vm.nr_hugepages): ", absl::ErrnoToStatus(errno, "mmap").message()));
}

// Maps memory that begins at a multiple of the alignment: transparent huge pages need that.
absl::StatusOr<void*> MapAligned(std::int64_t bytes, std::int64_t alignment) {
  const std::int64_t slack = alignment - kPage;
  void* const mapped = mmap(nullptr, static_cast<std::size_t>(bytes + slack),
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NoMemory(bytes, errno);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const auto before =
      static_cast<std::int64_t>(-begin & static_cast<std::uintptr_t>(alignment - 1));
  char* const address = static_cast<char*>(mapped) + before;
  if (before > 0) UnmapMemory(mapped, before);
  if (before < slack) UnmapMemory(address + bytes, slack - before);
  return address;
}

// Makes the system call itself, because the library for it (libnuma) would do no more here.
absl::Status BindToNode(void* address, std::int64_t bytes, int node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> nodes{};
  nodes[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  if (syscall(SYS_mbind, address, bytes, MPOL_BIND, nodes.data(), kMostNodes + 1, 0) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(
      errno, absl::StrCat("numa_node ", node,
                          ", expected an online node that this process may choose: mbind"));
}

absl::Status Populate(char* address, std::int64_t bytes) {
  while (madvise(address, static_cast<std::size_t>(bytes), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) {
      for (std::int64_t at = 0; at < bytes; at += kPage) {
        // Other threads write other pages, and the contents of this page stay.
        volatile char* const byte = address + at;
        *byte = *byte;
      }
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "the host cannot touch ", text::ExactSize(bytes),
        ", expected free pages for them: ", absl::ErrnoToStatus(errno, "madvise").message()));
  }
  return absl::OkStatus();
}

int ThreadsFor(std::int64_t bytes, const HostPageOptions& options) {
  const int asked =
      options.threads > 0
          ? options.threads
          : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
  return static_cast<int>(std::min<std::int64_t>(asked, CeilDivide(bytes, kStretch)));
}

}  // namespace

absl::Status CheckPageOptions(const HostPageOptions& options) {
  if (options.numa_node < kAnyNumaNode || options.numa_node >= kMostNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("numa_node ", options.numa_node, ", expected -1 (any) to ", kMostNodes - 1));
  }
  if (options.threads < 0 || options.threads > kMostThreadsAsked) {
    return absl::InvalidArgumentError(absl::StrCat("threads ", options.threads,
                                                   ", expected 0 (as many as processors) to ",
                                                   kMostThreadsAsked));
  }
  return absl::OkStatus();
}

absl::StatusOr<void*> MapMemory(std::int64_t bytes, const HostPageOptions& options) {
  const bool is_advised = options.huge_pages == HugePages::kAdvised && bytes >= kHugePage;
  absl::StatusOr<void*> address = options.huge_pages == HugePages::kRequired
                                      ? MapHuge(bytes)
                                      : MapAligned(bytes, is_advised ? kHugePage : kPage);
  if (!address.ok()) return address;
  // The system uses small pages when it refuses.
  if (is_advised) {
    static_cast<void>(madvise(*address, static_cast<std::size_t>(bytes), MADV_HUGEPAGE));
  }
  if (options.numa_node == kAnyNumaNode) return address;
  absl::Status status = BindToNode(*address, bytes, options.numa_node);
  if (status.ok()) return address;
  UnmapMemory(*address, bytes);
  return status;
}

absl::Status TouchMemory(void* address, std::int64_t bytes, const HostPageOptions& options) {
  std::atomic<std::int64_t> next = 0;
  locks::Mutex mutex;  // guards first_error
  absl::Status first_error;
  const auto touch = [&] {
    for (;;) {
      const std::int64_t begin = next.fetch_add(kStretch, std::memory_order_relaxed);
      if (begin >= bytes) return;
      absl::Status status =
          Populate(static_cast<char*>(address) + begin, std::min(kStretch, bytes - begin));
      if (status.ok()) continue;
      next.store(bytes, std::memory_order_relaxed);
      const locks::MutexLock lock(&mutex);
      first_error.Update(status);
      return;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < ThreadsFor(bytes, options); ++i) {
    absl::StatusOr<std::thread> other = locks::StartThread(touch);
    if (!other.ok()) break;  // fewer threads touch all pages too, more slowly
    others.push_back(*std::move(other));
  }
  touch();
  for (std::thread& other : others) other.join();
  return first_error;
}

void UnmapMemory(void* address, std::int64_t bytes) {
  if (munmap(address, static_cast<std::size_t>(bytes)) == 0) return;
  // A process has a limit of mappings, and unmapping a part can need a new one. The addresses then
  // stay, without memory.
  static_cast<void>(madvise(address, static_cast<std::size_t>(bytes), MADV_DONTNEED));
}

// Touching memory is the slow part of pinning, and threads share it. So every page is there when
// the device registers the memory.
absl::StatusOr<PinnedMemory> Pinner::Pin(std::int64_t bytes) const {
  const auto begun = std::chrono::steady_clock::now();
  const absl::StatusOr<void*> address = MapMemory(bytes, pages_);
  if (!address.ok()) return address.status();
  absl::Status status = TouchMemory(*address, bytes, pages_);
  if (status.ok()) status = device_.RegisterHostMemory(*address, bytes);
  if (!status.ok()) {
    UnmapMemory(*address, bytes);
    return status;
  }
  return PinnedMemory{*address, bytes,
                      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count()};
}

absl::Status Pinner::Unpin(void* address, std::int64_t bytes) const {
  absl::Status status = device_.UnregisterHostMemory(address);
  if (status.ok()) UnmapMemory(address, bytes);
  return status;
}

}  // namespace tidepool::pinned

// SPDX-License-Identifier: Apache-2.0
// The store in a file without a name. Several threads read or write the parts of a block: one keeps
// up neither with a link of a GPU nor with a fast disk.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/arithmetic.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/sizes.h"
#include "lib/copies/contents/block_bytes.h"
#include "lib/copies/zvc/kernels.h"
#include "lib/copies/zvc/worker_pool.h"
#include "lib/copies/zvc/zero_value_format.h"
#include "tidepool/copies/contents_stores.h"

namespace tidepool {
namespace {

using contents::kBlockBytes;

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;
constexpr std::size_t kMostParts = kBlockBytes / kPartBytes;
constexpr int kThreads = 3;  // beside the caller's

// Returns a descriptor, or -1 and errno. A file system without such files (NFS) gets a file that
// loses its name at once.
int OpenWithoutName(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  std::string name = absl::StrCat(folder, "/tidepool.XXXXXX");
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

// Returns the codec's checksum of a payload with these bytes.
std::uint64_t ChecksumOf(absl::Span<const std::byte> block) {
  static const zvc::Kernel& kernel =
      zvc::KernelFor(zvc::BestInstructionSet(), ZeroValueWord::k32Bits);
  zvc::RowSums sums;
  const std::size_t whole_rows = block.size() / zvc::kRowBytes * zvc::kRowBytes;
  kernel.sum(block.data(), whole_rows, sums);
  std::array<std::byte, zvc::kRowBytes> last_row = {};
  std::copy(block.begin() + static_cast<std::ptrdiff_t>(whole_rows), block.end(), last_row.begin());
  kernel.sum(last_row.data(), last_row.size(), sums);
  return zvc::BlockHash(0, zvc::IndexEntry{}, sums);
}

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// A forked child closes the files of all stores: the space of a file would be taken as long as the
// child runs. Its copies of the stores are of no use to it.
class FileStore final : public ContentsStore {
 public:
  FileStore(std::string folder, int descriptor, std::unique_ptr<zvc::WorkerPool> workers)
      : folder_(std::move(folder)), descriptor_(descriptor), workers_(std::move(workers)) {
    static const int watches_forks = pthread_atfork(&BeforeFork, &AfterFork, &InChild);
    static_cast<void>(watches_forks);
    const locks::MutexLock lock(&list_mutex);
    List().push_back(this);
  }
  ~FileStore() override {
    const locks::MutexLock lock(&list_mutex);
    std::erase(List(), this);
    if (descriptor_ >= 0) close(descriptor_);
  }
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  std::int64_t block_bytes() const override { return kBlockBytes; }
  SleepMode mode() const override { return SleepMode::kDisk; }
  std::int64_t held_bytes() const override { return bytes_; }

  // A file system that cannot take space beforehand answers at the block that lacks it.
  absl::Status Begin(std::int64_t bytes) override {
    bytes_ = bytes;
    checksums_.resize(static_cast<std::size_t>(CeilDivide(bytes, kPartBytes)));
    while (fallocate(descriptor_, 0, 0, bytes) != 0) {
      if (errno == EOPNOTSUPP) break;
      if (errno != EINTR) return Error("written");
    }
    return absl::OkStatus();
  }
  absl::Status Put(std::int64_t index, absl::Span<const std::byte> block) override {
    return ForEachPart(index, block, [this](std::size_t part, absl::Span<const std::byte> bytes) {
      checksums_[part] = ChecksumOf(bytes);
      return Transfer(part, bytes, pwrite, "written");
    });
  }
  absl::Status Get(std::int64_t index, absl::Span<std::byte> block) override {
    return ForEachPart(index, block, [this](std::size_t part, absl::Span<std::byte> bytes) {
      absl::Status status = Transfer(part, bytes, pread, "read");
      if (!status.ok() || ChecksumOf(bytes) == checksums_[part]) return status;
      const std::int64_t begin = BeginOf(part);
      return absl::DataLossError(
          absl::StrCat(Name(), " has other bytes than were written, between ", begin, " and ",
                       begin + static_cast<std::int64_t>(bytes.size())));
    });
  }

 private:
  // Constant initialisation and no destructor: programs may use pools until their very end.
  static constinit locks::Mutex list_mutex;
  static std::vector<FileStore*>& List() ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mutex) {
    static auto& list = *new std::vector<FileStore*>();
    return list;
  }
  static void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { list_mutex.Lock(); }
  static void AfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { list_mutex.Unlock(); }
  static void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (FileStore* const store : List()) {
      close(std::exchange(store->descriptor_, -1));
      static_cast<void>(store->workers_.release());  // their threads are not in the child
    }
    List().clear();
    list_mutex.Unlock();
  }

  static std::int64_t BeginOf(std::size_t part) {
    return static_cast<std::int64_t>(part) * kPartBytes;
  }

  // Calls a function with the number and the bytes of each part of a block, on several threads.
  // Returns the error of the first part that has one.
  template <typename Byte, typename Call>
  absl::Status ForEachPart(std::int64_t index, absl::Span<Byte> block, Call call) {
    std::array<absl::Status, kMostParts> results;
    std::atomic<std::size_t> next = 0;
    const auto count =
        static_cast<std::size_t>(CeilDivide(static_cast<std::int64_t>(block.size()), kPartBytes));
    const std::size_t first = static_cast<std::size_t>(index) * kMostParts;
    const auto take_parts = [&] {
      for (std::size_t part = next++; part < count; part = next++) {
        results[part] =
            call(first + part, block.subspan(static_cast<std::size_t>(BeginOf(part)), kPartBytes));
      }
    };
    if (count > 1) {
      workers_->RunWithAll(take_parts);
    } else {
      take_parts();
    }
    absl::Status status;
    for (const absl::Status& result : results) status.Update(result);
    return status;
  }

  // Calls pread or pwrite until it has seen the whole part.
  template <typename Byte, typename Call>
  absl::Status Transfer(std::size_t part, absl::Span<Byte> memory, Call call, const char* done) {
    std::size_t ready = 0;
    while (ready < memory.size()) {
      const off_t offset = BeginOf(part) + static_cast<off_t>(ready);
      const ssize_t bytes = call(descriptor_, memory.data() + ready, memory.size() - ready, offset);
      if (bytes == 0) errno = EIO;  // a file that another process has cut
      if (bytes == 0 || (bytes < 0 && errno != EINTR)) {
        return Error(absl::StrCat(done, " at byte ", offset));
      }
      if (bytes > 0) ready += static_cast<std::size_t>(bytes);
    }
    return absl::OkStatus();
  }
  std::string Name() const {
    return absl::StrCat("a file of ", text::ExactSize(bytes_), " in the folder ",
                        text::FileName(folder_));
  }
  absl::Status Error(absl::string_view done) const {
    const int error = errno;
    const std::string text = absl::StrCat(Name(), " cannot be ", done, ": ", strerror(error));
    if (!IsFull(error)) return absl::UnavailableError(text);
    return absl::ResourceExhaustedError(
        absl::StrCat(text, " (make room there, or name a folder of another disk)"));
  }

  const std::string folder_;
  int descriptor_;
  std::int64_t bytes_ = 0;
  std::vector<std::uint64_t> checksums_;  // of the parts, in order
  std::unique_ptr<zvc::WorkerPool> workers_;
};

constinit locks::Mutex FileStore::list_mutex;

}  // namespace

absl::StatusOr<std::unique_ptr<ContentsStore>> MakeFileStore(const std::string& folder) {
  const int descriptor = OpenWithoutName(folder);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the folder ", text::FileName(folder),
                                                   " takes no file: ", strerror(errno),
                                                   ", expected a folder that can be written"));
  }
  absl::StatusOr<std::unique_ptr<zvc::WorkerPool>> workers = zvc::WorkerPool::Create(kThreads);
  if (!workers.ok()) {
    close(descriptor);
    return workers.status();
  }
  return std::make_unique<FileStore>(folder, descriptor, *std::move(workers));
}

}  // namespace tidepool

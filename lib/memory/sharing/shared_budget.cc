// SPDX-License-Identifier: Apache-2.0
// The file is read and written, not mapped: a file that another process cuts is then an error, and
// no signal. All locks belong to open files: a lock of the process would end when any part of it
// closes the file, and another copy of this library in it would not see that lock. The first byte
// is locked during a change, by an open file that forked children close: so that lock ends with the
// process, and the locks of entries with its last child.
#include "lib/memory/sharing/shared_budget.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/sharing/ending_process.h"

namespace tidepool::sharing {
namespace {

using text::ExactSize;

constexpr std::string_view kMagic = "tpbudget";
constexpr std::int64_t kVersion = 1;

struct flock ByteAt(short type, std::size_t offset) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = 1;
  return lock;
}

// Repeats a call that a signal interrupts.
template <typename Call>
auto Uninterrupted(Call call) -> decltype(call()) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

bool Lock(int descriptor, int command, std::size_t offset) {
  struct flock lock = ByteAt(F_WRLCK, offset);
  return Uninterrupted([&] { return fcntl(descriptor, command, &lock); }) == 0;
}

void Unlock(int descriptor, std::size_t offset) {
  struct flock lock = ByteAt(F_UNLCK, offset);
  fcntl(descriptor, F_OFD_SETLK, &lock);
}

// Whether another open file locks a byte. True where the system does not tell.
bool IsLocked(int descriptor, std::size_t offset) {
  struct flock lock = ByteAt(F_WRLCK, offset);
  return fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

int Open(const std::string& path, int flags) {
  return open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
}

bool AreOneFile(int one, int other) {
  struct stat first = {};
  struct stat second = {};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// The lock of the file for a scope.
class FileLock {
 public:
  explicit FileLock(int descriptor)
      : descriptor_(descriptor), is_held_(Lock(descriptor, F_OFD_SETLKW, 0)) {}
  ~FileLock() {
    if (is_held_) Unlock(descriptor_, 0);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_held() const { return is_held_; }

 private:
  const int descriptor_;
  const bool is_held_;
};

}  // namespace

locks::Mutex SharedBudget::mutex_;

struct SharedBudget::Head {
  char magic[kMagic.size()];
  std::int64_t version;
  std::int64_t limit_bytes;
  std::uint64_t changes;   // times that there was more room
  std::uint64_t refusals;  // of charges
};

struct SharedBudget::Entry {
  std::int64_t process;  // 0: the entry is free
  std::int64_t bytes;
  std::int64_t wanted_bytes;  // of the last request that told it
  std::uint64_t wants;        // requests of all that had the entry
};

struct SharedBudget::Table {
  Head head;
  std::array<Entry, kMostPools> entries;

  static std::size_t OffsetOf(std::size_t entry) { return sizeof(Head) + entry * sizeof(Entry); }
  bool operator==(const Table& other) const {
    return std::memcmp(this, &other, sizeof(*this)) == 0;
  }
  std::int64_t TakenBytes() const {
    std::int64_t bytes = 0;
    for (const Entry& entry : entries) bytes += entry.bytes;
    return bytes;
  }
};

SharedBudget::SharedBudget(const std::string& path)
    : path_(path), name_(text::FileName(path)), process_(getpid()) {}

void SharedBudget::BeginFork() { mutex_.Lock(); }

void SharedBudget::EndForkInParent() { mutex_.Unlock(); }

void SharedBudget::EndForkInChild() {
  mutex_.AssertHeld();
  for (SharedBudget* const budget : Budgets()) close(std::exchange(budget->lock_file_, -1));
  new (&mutex_) locks::Mutex;
}

std::set<SharedBudget*>& SharedBudget::Budgets() {
  static auto& budgets = *new std::set<SharedBudget*>();
  return budgets;
}

absl::StatusOr<std::unique_ptr<SharedBudget>> SharedBudget::Join(const std::string& path,
                                                                 std::int64_t bytes) {
  static const int watches_forks = pthread_atfork(BeginFork, EndForkInParent, EndForkInChild);
  if (watches_forks != 0) return absl::InternalError("a shared budget cannot watch forks");
  std::unique_ptr<SharedBudget> budget(new SharedBudget(path));
  absl::Status status = budget->OpenFiles();
  if (!status.ok()) return status;
  status = budget->Change([&](Table& table) { return budget->Enter(table, bytes); });
  if (!status.ok()) return status;
  return budget;
}

absl::Status SharedBudget::OpenFiles() {
  const locks::MutexLock lock(&mutex_);
  descriptor_ = Open(path_, 0);
  // In folders for all users the system refuses O_CREAT for the file of another user.
  if (descriptor_ < 0 && errno == ENOENT) descriptor_ = Open(path_, O_CREAT);
  if (descriptor_ >= 0) lock_file_ = Open(path_, 0);
  if (lock_file_ < 0) return SystemError(errno, "opened for reading and writing");
  Budgets().insert(this);
  return AreOneFile(descriptor_, lock_file_) ? absl::OkStatus() : CutError();
}

// A child's copy of the descriptor shares the lock of the entry, so it ends only by Unlock.
SharedBudget::~SharedBudget() {
  bool holds_memory = false;
  if (own_ != kMostPools) {
    Change([&](Table& table) {
      Entry& own = table.entries[own_];
      holds_memory = own.bytes > 0;
      if (holds_memory) return absl::OkStatus();
      own = {.process = 0, .bytes = 0, .wanted_bytes = 0, .wants = own.wants};
      Unlock(descriptor_, Table::OffsetOf(own_));
      return absl::OkStatus();
    }).IgnoreError();
  }
  const locks::MutexLock lock(&mutex_);
  Budgets().erase(this);
  if (lock_file_ >= 0) close(lock_file_);
  if (descriptor_ >= 0 && !holds_memory) close(descriptor_);
}

absl::Status SharedBudget::Charge(std::int64_t bytes) {
  return Change([&](Table& table) {
    mutex_.AssertHeld();
    if (absl::Status status = Allow(table, bytes); !status.ok()) return status;
    Entry& own = table.entries[own_];
    own.bytes += bytes;
    if (own.wants != waiting_) own.wanted_bytes = 0;
    return absl::OkStatus();
  });
}

// Without the file the bytes stay counted, and Charge tells why.
void SharedBudget::GiveBack(std::int64_t bytes) {
  Change([&](Table& table) {
    mutex_.AssertHeld();
    table.entries[own_].bytes -= bytes;
    CountChange(table);
    return absl::OkStatus();
  }).IgnoreError();
}

// Without a refusal meanwhile nothing has changed. Else two pools that wait for the device would
// wake each other in turn.
void SharedBudget::Undo(std::int64_t bytes) {
  Change([&](Table& table) {
    mutex_.AssertHeld();
    table.entries[own_].bytes -= bytes;
    if (RefusalsOfOthers(table) != told_refusals_) CountChange(table);
    return absl::OkStatus();
  }).IgnoreError();
}

SharedBudget::Others SharedBudget::ReadOthers() const {
  Others others;
  Change([&](const Table& table) {
    mutex_.AssertHeld();
    others = {.changes = table.head.changes - own_changes_,
              .hold_memory = table.TakenBytes() > table.entries[own_].bytes};
    return absl::OkStatus();
  }).IgnoreError();
  return others;
}

std::uint64_t SharedBudget::TellWanted(std::int64_t bytes, bool is_waiting) {
  std::uint64_t number = 0;
  Change([&](Table& table) {
    mutex_.AssertHeld();
    Entry& own = table.entries[own_];
    const std::int64_t taken = table.TakenBytes();
    if (taken == own.bytes || bytes <= table.head.limit_bytes - taken) return absl::OkStatus();
    own.wanted_bytes = bytes;
    number = ++own.wants;
    if (is_waiting) waiting_ = number;
    return absl::OkStatus();
  }).IgnoreError();
  return number;
}

void SharedBudget::EndWanted(std::uint64_t number) {
  Change([&](Table& table) {
    Entry& own = table.entries[own_];
    if (own.wants == number) own.wanted_bytes = 0;
    return absl::OkStatus();
  }).IgnoreError();
}

std::int64_t SharedBudget::TakeWanted() {
  std::int64_t bytes = 0;
  Change([&](const Table& table) {
    mutex_.AssertHeld();
    for (std::size_t i = 0; i < kMostPools; ++i) {
      const Entry& entry = table.entries[i];
      const bool is_new = std::exchange(seen_wants_[i], entry.wants) != entry.wants;
      if (is_new && i != own_) bytes += entry.wanted_bytes;
    }
    return absl::OkStatus();
  }).IgnoreError();
  return bytes;
}

absl::Status SharedBudget::Change(absl::FunctionRef<absl::Status(Table&)> change) const {
  if (getpid() != process_) {
    return absl::FailedPreconditionError(absl::StrCat("process ", process_, " shares a budget by ",
                                                      name_,
                                                      ": a forked child makes a pool of its own"));
  }
  const locks::MutexLock lock(&mutex_);
  const FileLock file(lock_file_);
  if (!file.is_held()) return SystemError(errno, "locked");
  Table before = {};
  if (absl::Status status = ReadOrMake(before); !status.ok()) return status;
  Table table = before;
  ForgetEnded(table);
  absl::Status status = change(table);
  const bool was_refused_to_join = own_ == kMostPools;
  if (table == before || was_refused_to_join) return status;
  const ssize_t written =
      Uninterrupted([&] { return pwrite(descriptor_, &table, sizeof(table), 0); });
  if (written != static_cast<ssize_t>(sizeof(table))) return SystemError(errno, "written");
  return status;
}

// A process that ended while it made the file leaves zeros.
absl::Status SharedBudget::ReadOrMake(Table& table) const {
  struct stat file = {};
  if (fstat(descriptor_, &file) != 0) return SystemError(errno, "read");
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " is no regular file, expected one for a shared budget"));
  }
  const ssize_t bytes = Uninterrupted([&] { return pread(descriptor_, &table, sizeof(table), 0); });
  if (bytes < 0) return SystemError(errno, "read");
  const bool is_new = own_ == kMostPools && table == Table() &&
                      (file.st_size == 0 || file.st_size == sizeof(table));
  if (!is_new) return Check(table, file.st_nlink == 0 ? 0 : file.st_size);
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(descriptor_, 0, sizeof(table));
  if (error != 0) return SystemError(error, "given its 2 KiB");
  std::ranges::copy(kMagic, table.head.magic);
  table.head.version = kVersion;
  return absl::OkStatus();
}

absl::Status SharedBudget::Check(const Table& table, std::int64_t bytes) const {
  if (own_ != kMostPools && (bytes != sizeof(table) || table.entries[own_].process != process_)) {
    return CutError();
  }
  if (std::string_view(table.head.magic, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file ", name_, " is not of a shared budget: name another one"));
  }
  if (table.head.version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file ", name_, " of a shared budget has version ", table.head.version, ", expected ",
        kVersion, ": use one version of tidepool, or remove the file when no pool uses it"));
  }
  if (bytes == sizeof(table)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the file ", name_, " of a shared budget has ",
                                                 bytes, " bytes, expected ", sizeof(table),
                                                 ": remove it when no pool uses it"));
}

absl::Status SharedBudget::Enter(Table& table, std::int64_t bytes) {
  for (std::size_t i = 0; i < kMostPools; ++i) {
    const bool is_free = table.entries[i].process == 0;
    if (is_free && IsLocked(descriptor_, Table::OffsetOf(i))) return CutError();
  }
  const bool is_used =
      std::ranges::any_of(table.entries, [](const Entry& entry) { return entry.process != 0; });
  if (is_used && table.head.limit_bytes != bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("pools share ", ExactSize(table.head.limit_bytes), " by ", name_, " (",
                     HoldersIn(table), "), and this one asks to share ", ExactSize(bytes),
                     ": give all of them the same max_bytes"));
  }
  const auto* const entry =
      std::ranges::find_if(table.entries, [](const Entry& each) { return each.process == 0; });
  const auto index = static_cast<std::size_t>(entry - table.entries.begin());
  if (index == kMostPools) {
    return absl::ResourceExhaustedError(absl::StrCat(kMostPools, " pools share the budget of ",
                                                     name_, ", expected fewer: use another file"));
  }
  if (!Lock(descriptor_, F_OFD_SETLK, Table::OffsetOf(index))) return SystemError(errno, "locked");
  own_ = index;
  table.head.limit_bytes = bytes;
  table.entries[own_].process = process_;
  mutex_.AssertHeld();
  for (std::size_t i = 0; i < kMostPools; ++i) seen_wants_[i] = table.entries[i].wants;
  told_refusals_ = RefusalsOfOthers(table);
  return absl::OkStatus();
}

// The lock of this pool's own entry is no conflict, and is not asked for.
void SharedBudget::ForgetEnded(Table& table) const {
  for (std::size_t i = 0; i < kMostPools; ++i) {
    Entry& entry = table.entries[i];
    if (i == own_ || entry.process == 0) continue;
    if (IsLocked(descriptor_, Table::OffsetOf(i)) || IsEnding(entry.process)) continue;
    if (entry.bytes > 0) ++table.head.changes;
    entry = {.process = 0, .bytes = 0, .wanted_bytes = 0, .wants = entry.wants};
  }
}

void SharedBudget::CountChange(Table& table) const {
  ++table.head.changes;
  ++own_changes_;
  told_refusals_ = RefusalsOfOthers(table);
}

std::uint64_t SharedBudget::RefusalsOfOthers(const Table& table) const {
  return table.head.refusals - own_refusals_;
}

absl::Status SharedBudget::Allow(Table& table, std::int64_t bytes) const {
  if (bytes <= table.head.limit_bytes - table.TakenBytes()) return absl::OkStatus();
  ++table.head.refusals;
  ++own_refusals_;
  return absl::ResourceExhaustedError(absl::StrCat(
      ExactSize(bytes), " more of the device's memory exceed the budget of ",
      ExactSize(table.head.limit_bytes), " that pools share by ", name_, ": ", HoldersIn(table),
      "; let one of them give memory back (Trim), or raise max_bytes in all"));
}

std::string SharedBudget::HoldersIn(const Table& table) const {
  std::string text;
  for (std::size_t i = 0; i < kMostPools; ++i) {
    const Entry& entry = table.entries[i];
    if (entry.process == 0) continue;
    const bool lives = i == own_ || IsLocked(descriptor_, Table::OffsetOf(i));
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    i == own_ ? "this pool" : absl::StrCat("process ", entry.process),
                    lives ? "" : ", which is ending,", " holds ", ExactSize(entry.bytes));
  }
  return text;
}

absl::Status SharedBudget::CutError() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the file ", name_,
                   " of a shared budget was removed or cut while pools use "
                   "it: end them, and begin with a new file"));
}

absl::Status SharedBudget::SystemError(int error, const char* done) const {
  return absl::ErrnoToStatus(
      error, absl::StrCat("the file ", name_, " of a shared budget cannot be ", done));
}

}  // namespace tidepool::sharing

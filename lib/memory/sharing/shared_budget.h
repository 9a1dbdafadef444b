// SPDX-License-Identifier: Apache-2.0
// SharedBudget: a budget of device memory that pools of several processes share, by a file.
//
// Each pool has an entry in the file, with the bytes that it holds, and locks it as long as it
// lives. The lock ends with the process, however that ends, and an entry without a lock counts no
// more. A forked child has the lock too: a child that outlives its parent keeps the entry, and it
// keeps the memory of the device likewise.
#ifndef TIDEPOOL_LIB_MEMORY_SHARING_SHARED_BUDGET_H_
#define TIDEPOOL_LIB_MEMORY_SHARING_SHARED_BUDGET_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::sharing {

// Thread-safe. Each function locks the file while it reads and writes 2 KiB of it. In a forked
// child Charge fails, and the others do nothing.
class SharedBudget {
 public:
  static constexpr std::size_t kMostPools = 64;

  // Joins the pools that share `bytes` by the file at `path`. Makes a missing file; one that no
  // pool uses takes the budget of the first. InvalidArgument for a file of something else, of
  // another version or length; FailedPrecondition when pools share another budget by it;
  // ResourceExhausted when kMostPools do; else the error of the system.
  static absl::StatusOr<std::unique_ptr<SharedBudget>> Join(const std::string& path,
                                                            std::int64_t bytes);
  // Leaves them. Bytes that were not given back count until the process ends.
  ~SharedBudget();
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  // Counts memory that the pool is about to take. ResourceExhausted, with all holders, when it
  // exceeds the budget. FailedPrecondition when the file was removed or cut.
  absl::Status Charge(std::int64_t bytes);
  // Counts memory no more, after the device has it back.
  void GiveBack(std::int64_t bytes);
  // Undoes a charge of memory that the device refused.
  void Undo(std::int64_t bytes);
  // The other pools. `changes` grows when one gives memory back or ends, or undoes a charge for
  // which a pool was refused.
  struct Others {
    std::uint64_t changes = 0;
    bool hold_memory = false;
  };
  Others ReadOthers() const;
  // Tells the others that a request of `bytes` was refused, or waits, where they hold memory and
  // leave too little. Returns its number; 0: it was not told. A charge ends the word of a refused
  // one.
  std::uint64_t TellWanted(std::int64_t bytes, bool is_waiting);
  // Ends the word of a request, unless another one told more since.
  void EndWanted(std::uint64_t number);
  // Returns the bytes that others told since the last call, and still want.
  std::int64_t TakeWanted();

 private:
  struct Head;
  struct Entry;
  struct Table;

  explicit SharedBudget(const std::string& path);

  absl::Status OpenFiles();
  // A fork waits for the changes of other threads, and the child closes the lock files.
  static void BeginFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_);
  static void EndForkInParent() ABSL_UNLOCK_FUNCTION(mutex_);
  static void EndForkInChild();
  // Returns the budgets of the process. They have no destructor: programs may use pools until
  // their very end.
  static std::set<SharedBudget*>& Budgets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Reads the file under its lock, takes ended processes out, calls `change`, and writes the file.
  absl::Status Change(absl::FunctionRef<absl::Status(Table&)> change) const;
  absl::Status ReadOrMake(Table& table) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Check(const Table& table, std::int64_t bytes) const;
  absl::Status Enter(Table& table, std::int64_t bytes);
  void ForgetEnded(Table& table) const;
  // Tells the other pools that there is more room.
  void CountChange(Table& table) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t RefusalsOfOthers(const Table& table) const;
  absl::Status Allow(Table& table, std::int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a line about the bytes of each pool.
  std::string HoldersIn(const Table& table) const;
  absl::Status CutError() const;
  absl::Status SystemError(int error, const char* done) const;

  const std::string path_;
  const std::string name_;  // for errors
  int descriptor_ = -1;
  int lock_file_ = -1;  // the same file, for the lock of changes; -1 in a forked child
  const pid_t process_;
  std::size_t own_ = kMostPools;  // the entry of this pool
  // One for all budgets of the process, so that a fork comes between their changes. A forked child
  // has a new one.
  static locks::Mutex mutex_;
  std::array<std::uint64_t, kMostPools> seen_wants_ ABSL_GUARDED_BY(mutex_) = {};
  mutable std::uint64_t own_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::uint64_t own_refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // the last number of a request that waits
  // The refusals of others before the last change that this pool counted.
  mutable std::uint64_t told_refusals_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Calls `take()`, which takes memory of a device, under a budget; null: none.
template <typename Take>
auto TakeUnder(SharedBudget* budget, std::int64_t bytes, Take take) -> decltype(take()) {
  if (budget == nullptr) return take();
  if (absl::Status status = budget->Charge(bytes); !status.ok()) return status;
  auto taken = take();
  if (!taken.ok()) budget->Undo(bytes);
  return taken;
}

// Calls `give()`, which gives memory to a device, under a budget; null: none.
template <typename Give>
absl::Status GiveUnder(SharedBudget* budget, std::int64_t bytes, Give give) {
  absl::Status status = give();
  if (status.ok() && budget != nullptr) budget->GiveBack(bytes);
  return status;
}

}  // namespace tidepool::sharing

#endif  // TIDEPOOL_LIB_MEMORY_SHARING_SHARED_BUDGET_H_

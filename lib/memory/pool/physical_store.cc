// SPDX-License-Identifier: Apache-2.0
// Many loans have the same work, so each search asks for it once in a row.
#include "lib/memory/pool/physical_store.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pool/live_report.h"
#include "lib/memory/pool/segments.h"

namespace tidepool::pool {
namespace {

// A piece is this part of the budget, so that little of a piece stays unused, and at most so large
// that a region has many.
constexpr std::int64_t kPiecesOfBudget = 256;
constexpr std::int64_t kMostPieceBytes = std::int64_t{32} << 20;

// Asks each work once, as long as the loans with it come one after another.
class Asked {
 public:
  bool HasFinished(QueuedWork* work) {
    if (work == nullptr) return true;
    if (work != last_) {
      last_ = work;
      answer_ = work->HasFinished();
    }
    return answer_;
  }

 private:
  QueuedWork* last_ = nullptr;
  bool answer_ = false;
};

}  // namespace

PhysicalStore::~PhysicalStore() {
  const locks::MutexLock lock(&mutex_);
  for (const auto& [name, loan] : loans_) {
    if (ReleaseToDevice(name, loan.bytes).ok()) continue;
    const absl::Status status = ReleaseToDevice(name, loan.bytes);
    if (!status.ok()) ReportKeptMemory(status, kPoolWords);
  }
}

absl::Status PhysicalStore::Share(const std::string& path, std::int64_t bytes) {
  const std::int64_t granule = std::max(device_.granularity(), kSegmentAlignment);
  auto budget = sharing::SharedBudget::Join(path, std::max(bytes & -granule, granule));
  if (budget.ok()) shared_ = *std::move(budget);
  return budget.status();
}

std::int64_t PhysicalStore::InGranules(std::int64_t bytes) const {
  const std::int64_t granule = std::max<std::int64_t>(device_.granularity(), 1);
  return AlignUp(bytes, granule);
}

void PhysicalStore::Join(Taker& taker) {
  const locks::MutexLock lock(&mutex_);
  takers_.push_back(&taker);
}

void PhysicalStore::Leave(Taker& taker) {
  const locks::MutexLock lock(&mutex_);
  std::erase(takers_, &taker);
}

absl::Status PhysicalStore::Bound(Taker& taker, std::int64_t least_bytes, std::int64_t most_bytes) {
  const locks::MutexLock lock(&mutex_);
  const std::int64_t held = taker.held_bytes();
  if (held > most_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it holds ", text::ExactSize(held), ", expected at most ", text::ExactSize(most_bytes),
        " before it may hold no more: free memory of it first"));
  }
  taker.is_full_ = false;
  const std::int64_t missing = std::max<std::int64_t>(0, least_bytes - held);
  taker.wanted_ = std::max(taker.wanted_, missing);
  const std::int64_t room = limit_ - used_bytes_ - KeptBytes(taker);
  if (missing > room) return NoRoom(taker, missing);
  taker.least_ = least_bytes;
  taker.most_ = most_bytes;
  return absl::OkStatus();
}

void PhysicalStore::SetAsleep(Taker& taker) {
  const locks::MutexLock lock(&mutex_);
  taker.is_asleep_ = true;
}

void PhysicalStore::Limit(std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  limit_ = InGranules(bytes);
  const auto part = std::bit_floor(static_cast<std::uint64_t>(limit_ / kPiecesOfBudget));
  piece_bytes_ =
      std::max(std::min(static_cast<std::int64_t>(part), kMostPieceBytes), device_.granularity());
}

std::int64_t PhysicalStore::piece_bytes() const {
  const locks::MutexLock lock(&mutex_);
  return piece_bytes_;
}

absl::StatusOr<PhysicalMemory> PhysicalStore::Create(Taker& taker, std::int64_t bytes,
                                                     Taker& payer) {
  const locks::MutexLock lock(&mutex_);
  if (absl::Status status = AllowMost(taker, bytes); !status.ok()) return status;
  if (absl::Status status = AllowRoom(taker, bytes); !status.ok()) return status;
  if (const std::uint64_t name = FinishedOf(bytes); name != 0) {
    if (absl::Status status = Unmap(name); !status.ok()) return status;
    End(loans_.find(name));
    taker.held_ += bytes;
    return PhysicalMemory{name};
  }
  while (limit_ > 0 && HeldBytes() + bytes > limit_) {
    const absl::StatusOr<bool> is_given = GiveBackOne();
    if (!is_given.ok()) return is_given.status();
    if (!*is_given) return NoRoom(taker, bytes);
  }
  for (;;) {
    absl::StatusOr<PhysicalMemory> memory = CreateOfDevice(payer, bytes);
    if (memory.ok()) {
      used_bytes_ += bytes;
      taker.held_ += bytes;
    }
    if (!absl::IsResourceExhausted(memory.status())) return memory;
    const absl::StatusOr<bool> is_given = GiveBackOne();
    if (!is_given.ok()) return is_given.status();
    if (!*is_given) return memory;
  }
}

absl::Status PhysicalStore::Release(Taker& taker, PhysicalMemory memory, std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  absl::Status status = ReleaseToDevice(memory.id, bytes);
  if (!status.ok()) return status;
  used_bytes_ -= bytes;
  taker.held_ -= bytes;
  return status;
}

void PhysicalStore::Lend(Taker& taker, void* address, PhysicalMemory memory, std::int64_t bytes,
                         std::shared_ptr<QueuedWork> work) {
  const locks::MutexLock lock(&mutex_);
  taker.held_ -= bytes;
  Add(memory.id, {address, bytes, std::move(work)});
}

bool PhysicalStore::IsLent(PhysicalMemory memory, const void* address) const {
  const locks::MutexLock lock(&mutex_);
  const auto loan = loans_.find(memory.id);
  return loan != loans_.end() && loan->second.address == address;
}

bool PhysicalStore::TakeBack(Taker& taker, PhysicalMemory memory, const void* address) {
  const locks::MutexLock lock(&mutex_);
  const auto loan = loans_.find(memory.id);
  if (loan == loans_.end() || loan->second.address != address) return false;
  taker.held_ += loan->second.bytes;
  End(loan);
  return true;
}

// The other processes leave no room for bytes that are not taken yet.
absl::Status PhysicalStore::BeginTaking(absl::Span<const Taking> takings) {
  const locks::MutexLock lock(&mutex_);
  Taker& first = *takings.front().taker;
  std::int64_t bytes = 0;
  std::int64_t wanted = 0;
  absl::Status status;
  for (const Taking& taking : takings) {
    bytes += taking.bytes;
    wanted += std::max(taking.bytes, taking.kept_bytes);
    status.Update(AllowMost(*taking.taker, std::max(taking.bytes, taking.kept_bytes)));
  }
  first.wanted_ = std::max(first.wanted_, wanted);
  first.refused_ = 0;
  if (status.ok()) status = AllowRoom(first, wanted);
  if (status.ok() && shared() != nullptr && bytes > lent_bytes_) {
    status = shared()->Charge(bytes - lent_bytes_);
    (status.ok() ? first.charged_ : first.refused_) = bytes - lent_bytes_;
  }
  if (!status.ok()) return status;
  for (const Taking& taking : takings) taking.taker->is_asleep_ = false;
  return status;
}

void PhysicalStore::TellWanted(const Taker& taker) {
  if (shared() == nullptr) return;
  const locks::MutexLock lock(&mutex_);
  if (taker.refused_ > 0) shared()->TellWanted(taker.refused_, false);
}

void PhysicalStore::EndTaking(Taker& first) {
  if (shared() == nullptr) return;
  const locks::MutexLock lock(&mutex_);
  if (first.charged_ > 0) shared()->Undo(std::exchange(first.charged_, 0));
}

// Where the budget has room, work may still use lent memory. Unused memory then serves sooner.
// Where there is no such work either, the device has less memory than the budget.
std::int64_t PhysicalStore::TakeMissing(Taker& taker) {
  const locks::MutexLock lock(&mutex_);
  const std::int64_t asked = std::exchange(taker.wanted_, 0);
  const std::int64_t limit = limit_;
  if (asked == 0 || limit == 0) return std::numeric_limits<std::int64_t>::max();
  const std::int64_t wanted = std::min(asked, limit);  // no taker gets more; sums stay in range
  std::int64_t missing = used_bytes_ + KeptBytes(taker) + wanted - limit;
  if (missing <= 0) missing = HeldBytes() + wanted - limit;
  if (missing <= 0) missing = wanted;
  return RoundUp(missing, piece_bytes_);
}

std::int64_t PhysicalStore::KeptBytes(const Taker& taker) const {
  std::int64_t bytes = 0;
  for (const Taker* const other : takers_) bytes += other == &taker ? 0 : other->MissingBytes();
  return bytes;
}

absl::Status PhysicalStore::AllowMost(Taker& taker, std::int64_t bytes) const {
  const std::int64_t held = taker.held_bytes();
  taker.is_full_ = bytes > 0 && bytes > taker.most_ - held;
  if (!taker.is_full_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      text::ExactSize(bytes), " more of the device's memory are needed, and the region holds ",
      text::ExactSize(held), " of the ", text::ExactSize(taker.most_),
      " that it may hold (LimitRegion); free memory of it, or raise that"));
}

absl::Status PhysicalStore::AllowRoom(const Taker& taker, std::int64_t bytes) const {
  const bool has_room = limit_ == 0 || used_bytes_ + bytes + KeptBytes(taker) <= limit_;
  return has_room ? absl::OkStatus() : NoRoom(taker, bytes);
}

absl::Status PhysicalStore::NoRoom(const Taker& taker, std::int64_t bytes) const {
  const std::int64_t kept = KeptBytes(taker);
  return absl::ResourceExhaustedError(
      absl::StrCat(text::ExactSize(bytes),
                   " more of the device's memory are needed, the pool and its regions hold ",
                   text::ExactSize(HeldBytes()), " of at most ", text::ExactSize(limit_),
                   ", and lend ", text::ExactSize(lent_bytes_), " of them",
                   kept == 0 ? ""
                             : absl::StrCat(", and other regions keep room for ",
                                            text::ExactSize(kept), " (LimitRegion)"),
                   "; free memory, pause a region, or raise max_bytes"));
}

absl::Status PhysicalStore::AwaitLent() {
  std::vector<std::shared_ptr<QueuedWork>> works;
  {
    const locks::MutexLock lock(&mutex_);
    for (const auto& [name, loan] : loans_) {
      if (loan.work != nullptr && std::ranges::find(works, loan.work) == works.end()) {
        works.push_back(loan.work);
      }
    }
  }
  for (const std::shared_ptr<QueuedWork>& work : works) {
    if (absl::Status status = work->Await(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> PhysicalStore::GiveBackLent() {
  if (absl::Status status = AwaitLent(); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  const std::int64_t before = HeldBytes();
  for (;;) {
    const absl::StatusOr<bool> is_given = GiveBackOne();
    if (!is_given.ok()) return is_given.status();
    if (!*is_given) return before - HeldBytes();
  }
}

std::int64_t PhysicalStore::held_bytes() const {
  const locks::MutexLock lock(&mutex_);
  return HeldBytes();
}

std::int64_t PhysicalStore::lent_bytes() const {
  const locks::MutexLock lock(&mutex_);
  return lent_bytes_;
}

void PhysicalStore::NotePeak() {
  const std::int64_t used = used_bytes_;
  std::int64_t peak = peak_bytes_;
  while (used > peak && !peak_bytes_.compare_exchange_weak(peak, used)) {
  }
}

absl::Status PhysicalStore::CheckInvariants() const {
  const locks::MutexLock lock(&mutex_);
  std::int64_t used = used_bytes_;
  std::int64_t known = lent_bytes_;
  for (const Taker* const taker : takers_) {
    used += taker->MissingBytes();
    known += taker->held_;
    if (taker->held_ > taker->most_) {
      return absl::InternalError(absl::StrCat("a taker holds ", taker->held_bytes(),
                                              " bytes and may hold ", taker->most_bytes()));
    }
  }
  if (known != HeldBytes()) {
    return absl::InternalError(
        absl::StrCat("takers hold and lend ", known, " bytes, and the store has ", HeldBytes()));
  }
  if (limit_ == 0 || used <= limit_) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("takers use or keep ", used, " bytes, and the limit is ", limit_bytes()));
}

void PhysicalStore::Add(std::uint64_t name, Loan loan) {
  used_bytes_ -= loan.bytes;
  lent_bytes_ += loan.bytes;
  by_size_.insert({loan.bytes, name});
  loans_.emplace(name, std::move(loan));
}

void PhysicalStore::End(Loans::iterator loan) {
  used_bytes_ += loan->second.bytes;
  Forget(loan);
}

void PhysicalStore::Forget(Loans::iterator loan) {
  lent_bytes_ -= loan->second.bytes;
  by_size_.erase({loan->second.bytes, loan->first});
  loans_.erase(loan);
}

std::uint64_t PhysicalStore::FinishedOf(std::int64_t bytes) {
  Asked asked;
  for (auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end() && it->first == bytes;
       ++it) {
    if (asked.HasFinished(loans_.at(it->second).work.get())) return it->second;
  }
  return 0;
}

std::uint64_t PhysicalStore::LargestFinished() {
  Asked asked;
  for (auto it = by_size_.rbegin(); it != by_size_.rend(); ++it) {
    if (asked.HasFinished(loans_.at(it->second).work.get())) return it->second;
  }
  return 0;
}

absl::Status PhysicalStore::Unmap(std::uint64_t name) {
  Loan& loan = loans_.at(name);
  if (loan.address == nullptr) return absl::OkStatus();
  absl::Status status = device_.Unmap(loan.address);
  if (status.ok()) loan.address = nullptr;
  return status;
}

absl::StatusOr<bool> PhysicalStore::GiveBackOne() {
  const std::uint64_t name = LargestFinished();
  if (name == 0) return false;
  if (absl::Status status = Unmap(name); !status.ok()) return status;
  const auto loan = loans_.find(name);
  absl::Status status = ReleaseToDevice(name, loan->second.bytes);
  if (!status.ok()) return status;
  Forget(loan);
  return true;
}

absl::StatusOr<PhysicalMemory> PhysicalStore::CreateOfDevice(Taker& payer, std::int64_t bytes) {
  const auto take = [&] { return device_.CreatePhysical(bytes); };
  if (payer.charged_ < bytes) return sharing::TakeUnder(shared(), bytes, take);
  absl::StatusOr<PhysicalMemory> memory = take();
  if (memory.ok()) payer.charged_ -= bytes;
  return memory;
}

absl::Status PhysicalStore::ReleaseToDevice(std::uint64_t name, std::int64_t bytes) {
  return sharing::GiveUnder(shared(), bytes, [&] { return device_.ReleasePhysical({name}); });
}

}  // namespace tidepool::pool

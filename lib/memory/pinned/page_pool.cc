// SPDX-License-Identifier: Apache-2.0
// One range of addresses holds all pages, so a page is a number. Memory comes when pages are
// touched and goes page by page.
#include "tidepool/page_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pinned/create_pools.h"
#include "lib/memory/pinned/host_memory.h"
#include "lib/memory/pool/pool_locks.h"
#include "lib/memory/pool/without_host_memory.h"

namespace tidepool {
namespace pinned {
namespace {

using text::ExactSize;

constexpr std::int64_t kMostPageBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMostPages = std::int64_t{1} << 31;

absl::Status CheckPagePoolOptions(const PagePoolOptions& options) {
  if (absl::Status status = CheckPageOptions(options.pages); !status.ok()) return status;
  const auto expect = [](const char* name, auto value, auto... expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, " ", value, ", expected ", expected...));
  };
  if (options.pages.huge_pages == HugePages::kRequired) {
    return expect("huge_pages", "required", "never or advised: pages come and go one by one");
  }
  const std::int64_t page = options.page_bytes;
  if (page < kPage || page > kMostPageBytes || (page & (page - 1)) != 0) {
    return expect("page_bytes", page, "a power of two from ", kPage, " to ", kMostPageBytes);
  }
  if (options.max_bytes < page || options.max_bytes / page > kMostPages) {
    return expect("max_bytes", ExactSize(options.max_bytes), "1 to ", kMostPages, " pages of ",
                  ExactSize(page));
  }
  if (options.initial_bytes < 0 || options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", ExactSize(options.initial_bytes), "0 to max_bytes, ",
                  ExactSize(options.max_bytes));
  }
  return absl::OkStatus();
}

class PagePoolImpl : public PagePool {
 public:
  PagePoolImpl(const PagePoolOptions& options, std::int64_t growth_bytes, void* base)
      : options_(options),
        growth_bytes_(growth_bytes),
        base_(static_cast<char*>(base)),
        states_(PageCount(), State::kUntouched) {
    untouched_.reserve(PageCount());
    // The lowest page is taken first.
    for (std::size_t page = PageCount(); page-- > 0;) {
      untouched_.push_back(static_cast<std::uint32_t>(page));
    }
    stats_.page_bytes = options.page_bytes;
    stats_.max_pages = static_cast<std::int64_t>(PageCount());
  }
  ~PagePoolImpl() override { UnmapMemory(base_, options_.max_bytes); }

  absl::Status Take(absl::Span<void*> pages) override {
    const pool::BackoffLock lock(locks_.books);
    if (pages.size() > free_.size()) {
      if (absl::Status status = GrowFor(pages.size()); !status.ok()) {
        ++stats_.failures;
        return status;
      }
    }
    for (void*& page : pages) {
      const std::uint32_t number = free_.back();
      free_.pop_back();
      states_[number] = State::kUsed;
      page = AddressOf(number);
    }
    stats_.takes += static_cast<std::int64_t>(pages.size());
    stats_.used_pages += static_cast<std::int64_t>(pages.size());
    stats_.peak_used_pages = std::max(stats_.peak_used_pages, stats_.used_pages);
    return absl::OkStatus();
  }

  absl::Status Return(absl::Span<void* const> pages) override {
    const pool::BackoffLock lock(locks_.books);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (TakeBack(pages[i])) continue;
      // The call changes nothing: pages that were taken back are used again.
      for (std::size_t j = 0; j < i; ++j) states_[NumberOf(pages[j])] = State::kUsed;
      return absl::InvalidArgumentError(
          absl::StrCat("page 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(pages[i])),
                       " is not in use, expected a page that was taken of this pool, once"));
    }
    for (void* const page : pages) free_.push_back(NumberOf(page));
    stats_.returns += static_cast<std::int64_t>(pages.size());
    stats_.used_pages -= static_cast<std::int64_t>(pages.size());
    return absl::OkStatus();
  }

  absl::Status Reserve(std::int64_t bytes) override {
    const pool::BackoffLock lock(locks_.books);
    if (bytes < 0 || bytes > options_.max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("reserve of ", ExactSize(bytes),
                                                     ", expected 0 to the budget, ",
                                                     ExactSize(options_.max_bytes)));
    }
    const pool::MemoryLock memory(locks_);
    const std::int64_t wanted = CeilDivide(bytes, options_.page_bytes);
    return wanted <= stats_.touched_pages
               ? absl::OkStatus()
               : Touch(static_cast<std::size_t>(wanted - stats_.touched_pages));
  }

  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override {
    const pool::BackoffLock lock(locks_.books);
    const pool::MemoryLock memory(locks_);
    // Gives back the pages that were returned first, because their memory is the coldest. They are
    // in no list meanwhile, so no thread takes them.
    const std::int64_t kept = CeilDivide(
        std::clamp<std::int64_t>(keep_bytes, 0, options_.max_bytes), options_.page_bytes);
    const auto most =
        static_cast<std::size_t>(std::max<std::int64_t>(stats_.touched_pages - kept, 0));
    const auto end = free_.begin() + static_cast<std::ptrdiff_t>(std::min(most, free_.size()));
    const std::vector<std::uint32_t> leaving(free_.begin(), end);
    free_.erase(free_.begin(), end);
    const auto stays = locks_.WithoutBooks([&] {
      return std::ranges::find_if(leaving, [this](std::uint32_t number) {
        return madvise(AddressOf(number), PageSize(), MADV_DONTNEED) != 0;
      });
    });
    for (auto number = leaving.begin(); number != stays; ++number) {
      states_[*number] = State::kUntouched;
      untouched_.push_back(*number);
    }
    free_.insert(free_.begin(), stays, leaving.end());
    std::ranges::sort(untouched_, std::ranges::greater());
    const std::int64_t given_back = stays - leaving.begin();
    stats_.touched_pages -= given_back;
    return given_back * options_.page_bytes;
  }

  PagePoolStats Stats() const override {
    const pool::BackoffLock lock(locks_.books);
    return stats_;
  }

 private:
  enum class State : std::uint8_t { kUntouched, kFree, kUsed };

  std::size_t PageCount() const {
    return static_cast<std::size_t>(options_.max_bytes / options_.page_bytes);
  }
  std::size_t PageSize() const { return static_cast<std::size_t>(options_.page_bytes); }
  char* AddressOf(std::uint32_t number) const { return base_ + PageSize() * number; }
  std::uint32_t NumberOf(const void* page) const {
    return static_cast<std::uint32_t>(Distance(page) / PageSize());
  }
  // Returns the distance from the first page: larger than the pool for addresses before it.
  std::uintptr_t Distance(const void* page) const {
    return reinterpret_cast<std::uintptr_t>(page) - reinterpret_cast<std::uintptr_t>(base_);
  }

  bool TakeBack(const void* page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    const std::uintptr_t distance = Distance(page);
    if (distance >= static_cast<std::uintptr_t>(options_.max_bytes) || distance % PageSize() != 0 ||
        states_[NumberOf(page)] != State::kUsed) {
      return false;
    }
    states_[NumberOf(page)] = State::kFree;
    return true;
  }

  // ResourceExhausted, with the remedy, when the options let no request touch memory, or when the
  // budget has fewer pages than wanted that are not in use.
  absl::Status CheckMayGrow(std::size_t wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    const bool has_budget =
        wanted <= static_cast<std::size_t>(stats_.max_pages - stats_.used_pages);
    if (options_.may_grow && has_budget) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("out of pages: ", wanted, " of ", ExactSize(options_.page_bytes),
                     " requested, ", stats_.used_pages, " of ", stats_.max_pages,
                     " are in use and ", free_.size(), " are ready; ",
                     has_budget ? "set may_grow, or call Reserve"
                                : "take fewer, return pages, or raise max_bytes"));
  }

  // The two release the books while pages are touched, which takes long: other threads take and
  // return pages meanwhile.
  absl::Status GrowFor(std::size_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.books) {
    // A thread that holds the lock of the memory may keep it for long.
    if (absl::Status status = CheckMayGrow(wanted); !status.ok()) return status;
    const pool::MemoryLock memory(locks_);
    while (wanted > free_.size()) {
      // Other threads may have taken pages meanwhile.
      if (absl::Status status = CheckMayGrow(wanted); !status.ok()) return status;
      const std::size_t missing = wanted - free_.size();
      const auto step = static_cast<std::size_t>(growth_bytes_ / options_.page_bytes);
      const std::size_t count = std::max(missing, std::min(step, untouched_.size()));
      if (absl::Status status = Touch(count); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Touches `count` untouched pages, neighbours at once.
  absl::Status Touch(std::size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks_.memory, locks_.books) {
    ++stats_.growths;
    while (count > 0) {
      const std::uint32_t first = untouched_.back();
      std::size_t run = 1;
      while (run < count && untouched_[untouched_.size() - 1 - run] == first + run) ++run;
      absl::Status status = locks_.WithoutBooks([&] {
        return TouchMemory(AddressOf(first), static_cast<std::int64_t>(run) * options_.page_bytes,
                           options_.pages);
      });
      if (!status.ok()) return status;
      untouched_.resize(untouched_.size() - run);
      // The lowest page is taken first.
      for (std::size_t i = run; i-- > 0;) {
        const auto number = static_cast<std::uint32_t>(first + i);
        states_[number] = State::kFree;
        free_.push_back(number);
      }
      count -= run;
      stats_.touched_pages += static_cast<std::int64_t>(run);
    }
    return absl::OkStatus();
  }

  const PagePoolOptions options_;
  const std::int64_t growth_bytes_;
  char* const base_;

  mutable pool::PoolLocks locks_;
  // The lowest page last. Changed with both locks held.
  std::vector<std::uint32_t> untouched_ ABSL_GUARDED_BY(locks_.books);
  std::vector<State> states_ ABSL_GUARDED_BY(locks_.books);
  // The touched pages that are not used; the last one is taken next.
  std::vector<std::uint32_t> free_ ABSL_GUARDED_BY(locks_.books);
  PagePoolStats stats_ ABSL_GUARDED_BY(locks_.books);
};

// Ends the process where the host has no memory in a call (pool::EndsWithoutHostMemory).
class PagePoolOrEnd final : public PagePoolImpl {
 public:
  using PagePoolImpl::PagePoolImpl;

  absl::Status Take(absl::Span<void*> pages) override {
    return pool::OrEnd([&] { return PagePoolImpl::Take(pages); });
  }
  absl::Status Return(absl::Span<void* const> pages) override {
    return pool::OrEnd([&] { return PagePoolImpl::Return(pages); });
  }
  absl::Status Reserve(std::int64_t bytes) override {
    return pool::OrEnd([&] { return PagePoolImpl::Reserve(bytes); });
  }
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override {
    return pool::OrEnd([&] { return PagePoolImpl::Trim(keep_bytes); });
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<PagePool>> CreatePagePool(const PagePoolOptions& options,
                                                         std::int64_t growth_bytes) {
  if (absl::Status status = CheckPagePoolOptions(options); !status.ok()) return status;
  PagePoolOptions resolved = options;
  resolved.max_bytes &= -options.page_bytes;
  resolved.initial_bytes = std::min(options.initial_bytes, resolved.max_bytes);
  const absl::StatusOr<void*> base = MapMemory(resolved.max_bytes, options.pages);
  if (!base.ok()) return base.status();
  auto made = std::make_unique<PagePoolOrEnd>(resolved, growth_bytes, *base);
  absl::Status status = made->PagePoolImpl::Reserve(resolved.initial_bytes);
  if (!status.ok()) return status;
  return made;
}

}  // namespace pinned

absl::StatusOr<std::unique_ptr<PagePool>> PagePool::Create(const PagePoolOptions& options) {
  return pinned::CreatePagePool(options);
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The exported functions: they check arguments, and turn statuses and exceptions into codes.
#include "tidepool/c_api.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bindings/c/c_pool.h"
#include "bindings/c/error.h"
#include "bindings/c/handle.h"
#include "bindings/c/metrics.h"
#include "bindings/c/statistics.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/copies/contents_stores.h"
#include "tidepool/log.h"

using tidepool::Hint;
using tidepool::PauseMode;
using tidepool::c_api::Clamped;
using tidepool::c_api::CPool;
using tidepool::c_api::Fail;
using tidepool::c_api::FailWithoutMemory;

namespace {

absl::Status IsNull(const std::string& argument, const char* more = "") {
  return absl::InvalidArgumentError(absl::StrCat(argument, " is NULL", more));
}

absl::Status NoPool(const tidepool_pool* handle) {
  if (handle == nullptr) return IsNull("pool");
  if (handle->IsHandle()) return handle->Gone();
  return absl::InvalidArgumentError("pool is no pool, expected one of tidepool_pool_create");
}

// Calls `call` and returns the code of its status. Exceptions must not leave a C function.
template <typename Call>
tidepool_status Guarded(const char* function, bool prints, Call call) noexcept {
  try {
    const absl::Status status = call();
    if (status.ok()) [[likely]]
      return TIDEPOOL_OK;
    return Fail(function, status, prints);
  } catch (const std::bad_alloc&) {
    return FailWithoutMemory(function, prints);
  } catch (...) {
    return Fail(function, absl::InternalError("unexpected exception"), prints);
  }
}

// A pool that a std::bad_alloc left half-changed cannot go on. A function of the log may take
// memory, so the message goes past it.
[[noreturn]] void EndWithoutHostMemory(const char* function) {
  std::fprintf(stderr,
               "tidepool: the host has no memory left in %s, and the pool cannot go on "
               "half-changed: the process ends. Free memory of the host, or raise its limit\n",
               function);
  std::abort();
}

// Calls `use` with a pool. Returns its result.
template <typename Use>
absl::Status UseWhole(const char* function, CPool& pool, Use use) {
  try {
    return use(pool);
  } catch (const std::bad_alloc&) {
    EndWithoutHostMemory(function);
  }
}

// Calls `use` with the pool of a handle.
template <typename Use>
tidepool_status OnPool(const char* function, tidepool_pool* handle, Use use) noexcept {
  CPool* const pool = handle != nullptr && handle->IsHandle() ? handle->pool() : nullptr;
  if (pool == nullptr) [[unlikely]] {
    return Guarded(function, false, [&] { return NoPool(handle); });
  }
  return Guarded(function, pool->prints_errors(), [&] { return UseWhole(function, *pool, use); });
}

// Calls `use` with the pool of a handle if `argument`, called `name`, is not null.
template <typename Use>
tidepool_status OnPoolWith(const char* function, tidepool_pool* handle, const void* argument,
                           const char* name, Use use) noexcept {
  return OnPool(function, handle,
                [&](CPool& pool) { return argument == nullptr ? IsNull(name) : use(pool); });
}

// Stores a value if there is one. Returns the status.
template <typename Value, typename Target>
absl::Status Store(const absl::StatusOr<Value>& value, Target* target) {
  if (value.ok()) *target = static_cast<Target>(*value);
  return value.status();
}

// Stores the beginning of a text that fits, with a NUL, and the size of all.
absl::Status StoreText(const std::string& all, char* text, std::size_t capacity,
                       std::size_t* size) {
  if (size == nullptr) return IsNull("size");
  if (text == nullptr && capacity > 0) return IsNull("text");
  if (capacity > 0) text[all.copy(text, capacity - 1)] = '\0';
  *size = all.size();
  return absl::OkStatus();
}

// Returns a store that compresses with the threads of the machine's profile.
absl::StatusOr<std::unique_ptr<tidepool::ContentsStore>> CompressedStore() {
  const absl::StatusOr<tidepool::CompressionProfile> profile =
      tidepool::CompressionProfileFromEnvironment();
  if (!profile.ok()) return profile.status();
  return tidepool::MakeCompressedStore({.threads = profile->threads});
}

absl::Status UnknownMode(tidepool_pause_mode mode) {
  return absl::InvalidArgumentError(absl::StrCat("mode is ", static_cast<int>(mode),
                                                 ", expected TIDEPOOL_PAUSE_HOST (0), "
                                                 "TIDEPOOL_PAUSE_DISCARD (1), "
                                                 "TIDEPOOL_PAUSE_COMPRESSED (2) or "
                                                 "TIDEPOOL_PAUSE_DISK (3)"));
}

absl::Status CheckTags(std::span<const char* const> tags) {
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i] == nullptr) return IsNull(absl::StrCat("tags[", i, "]"));
  }
  return absl::OkStatus();
}

// Returns the keeper of the contents of a region; null: page-locked memory, or none.
absl::StatusOr<std::unique_ptr<tidepool::ContentsStore>> StoreOf(tidepool_pause_mode mode,
                                                                 const char* folder) {
  switch (mode) {
    case TIDEPOOL_PAUSE_HOST:
    case TIDEPOOL_PAUSE_DISCARD:
      return nullptr;
    case TIDEPOOL_PAUSE_COMPRESSED:
      return CompressedStore();
    case TIDEPOOL_PAUSE_DISK:
      if (folder == nullptr) {
        return IsNull("folder",
                      " with mode TIDEPOOL_PAUSE_DISK (3), expected a folder of "
                      "tidepool_pause_to_disk or tidepool_pause_regions");
      }
      return tidepool::MakeFileStore(folder);
  }
  return UnknownMode(mode);
}

absl::Status PauseAll(CPool& c_pool, std::span<const char* const> tags,
                      std::span<const tidepool_pause_mode> modes, const char* folder,
                      tidepool_stream stream) {
  if (absl::Status status = CheckTags(tags); !status.ok()) return status;
  std::vector<tidepool::RegionPause> pauses;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    auto store = StoreOf(modes[i], folder);
    if (!store.ok()) return store.status();
    const bool is_lost = modes[i] == TIDEPOOL_PAUSE_DISCARD;
    pauses.push_back(
        {tags[i], is_lost ? PauseMode::kDiscard : PauseMode::kHost, *std::move(store)});
  }
  return c_pool.PauseRegions(pauses, stream);
}

absl::Status ResumeAll(CPool& c_pool, std::span<const char* const> tags, tidepool_stream stream) {
  if (absl::Status status = CheckTags(tags); !status.ok()) return status;
  return c_pool.ResumeRegions(std::vector<std::string_view>(tags.begin(), tags.end()), stream);
}

absl::Status UnknownHint(tidepool_hint hint) {
  return absl::InvalidArgumentError(absl::StrCat("hint is ", static_cast<int>(hint),
                                                 ", expected TIDEPOOL_RESIDENT (0) or "
                                                 "TIDEPOOL_OFFLOADABLE (1)"));
}

// Calls `allocate` with a checked hint.
template <typename Allocate>
absl::Status AllocateBy(Allocate allocate, tidepool_hint hint, void** address) {
  if (hint != TIDEPOOL_RESIDENT && hint != TIDEPOOL_OFFLOADABLE) [[unlikely]]
    return UnknownHint(hint);
  const absl::StatusOr<void*> allocated =
      allocate(hint == TIDEPOOL_RESIDENT ? Hint::kResident : Hint::kOffloadable);
  if (!allocated.ok()) [[unlikely]]
    return allocated.status();
  *address = *allocated;
  return absl::OkStatus();
}

}  // namespace

extern "C" {

const char* tidepool_last_error(void) { return tidepool::c_api::LastError(); }

const char* tidepool_status_name(tidepool_status status) {
  switch (status) {
    case TIDEPOOL_OK:
      return "TIDEPOOL_OK";
    case TIDEPOOL_INVALID_ARGUMENT:
      return "TIDEPOOL_INVALID_ARGUMENT";
    case TIDEPOOL_NOT_FOUND:
      return "TIDEPOOL_NOT_FOUND";
    case TIDEPOOL_OUT_OF_MEMORY:
      return "TIDEPOOL_OUT_OF_MEMORY";
    case TIDEPOOL_FAILED_PRECONDITION:
      return "TIDEPOOL_FAILED_PRECONDITION";
    case TIDEPOOL_DEADLINE_EXCEEDED:
      return "TIDEPOOL_DEADLINE_EXCEEDED";
    case TIDEPOOL_INTERNAL:
      return "TIDEPOOL_INTERNAL";
    case TIDEPOOL_UNAVAILABLE:
      return "TIDEPOOL_UNAVAILABLE";
    case TIDEPOOL_UNIMPLEMENTED:
      return "TIDEPOOL_UNIMPLEMENTED";
  }
  return "unknown status";
}

const char* tidepool_version(void) { return TIDEPOOL_VERSION; }

tidepool_status tidepool_set_log(tidepool_log log, void* data, tidepool_log_level most) {
  return Guarded(__func__, false, [&] {
    if (most < TIDEPOOL_LOG_ERROR || most > TIDEPOOL_LOG_INFO) {
      return absl::InvalidArgumentError(
          absl::StrCat("most is ", static_cast<int>(most),
                       ", expected a level from TIDEPOOL_LOG_ERROR (0) to TIDEPOOL_LOG_INFO (2)"));
    }
    tidepool::LogFunction function;
    if (log != nullptr) {
      function = [log, data](tidepool::LogLevel level, std::string_view text) {
        log(static_cast<tidepool_log_level>(level), std::string(text).c_str(), data);
      };
    }
    tidepool::SetLog(std::move(function), static_cast<tidepool::LogLevel>(most));
    return absl::OkStatus();
  });
}

tidepool_status tidepool_pool_create(const char* options, tidepool_pool** pool) {
  if (pool != nullptr) *pool = nullptr;
  return Guarded(__func__, false, [&] {
    if (pool == nullptr) return IsNull("pool");
    auto made = CPool::Create(options == nullptr ? "" : options);
    if (!made.ok()) return made.status();
    *pool = tidepool_pool::Create(*std::move(made));
    return absl::OkStatus();
  });
}

tidepool_status tidepool_check_options(const char* options) {
  return Guarded(__func__, false, [&] { return CPool::Check(options == nullptr ? "" : options); });
}

tidepool_status tidepool_pool_destroy(tidepool_pool* pool) {
  if (pool == nullptr) return TIDEPOOL_OK;
  return Guarded(__func__, false, [&] {
    auto ended = pool->IsHandle() ? pool->Take() : nullptr;
    return ended == nullptr ? NoPool(pool) : CPool::End(std::move(ended));
  });
}

tidepool_status tidepool_allocate(tidepool_pool* pool, size_t bytes, tidepool_stream stream,
                                  tidepool_hint hint, void** address) {
  if (address != nullptr) [[likely]]
    *address = nullptr;
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    if (address == nullptr) [[unlikely]]
      return IsNull("address");
    if (bytes == 0) return absl::OkStatus();
    return AllocateBy([&](Hint known) { return c_pool.Allocate(bytes, stream, known); }, hint,
                      address);
  });
}

tidepool_status tidepool_add_owner(tidepool_pool* pool, const char* name, size_t* owner) {
  return OnPoolWith(__func__, pool, owner, "owner", [&](CPool& c_pool) {
    return name == nullptr ? IsNull("name") : Store(c_pool.owners().Add(name), owner);
  });
}

tidepool_status tidepool_allocate_for(tidepool_pool* pool, size_t owner, size_t bytes,
                                      tidepool_stream stream, tidepool_hint hint, void** address) {
  if (address != nullptr) *address = nullptr;
  return OnPoolWith(__func__, pool, address, "address", [&](CPool& c_pool) {
    if (bytes == 0) return c_pool.owners().Check(owner);
    return AllocateBy([&](Hint known) { return c_pool.AllocateFor(owner, bytes, stream, known); },
                      hint, address);
  });
}

tidepool_status tidepool_allocate_in(tidepool_pool* pool, const char* tag, size_t bytes,
                                     tidepool_stream stream, tidepool_hint hint, void** address) {
  if (address != nullptr) *address = nullptr;
  return OnPoolWith(__func__, pool, address, "address", [&](CPool& c_pool) {
    if (tag == nullptr) return IsNull("tag");
    if (bytes == 0) return c_pool.pool().Region(tag).status();
    return AllocateBy([&](Hint known) { return c_pool.AllocateIn(tag, bytes, stream, known); },
                      hint, address);
  });
}

tidepool_status tidepool_allocate_by_priority(tidepool_pool* pool, const char* tag, int priority,
                                              size_t bytes, tidepool_stream stream,
                                              tidepool_hint hint, void** address) {
  if (address != nullptr) *address = nullptr;
  return OnPoolWith(__func__, pool, address, "address", [&](CPool& c_pool) {
    if (bytes == 0) return tag == nullptr ? absl::OkStatus() : c_pool.pool().Region(tag).status();
    const auto allocate = [&](Hint known) {
      return tag == nullptr ? c_pool.Allocate(bytes, stream, known, priority)
                            : c_pool.AllocateIn(tag, bytes, stream, known, priority);
    };
    return AllocateBy(allocate, hint, address);
  });
}

tidepool_status tidepool_pause(tidepool_pool* pool, const char* tag, tidepool_pause_mode mode,
                               tidepool_stream stream) {
  return OnPoolWith(__func__, pool, tag, "tag", [&](CPool& c_pool) {
    return PauseAll(c_pool, {&tag, 1}, {&mode, 1}, nullptr, stream);
  });
}

tidepool_status tidepool_pause_to_disk(tidepool_pool* pool, const char* tag, const char* folder,
                                       tidepool_stream stream) {
  return OnPoolWith(__func__, pool, tag, "tag", [&](CPool& c_pool) {
    const tidepool_pause_mode mode = TIDEPOOL_PAUSE_DISK;
    return PauseAll(c_pool, {&tag, 1}, {&mode, 1}, folder, stream);
  });
}

tidepool_status tidepool_resume(tidepool_pool* pool, const char* tag, tidepool_stream stream) {
  return OnPoolWith(__func__, pool, tag, "tag", [&](CPool& c_pool) {
    return ResumeAll(c_pool, {&tag, 1}, stream);
  });
}

tidepool_status tidepool_pause_regions(tidepool_pool* pool, const char* const* tags,
                                       const tidepool_pause_mode* modes, size_t count,
                                       const char* folder, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    if (tags == nullptr && count > 0) return IsNull("tags");
    if (modes == nullptr && count > 0) return IsNull("modes");
    return PauseAll(c_pool, {tags, count}, {modes, count}, folder, stream);
  });
}

tidepool_status tidepool_resume_regions(tidepool_pool* pool, const char* const* tags, size_t count,
                                        tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    if (tags == nullptr && count > 0) return IsNull("tags");
    return ResumeAll(c_pool, {tags, count}, stream);
  });
}

tidepool_status tidepool_discard_contents(tidepool_pool* pool, const char* tag) {
  return OnPoolWith(__func__, pool, tag, "tag",
                    [&](CPool& c_pool) { return c_pool.DiscardContents(tag); });
}

tidepool_status tidepool_await_contents(tidepool_pool* pool, const void* address, size_t bytes,
                                        tidepool_stream stream) {
  return OnPool(__func__, pool,
                [&](CPool& c_pool) { return c_pool.AwaitContents(address, bytes, stream); });
}

tidepool_status tidepool_limit_region(tidepool_pool* pool, const char* tag, size_t least_bytes,
                                      size_t most_bytes) {
  return OnPoolWith(__func__, pool, tag, "tag", [&](CPool& c_pool) {
    return c_pool.LimitRegion(tag, least_bytes, most_bytes);
  });
}

tidepool_status tidepool_begin_registration(tidepool_pool* pool, const void* address,
                                            size_t bytes) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return c_pool.pool().BeginRegistration(address, Clamped(bytes));
  });
}

tidepool_status tidepool_end_registration(tidepool_pool* pool, const void* address, size_t bytes) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return c_pool.pool().EndRegistration(address, Clamped(bytes));
  });
}

tidepool_status tidepool_get_regions(tidepool_pool* pool, tidepool_region_statistics* regions,
                                     size_t capacity, size_t* count) {
  return OnPoolWith(__func__, pool, count, "count", [&](const CPool& c_pool) {
    if (regions == nullptr && capacity > 0) return IsNull("regions");
    return Store(c_pool.FillRegions(regions, capacity), count);
  });
}

tidepool_status tidepool_get_owner_statistics(tidepool_pool* pool, size_t owner,
                                              tidepool_owner_statistics* statistics) {
  return OnPoolWith(__func__, pool, statistics, "statistics", [&](CPool& c_pool) {
    return c_pool.owners().FillStatistics(owner, *statistics);
  });
}

tidepool_status tidepool_free(tidepool_pool* pool, void* address, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return address == nullptr ? absl::OkStatus() : c_pool.Free(address, stream);
  });
}

tidepool_status tidepool_free_late(tidepool_pool* pool, void* address) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return address == nullptr ? absl::OkStatus() : c_pool.FreeLate(address);
  });
}

tidepool_status tidepool_record_use(tidepool_pool* pool, void* address, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return address == nullptr ? absl::OkStatus() : c_pool.RecordUse(address, stream);
  });
}

tidepool_status tidepool_owns(tidepool_pool* pool, const void* address, int* owns) {
  return OnPoolWith(__func__, pool, owns, "owns", [&](CPool& c_pool) {
    *owns = c_pool.Owns(address) ? 1 : 0;
    return absl::OkStatus();
  });
}

tidepool_status tidepool_describe(tidepool_pool* pool, const void* address, char* text,
                                  size_t capacity, size_t* size) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    return StoreText(c_pool.pool().Describe(address), text, capacity, size);
  });
}

tidepool_status tidepool_get_device(tidepool_pool* pool, int* ordinal) {
  return OnPoolWith(__func__, pool, ordinal, "ordinal", [&](const CPool& c_pool) {
    *ordinal = c_pool.ordinal();
    return absl::OkStatus();
  });
}

tidepool_status tidepool_stream_create(tidepool_pool* pool, tidepool_stream* stream) {
  return OnPoolWith(__func__, pool, stream, "stream",
                    [&](CPool& c_pool) { return Store(c_pool.CreateStream(), stream); });
}

tidepool_status tidepool_stream_destroy(tidepool_pool* pool, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.DestroyStream(stream); });
}

tidepool_status tidepool_stream_synchronize(tidepool_pool* pool, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.SynchronizeStream(stream); });
}

tidepool_status tidepool_stream_forget(tidepool_pool* pool, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.ForgetStream(stream); });
}

tidepool_status tidepool_begin_graph(tidepool_pool* pool, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.BeginGraph(stream); });
}

tidepool_status tidepool_end_graph(tidepool_pool* pool, tidepool_stream stream, size_t* graph) {
  return OnPoolWith(__func__, pool, graph, "graph",
                    [&](CPool& c_pool) { return c_pool.EndGraph(stream, *graph); });
}

tidepool_status tidepool_note_capture(tidepool_pool* pool, int begins) {
  return OnPool(__func__, pool,
                [&](CPool& c_pool) { return c_pool.graphs().NoteForeign(begins != 0); });
}

tidepool_status tidepool_release_graph(tidepool_pool* pool, size_t graph) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.graphs().Release(graph); });
}

tidepool_status tidepool_stream_may_end(tidepool_pool* pool, tidepool_stream stream) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.LetStreamEnd(stream); });
}

tidepool_status tidepool_mark(tidepool_pool* pool, const char* name) {
  return OnPoolWith(__func__, pool, name, "name", [&](CPool& c_pool) {
    c_pool.pool().Mark(name);
    return absl::OkStatus();
  });
}

tidepool_status tidepool_mark_iteration(tidepool_pool* pool) {
  return OnPool(__func__, pool, [](CPool& c_pool) {
    c_pool.pool().MarkIteration();
    return absl::OkStatus();
  });
}

tidepool_status tidepool_await_plans(tidepool_pool* pool) {
  return OnPool(__func__, pool, [](CPool& c_pool) {
    c_pool.pool().AwaitPlans();
    return absl::OkStatus();
  });
}

tidepool_status tidepool_trim(tidepool_pool* pool, size_t keep_bytes, size_t* given_back) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    size_t unused = 0;
    return Store(c_pool.pool().Trim(Clamped(keep_bytes)),
                 given_back == nullptr ? &unused : given_back);
  });
}

tidepool_status tidepool_take_wanted_by_others(tidepool_pool* pool, size_t* bytes) {
  return OnPoolWith(__func__, pool, bytes, "bytes", [&](CPool& c_pool) {
    *bytes = static_cast<size_t>(c_pool.pool().TakeWantedByOthers());
    return absl::OkStatus();
  });
}

tidepool_status tidepool_begin_make_room(tidepool_pool* pool, const char* tag,
                                         tidepool_make_room function, void* data, size_t* number) {
  return OnPoolWith(__func__, pool, number, "number", [&](CPool& c_pool) {
    if (function == nullptr) return IsNull("function");
    std::optional<std::string> known;
    if (tag != nullptr) known = tag;
    return Store(c_pool.room_makers().Add(std::move(known), function, data), number);
  });
}

tidepool_status tidepool_end_make_room(tidepool_pool* pool, size_t number) {
  return OnPool(__func__, pool, [&](CPool& c_pool) { return c_pool.room_makers().Remove(number); });
}

tidepool_status tidepool_pinned_allocate(tidepool_pool* pool, size_t bytes, void** address) {
  if (address != nullptr) *address = nullptr;
  return OnPoolWith(__func__, pool, address, "address", [&](CPool& c_pool) {
    const absl::StatusOr<tidepool::PinnedPool*> pinned = c_pool.Pinned();
    return pinned.ok() ? Store((*pinned)->Allocate(bytes), address) : pinned.status();
  });
}

tidepool_status tidepool_pinned_free(tidepool_pool* pool, void* address) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    const absl::StatusOr<tidepool::PinnedPool*> pinned = c_pool.Pinned();
    return pinned.ok() ? (*pinned)->Free(address) : pinned.status();
  });
}

tidepool_status tidepool_pinned_trim(tidepool_pool* pool, size_t* given_back) {
  return OnPool(__func__, pool, [&](CPool& c_pool) {
    const absl::StatusOr<tidepool::PinnedPool*> pinned = c_pool.Pinned();
    size_t unused = 0;
    return pinned.ok() ? Store((*pinned)->Trim(), given_back == nullptr ? &unused : given_back)
                       : pinned.status();
  });
}

tidepool_status tidepool_get_statistics(tidepool_pool* pool, tidepool_statistics* statistics) {
  return OnPoolWith(__func__, pool, statistics, "statistics", [&](CPool& c_pool) {
    return tidepool::c_api::FillStatistics(c_pool.pool().Stats(), *statistics);
  });
}

tidepool_status tidepool_get_metrics(char* text, size_t capacity, size_t* size) {
  return Guarded(__func__, false,
                 [&] { return StoreText(tidepool_pool::MetricsOfAll(), text, capacity, size); });
}

tidepool_status tidepool_reset_peaks(tidepool_pool* pool) {
  return OnPool(__func__, pool, [](CPool& c_pool) {
    c_pool.pool().ResetPeaks();
    c_pool.owners().ResetPeaks();
    return absl::OkStatus();
  });
}

tidepool_status tidepool_get_blocks(tidepool_pool* pool, tidepool_block* blocks, size_t capacity,
                                    size_t* count) {
  return OnPoolWith(__func__, pool, count, "count", [&](const CPool& c_pool) {
    if (blocks == nullptr && capacity > 0) return IsNull("blocks");
    const std::vector<tidepool_block> found = c_pool.Blocks();
    std::copy_n(found.begin(), std::min(capacity, found.size()), blocks);
    *count = found.size();
    return absl::OkStatus();
  });
}

tidepool_status tidepool_write_snapshot(tidepool_pool* pool, const char* path) {
  return OnPoolWith(__func__, pool, path, "path",
                    [&](const CPool& c_pool) { return c_pool.WriteSnapshot(path); });
}

tidepool_status tidepool_start_trace(tidepool_pool* pool, const char* path) {
  return OnPoolWith(__func__, pool, path, "path",
                    [&](CPool& c_pool) { return c_pool.StartTrace(path); });
}

tidepool_status tidepool_stop_trace(tidepool_pool* pool) {
  return OnPool(__func__, pool, [](CPool& c_pool) { return c_pool.StopTrace(); });
}

}  // extern "C"

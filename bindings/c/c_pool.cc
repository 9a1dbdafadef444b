// SPDX-License-Identifier: Apache-2.0
// Serves calls from a pool.
#include "bindings/c/c_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "bindings/c/pool_options.h"
#include "bindings/c/statistics.h"
#include "bindings/support/option_string.h"
#include "bindings/support/out_of_memory.h"
#include "bindings/support/statistics_text.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/device/owned.h"
#include "tidepool/log.h"

namespace tidepool::c_api {
namespace {

// Returns the bytes of the host's memory.
std::int64_t HostBytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// Returns the answer of a call that concerns a region or a shared budget, with the names of this
// interface.
absl::Status InTheNamesOfC(const absl::Status& error) {
  std::string text =
      absl::StrReplaceAll(error.message(), {{"raise max_bytes", "raise option 'budget'"},
                                            {"same max_bytes", "same option 'budget'"},
                                            {"(Trim)", "(tidepool_trim)"},
                                            {"DiscardContents", "tidepool_discard_contents"},
                                            {"PauseMode::kDiscard", "TIDEPOOL_PAUSE_DISCARD"},
                                            {"LimitRegion", "tidepool_limit_region"}});
  if (absl::IsDeadlineExceeded(error)) {
    absl::StrAppend(&text,
                    " (option 'wait'): free memory, pause a region, or raise option 'budget'");
  }
  return absl::Status(error.code(), text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CPool>> CPool::Make(std::string_view options) {
  const char* const variable = std::getenv(bindings::kOptionsVariable);
  absl::StatusOr<bindings::Settings> settings =
      bindings::ParseOptions(options, variable == nullptr ? "" : variable);
  if (!settings.ok()) return settings.status();
  absl::StatusOr<std::unique_ptr<CDevice>> device = MakeCDevice(*settings);
  if (!device.ok()) return device.status();
  return std::unique_ptr<CPool>(new CPool(*std::move(settings), *std::move(device)));
}

absl::StatusOr<std::unique_ptr<CPool>> CPool::Create(std::string_view options) {
  absl::StatusOr<std::unique_ptr<CPool>> pool = Make(options);
  if (!pool.ok()) return pool.status();
  if (absl::Status status = (*pool)->Start(); !status.ok()) return status;
  return pool;
}

absl::Status CPool::Check(std::string_view options) {
  const absl::StatusOr<std::unique_ptr<CPool>> pool = Make(options);
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<PoolOptions> made = (*pool)->MakeOptions();
  return made.ok() ? (*pool)->MakePool(*made).status() : made.status();
}

absl::StatusOr<PoolOptions> CPool::MakeOptions() const {
  absl::StatusOr<PoolOptions> options = PoolOptionsOf(settings_, device_->device());
  if (!options.ok() || settings_.shared_budget.empty()) return options;
  const absl::StatusOr<std::string> name = device_->NameForProcesses();
  if (!name.ok()) return name.status();
  options->shared_budget = absl::StrCat(settings_.shared_budget, ".", *name);
  return options;
}

absl::StatusOr<std::unique_ptr<Pool>> CPool::MakePool(const PoolOptions& options) {
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(&device_->device(), options);
  if (pool.ok() || options.shared_budget.empty()) return pool;
  return InTheNamesOfC(pool.status());
}

absl::Status CPool::Start() {
  if (absl::Status status = streams_.Register(nullptr).status(); !status.ok()) return status;
  absl::StatusOr<PoolOptions> options = MakeOptions();
  if (!options.ok()) return options.status();
  if (settings_.is_recording) recorder_ = std::make_unique<SwitchedRecorder>(settings_.alignment);
  options->recorder = recorder_.get();
  ObserveForTool(*options);
  options->on_out_of_memory = [this](const auto& request) { return MakeRoom(request); };
  if (!settings_.trace.empty()) {
    const std::string path = absl::StrCat(settings_.trace, ".", DeviceName(), ".tide");
    if (absl::Status status = recorder_->Start(path); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<Pool>> pool = MakePool(*options);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  graphs_ = std::make_unique<Graphs>(*device_, *pool_);
  return absl::OkStatus();
}

// Tells an attached tool of the memory. compute-sanitizer documents pools in allocations of
// cudaMalloc alone, so the memory is in segments unless the program or the alignment prevents it.
void CPool::ObserveForTool(PoolOptions& options) {
  constexpr std::int64_t kMostAlignment = 512;  // of segments
  if (settings_.uses_nvtx) tool_observer_ = device_->MakeToolObserver(options.recorder);
  if (tool_observer_ == nullptr) return;
  options.recorder = tool_observer_.get();
  if (options.memory == PoolMemory::kAutomatic && options.alignment <= kMostAlignment)
    options.memory = PoolMemory::kSegments;
}

// A graph takes memory under a lock that its frees need. The stream of these requests has no
// handle.
bool CPool::MakeRoom(const OutOfMemoryRequest& request) {
  const auto handles = streams_.Handles();
  const auto handle = handles.find(request.stream.id);
  if (handle == handles.end()) return false;
  return room_makers_.MakeRoom({request.tag, request.bytes, handle->second, request.attempt});
}

absl::StatusOr<void*> CPool::AllocateBlocking(Pool& pool, std::size_t bytes, Stream stream,
                                              Hint hint, int priority) {
  return pool.AllocateBlocking(bytes, stream, hint, absl::Now() + settings_.wait, {}, priority);
}

absl::StatusOr<void*> CPool::AllocateIn(std::string_view tag, std::size_t bytes, void* native,
                                        Hint hint, int priority) {
  if (graphs_->HasBegun() || MayCapture(native)) {
    absl::StatusOr<std::optional<void*>> in_graph = AllocateInGraph(bytes, native);
    if (!in_graph.ok()) return in_graph.status();
    if (in_graph->has_value()) return **in_graph;
  }
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<Pool*> region = pool_->Region(tag);
  if (!region.ok()) return region.status();
  absl::StatusOr<void*> address = TryAllocate(**region, bytes, *stream, hint, priority);
  if (address.ok() || !IsShortage(address.status())) return address;
  return InTheNamesOfC(address.status());
}

absl::Status CPool::PauseRegions(std::span<RegionPause> pauses, void* native) {
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  return stream.ok() ? pool_->PauseRegions(pauses, *stream) : stream.status();
}

absl::Status CPool::ResumeRegions(std::span<const std::string_view> tags, void* native) {
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  return stream.ok() ? InTheNamesOfC(pool_->ResumeRegions(tags, *stream)) : stream.status();
}

absl::Status CPool::DiscardContents(std::string_view tag) {
  return InTheNamesOfC(pool_->DiscardContents(tag));
}

absl::Status CPool::AwaitContents(const void* address, std::size_t bytes, void* native) {
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  if (!stream.ok()) return stream.status();
  return pool_->AwaitContents(address, Clamped(bytes), *stream);
}

absl::Status CPool::LimitRegion(std::string_view tag, std::size_t least_bytes,
                                std::size_t most_bytes) {
  if (const absl::StatusOr<Pool*> region = pool_->Region(tag); !region.ok()) {
    return region.status();
  }
  return InTheNamesOfC(pool_->LimitRegion(tag, Clamped(least_bytes), Clamped(most_bytes)));
}

bool CPool::Owns(const void* address) const {
  if (pool_->OffsetOf(address) >= 0) return true;
  return std::ranges::any_of(pool_->RegionStatistics(), [&](const RegionStats& region) {
    return (*pool_->Region(region.tag))->OffsetOf(address) >= 0;
  });
}

absl::StatusOr<std::size_t> CPool::FillRegions(tidepool_region_statistics* regions,
                                               std::size_t capacity) const {
  const std::vector<RegionStats> stats = pool_->RegionStatistics();
  const std::size_t count = std::min(capacity, stats.size());
  std::vector<tidepool_region_statistics*> elements;
  for (auto* at = reinterpret_cast<char*>(regions); elements.size() < count;) {
    elements.push_back(reinterpret_cast<tidepool_region_statistics*>(at));
    absl::Status status = CheckStatistics(*elements.back());
    if (!status.ok()) return status;
    at += elements.back()->struct_size;  // the size that the caller's version of the structure has
  }
  for (std::size_t i = 0; i < count; ++i) FillStatistics(stats[i], *elements[i]).IgnoreError();
  return stats.size();
}

absl::StatusOr<void*> CPool::AllocateFor(std::size_t owner, std::size_t bytes, void* native,
                                         Hint hint) {
  if (absl::Status status = owners_.Check(owner); !status.ok()) return status;
  absl::StatusOr<void*> address = Allocate(bytes, native, hint);
  if (!address.ok() || *address == nullptr) return address;
  const std::int64_t taken = AlignUp(static_cast<std::int64_t>(bytes), settings_.alignment);
  owners_.Allocated(*address, {owner, static_cast<std::size_t>(taken)});
  return address;
}

absl::Status CPool::FreeOwned(void* address, absl::FunctionRef<absl::Status()> free) {
  const std::optional<Owners::Owned> owned = owners_.Take(address);
  absl::Status status = free();
  if (!status.ok() && owned.has_value()) owners_.PutBack(address, *owned);
  return status;
}

absl::Status CPool::FreeLate(void* address) {
  return FreeOwned(address, [&] { return FreeLateInPool(address); });
}

absl::StatusOr<std::optional<void*>> CPool::AllocateInGraph(std::size_t bytes, void* native) {
  absl::StatusOr<std::optional<void*>> address = std::nullopt;
  if (graphs_->HasBegun()) address = graphs_->Allocate(bytes, native);
  if (!address.ok()) {
    return IsShortage(address.status()) ? WithHelp(address.status(), bytes) : address.status();
  }
  if (address->has_value() || !MayCapture(native)) return address;
  const absl::StatusOr<bool> captures = device_->IsCapturing(native);
  if (!captures.ok()) return captures.status();
  if (!*captures) {
    if (absl::Status status = ForgetReplaced(native); !status.ok()) return status;
    return address;
  }
  return absl::FailedPreconditionError(
      "the stream captures a graph, which would write to this memory at each launch: call "
      "tidepool_begin_graph, or capture() in Python, before the capture, so that the graph keeps "
      "its memory");
}

// One of several threads forgets, because the others may use the new name already.
absl::Status CPool::ForgetReplaced(void* native) {
  if (!streams_.WasReplaced(native)) return absl::OkStatus();
  const locks::MutexLock lock(&replaced_mutex_);
  if (!streams_.WasReplaced(native)) return absl::OkStatus();
  if (absl::Status status = ForgetStream(native); !status.ok()) return status;
  return streams_.Register(native).status();
}

// Streams get new names by graphs and by handles that CUDA gives out again.
void CPool::GiveNamesBack() {
  if (!streams_.HasManyNames()) return;
  absl::flat_hash_set<std::uint64_t> used;
  for (const PoolBlock& block : pool_->Snapshot()) used.insert(block.stream.id);
  streams_.KeepUsed([&](Stream name) { return used.contains(name.id); });
}

// The pool lets go of the stream: an event that it recorded later would belong to the capture.
absl::Status CPool::BeginGraph(void* native) {
  if (IsDefault(native) || device_->IsOfThread(native)) {
    return absl::InvalidArgumentError(
        "a default stream cannot begin a graph, expected a stream of cudaStreamCreate");
  }
  if (settings_.alignment > static_cast<std::int64_t>(bindings::PrivatePool::kAlignment)) {
    return absl::InvalidArgumentError(
        absl::StrCat("option 'alignment' is ", settings_.alignment, ", expected at most ",
                     bindings::PrivatePool::kAlignment, " in a pool with graphs"));
  }
  const absl::StatusOr<bool> captures = device_->IsCapturing(native);
  if (!captures.ok()) return captures.status();
  if (*captures) {
    return absl::FailedPreconditionError(
        "the stream captures already: call tidepool_begin_graph before cudaStreamBeginCapture");
  }
  const absl::StatusOr<Stream> name = streams_.NameOf(native);
  if (!name.ok()) return name.status();
  if (absl::Status status = device_->Unwrap(*name); !status.ok()) return status;
  streams_.Forget(native);
  GiveNamesBack();
  return graphs_->Begin(native);
}

absl::Status CPool::EndGraph(void* native, std::size_t& number) {
  if (graphs_->HasBegun(native)) {
    const absl::StatusOr<bool> captures = device_->IsCapturing(native);
    if (!captures.ok()) return captures.status();
    if (*captures) {
      return absl::FailedPreconditionError(
          "the stream captures still: call cudaStreamEndCapture before tidepool_end_graph");
    }
  }
  absl::StatusOr<Graphs::Ended> ended = graphs_->End(native);
  if (!ended.ok()) return ended.status();
  number = ended->number;
  // The graph has ended, also where one of these frees fails.
  for (void* const address : ended->held) {
    if (absl::Status status = FreeInPool(address, native); !status.ok()) {
      Log(LogLevel::kError, absl::StrCat("memory of a graph was lost: ", status.message()));
    }
  }
  return absl::OkStatus();
}

// The work of the stream is noted, or the default stream waits for its end where it was forgotten.
absl::Status CPool::FreeLateInPool(void* address) {
  const absl::StatusOr<Stream> stream = streams_.NameOf(nullptr);
  if (!stream.ok()) return stream.status();
  if (graphs_->MayConcern(address) && graphs_->RecordUse(address))
    return FreeInPool(address, nullptr);
  const absl::StatusOr<Stream> owner = pool_->AllocatedOn(address);
  if (!owner.ok()) return owner.status();
  absl::Status status = pool_->RecordUse(address, *owner);
  if (absl::IsNotFound(status)) {
    Device& device = device_->device();
    const auto event = device::OwnedEvent::Record(device, *owner);
    status = event.ok() ? device.WaitEvent(*stream, event->get()) : event.status();
  }
  return status.ok() ? pool_->Free(address, *stream) : status;
}

absl::Status CPool::LetStreamEnd(void* native) {
  if (IsDefault(native) || device_->IsOfThread(native) || !settings_.streams_stay) {
    return absl::OkStatus();
  }
  if (device_->device().MayEnd(streams_.LastNameOf(native))) return absl::OkStatus();
  has_ending_.store(true, std::memory_order_relaxed);
  if (graphs_->HasBegun(native)) {  // the pool has let go of it
    streams_.LetEnd(native);
    return absl::OkStatus();
  }
  if (absl::Status status = ForgetStream(native); !status.ok()) return status;
  return streams_.RegisterEnding(native).status();
}

void CPool::NoteOtherThread(void* address, Stream stream) {
  const absl::StatusOr<Stream> owner = pool_->AllocatedOn(address);
  if (owner.ok() && !(*owner == stream)) pool_->RecordUse(address, *owner).IgnoreError();
}

absl::Status CPool::RecordUse(void* address, void* native) {
  if (graphs_->MayConcern(address) && graphs_->RecordUse(address)) return absl::OkStatus();
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  return stream.ok() ? pool_->RecordUse(address, *stream) : stream.status();
}

// Replaces the pool's out-of-memory text by one with the names of options. Under a shared budget it
// has the other holders.
absl::Status CPool::WithHelp(const absl::Status& error, std::size_t bytes) const {
  if (!settings_.shared_budget.empty()) return InTheNamesOfC(error);
  bindings::Shortage shortage;
  shortage.bytes = bytes;
  shortage.device = device_->device().name();
  shortage.stats = pool_->Stats();
  if (shortage.stats.max_bytes < device_->device().memory_bytes()) {
    shortage.raise = "raise option 'budget'";
  }
  if (!settings_.remaps) shortage.remap = "use option remap=1";
  shortage.wait = "option 'wait'";
  shortage.owner = device_->owner();
  if (absl::IsDeadlineExceeded(error)) shortage.waited = settings_.wait;
  shortage.device_free_bytes = device_->FreeBytes();
  for (const RegionStats& region : pool_->RegionStatistics()) {
    shortage.has_regions = true;
    shortage.region_bytes += region.reserved_bytes;
  }
  return absl::Status(error.code(), bindings::OutOfMemoryText(shortage));
}

absl::StatusOr<void*> CPool::CreateStream() {
  const absl::StatusOr<Stream> stream = device_->device().CreateStream();
  if (!stream.ok()) return stream.status();
  absl::StatusOr<void*> native = device_->NativeOf(*stream);
  if (native.ok()) {
    if (absl::Status status = streams_.Register(*native).status(); !status.ok()) native = status;
  }
  if (!native.ok()) device_->device().DestroyStream(*stream).IgnoreError();
  return native;
}

absl::Status CPool::DestroyStream(void* native) {
  if (native == nullptr) {
    return absl::InvalidArgumentError(
        "stream is NULL, expected a stream of tidepool_stream_create");
  }
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  if (!stream.ok()) return stream.status();
  absl::Status status = device_->device().DestroyStream(*stream);
  if (status.ok()) streams_.Forget(native);
  return status;
}

absl::Status CPool::SynchronizeStream(void* native) {
  const absl::StatusOr<Stream> stream = streams_.NameOf(native);
  return stream.ok() ? device_->device().SynchronizeStream(*stream) : stream.status();
}

absl::Status CPool::ForgetStream(void* native) {
  if (graphs_->HasBegun(native)) return Abandon(native);
  const Stream name = streams_.LastNameOf(native);
  if (native == nullptr || !device_->device().HasStream(name)) return absl::OkStatus();
  absl::Status status = DestroyStream(native);
  GiveNamesBack();
  return status;
}

// Ends the graph of a stream that is destroyed with its capture.
absl::Status CPool::Abandon(void* native) {
  absl::StatusOr<Graphs::Ended> ended = graphs_->End(native);
  if (!ended.ok()) return ended.status();
  absl::Status status;
  for (void* const address : ended->held) status.Update(FreeLateInPool(address));
  status.Update(graphs_->Release(ended->number));
  return status;
}

absl::Status CPool::StartTrace(const std::string& path) {
  if (recorder_ != nullptr) return recorder_->Start(path);
  return absl::FailedPreconditionError(
      "the pool cannot be recorded: make it with option recording=1");
}

absl::Status CPool::StopTrace() {
  if (recorder_ != nullptr) return recorder_->Stop();
  return absl::FailedPreconditionError("no trace is written: call tidepool_start_trace first");
}

absl::StatusOr<PinnedPool*> CPool::Pinned() {
  const locks::MutexLock lock(&pinned_mutex_);
  if (pinned_ != nullptr) return pinned_.get();
  PinnedPoolOptions options;
  options.max_bytes = settings_.pinned_bytes.value_or(HostBytes() / 2);
  options.initial_bytes = 0;
  options.may_grow = true;
  options.pages.numa_node = settings_.pinned_numa.value_or(kAnyNumaNode);
  absl::StatusOr<std::unique_ptr<PinnedPool>> pinned =
      PinnedPool::Create(&device_->device(), options);
  if (!pinned.ok()) return pinned.status();
  pinned_ = *std::move(pinned);
  return pinned_.get();
}

std::string CPool::DeviceName() const { return ordinal() < 0 ? "host" : absl::StrCat(ordinal()); }

void CPool::EndPinned() {
  const locks::MutexLock lock(&pinned_mutex_);
  pinned_.reset();
}

void CPool::Report() {
  if (recorder_ != nullptr) {
    if (absl::Status status = recorder_->Flush(); !status.ok()) {
      Log(LogLevel::kError, absl::StrCat("the trace is incomplete: ", status.message()));
    }
  }
  if (!settings_.statistics) return;
  const std::string name = absl::StrCat("pool on ", device_->device().name());
  Log(LogLevel::kInfo, bindings::StatisticsText(name, pool_->Stats()));
}

absl::Status CPool::End(std::unique_ptr<CPool> pool) {
  pool->Report();
  if (pool->device_->HasLost(*pool->pool_)) {
    static auto& kept = *new std::vector<CPool*>();
    static constinit locks::Mutex mutex;
    const locks::MutexLock lock(&mutex);
    kept.push_back(pool.release());
    return absl::OkStatus();
  }
  absl::Status status = pool->device_->ForgetStreams();
  pool->graphs_->Clear();
  pool->pool_.reset();
  pool->EndPinned();
  if (const std::int64_t used = pool->device_->device().used_bytes(); status.ok() && used > 0) {
    status = absl::InternalError(absl::StrCat("the device failed to free ", used, " bytes"));
  }
  return status;
}

}  // namespace tidepool::c_api

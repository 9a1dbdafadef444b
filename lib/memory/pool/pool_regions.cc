// SPDX-License-Identifier: Apache-2.0
// All calls that can fail come before the first that cannot be undone.
#include "lib/memory/pool/pool_regions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/pool_impl.h"
#include "lib/memory/pool/pool_options.h"
#include "lib/memory/pool/shared_observer.h"
#include "lib/memory/pool/without_host_memory.h"
#include "tidepool/log.h"

namespace tidepool::pool {
namespace {

// A resume copies contents in up to 256 pieces of a MiB or more, each with an event.
constexpr std::int64_t kMostPieces = 256;
constexpr std::int64_t kLeastPieceBytes = std::int64_t{1} << 20;

std::string Quoted(std::string_view tag) {
  return absl::StrCat("region \"", absl::CHexEscape(std::string(tag)), "\"");
}

// Names regions before a verb, in its form for one or for several.
std::string Quoted(const std::vector<std::string_view>& tags, const char* verb,
                   const char* plural) {
  constexpr std::size_t kMostNamed = 16;
  if (tags.size() == 1) return absl::StrCat(Quoted(tags.front()), verb);
  std::string all = "regions ";
  for (std::size_t i = 0; i < std::min(tags.size(), kMostNamed); ++i) {
    absl::StrAppend(&all, i == 0 ? "\"" : ", \"", absl::CHexEscape(std::string(tags[i])), "\"");
  }
  if (tags.size() > kMostNamed) {
    absl::StrAppend(&all, " and ", tags.size() - kMostNamed, " more");
  }
  return all + plural;
}

// Puts the result of an error before its cause.
absl::Status Because(const absl::Status& cause, const std::string& result) {
  return absl::Status(cause.code(), absl::StrCat(result, ": ", std::string(cause.message())));
}

SleepMode ModeOf(PauseMode mode, const ContentsStore* store) {
  if (mode == PauseMode::kDiscard) return SleepMode::kDiscard;
  return store == nullptr ? SleepMode::kHost : store->mode();
}

absl::Status CheckStream(const Device& device, Stream stream) {
  if (device.HasStream(stream)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(device.name(), " has no stream with id ", stream.id,
                                          ", expected one of its own"));
}

// Two blocks are page-locked memory, which must fit in the address space.
absl::Status CheckBlocks(const ContentsStore* store) {
  const std::int64_t bytes = store == nullptr ? 1 : store->block_bytes();
  if (bytes >= 1 && bytes <= kMaxRequestBytes / 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the store has blocks of ", bytes,
                                                 " bytes, expected 1 to ", kMaxRequestBytes / 2));
}

// Each launch of a graph would repeat the work, and no work runs before.
absl::Status CheckNoCapture(const Device& device, Stream stream, const char* call) {
  absl::Status status = device.CheckNoCapture(stream);
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("the stream captures a graph: ", call, " before the capture or after it"));
}

}  // namespace

PoolRegions::PoolRegions(Device& device, const PoolOptions& options, PhysicalStore& store,
                         SharedRoom& room, PoolImpl& untagged)
    : device_(device), options_(options), store_(store), room_(room), untagged_(untagged) {}

PoolRegions::Controls::Controls(Regions regions) : regions_(std::move(regions)) {
  std::ranges::sort(regions_, {}, [](const Region* region) { return region->begin; });
  for (Region* const region : regions_) region->control.Lock();
}

PoolRegions::Controls::~Controls() {
  for (Region* const region : regions_) region->control.Unlock();
}

// No other thread calls the pool any more.
PoolRegions::~PoolRegions() {
  for (const std::unique_ptr<Region>& region : regions_) {
    if (absl::Status status = FreeHost(*region); !status.ok()) {
      Log(LogLevel::kError,
          absl::StrCat(Quoted(region->tag), " keeps page-locked memory: ", status.ToString()));
    }
  }
}

absl::StatusOr<Pool*> PoolRegions::Get(std::string_view tag) {
  if (tag.empty() || tag.size() > Pool::kMostTagBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tag of ", tag.size(), " bytes, expected 1 to ", Pool::kMostTagBytes));
  }
  if (options_.memory == PoolMemory::kSegments) {
    return absl::UnimplementedError(
        "a region needs virtual memory, and the memory of the pool is in segments: create the pool "
        "with virtual memory, on a device that has it");
  }
  if (const Region* const known = FindOrNull(tag)) return known->pool.get();
  const locks::MutexLock making(&making_);
  if (const Region* const known = FindOrNull(tag)) return known->pool.get();
  absl::StatusOr<std::unique_ptr<Region>> made = Make(tag);
  if (!made.ok()) return made.status();
  Region* const region = made->get();
  room_.Add(*region->pool);
  const locks::MutexLock lock(&table_);
  regions_.push_back(*std::move(made));
  by_tag_[region->tag] = region;
  by_begin_[region->begin] = region;
  return region->pool.get();
}

absl::StatusOr<std::unique_ptr<PoolRegions::Region>> PoolRegions::Make(std::string_view tag) const {
  PoolOptions options = options_;
  options.initial_bytes = 0;
  options.plan = nullptr;
  if (options.placement == kPlanned) options.placement = "best-fit";
  absl::StatusOr<PoolPolicy> policy = MakePolicy(options);
  if (!policy.ok()) return policy.status();
  auto region = std::make_unique<Region>();
  region->tag = std::string(tag);
  if (options_.recorder != nullptr) {
    region->observer = std::make_unique<RegionObserver>(*options_.recorder, region->tag);
  }
  options.recorder = region->observer.get();
  region->figures.tag = region->tag;
  region->pool = std::make_unique<EndsWithoutHostMemory<PoolImpl>>(
      device_, options, *std::move(policy), PoolImpl::Place{region->tag, store_, untagged_});
  if (absl::Status status = region->pool->Start(); !status.ok()) return status;
  region->begin = static_cast<const std::byte*>(region->pool->base());
  region->end = region->begin + MemorySource::AddressBytes(options, device_);
  return region;
}

PoolRegions::Region* PoolRegions::FindOrNull(std::string_view tag) const {
  const locks::MutexLock lock(&table_);
  const auto found = by_tag_.find(tag);
  return found == by_tag_.end() ? nullptr : found->second;
}

absl::StatusOr<PoolRegions::Region*> PoolRegions::Find(std::string_view tag) const {
  if (Region* const region = FindOrNull(tag)) return region;
  return NoRegion(tag);
}

absl::StatusOr<PoolRegions::Regions> PoolRegions::FindAll(
    const std::vector<std::string_view>& tags) const {
  Regions regions;
  absl::flat_hash_set<const Region*> known;
  for (const std::string_view tag : tags) {
    const absl::StatusOr<Region*> region = Find(tag);
    if (!region.ok()) return region.status();
    if (!known.insert(*region).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(tag), " is in the list twice, expected each tag once"));
    }
    regions.push_back(*region);
  }
  return regions;
}

absl::Status PoolRegions::NoRegion(std::string_view tag) const {
  constexpr std::size_t kMostNamed = 16;
  const std::string wanted = tag.size() <= Pool::kMostTagBytes
                                 ? Quoted(tag)
                                 : absl::StrCat("region with a tag of ", tag.size(), " bytes");
  std::string known;
  const locks::MutexLock lock(&table_);
  for (std::size_t i = 0; i < std::min(regions_.size(), kMostNamed); ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ", absl::CHexEscape(regions_[i]->tag));
  }
  if (regions_.size() > kMostNamed) {
    absl::StrAppend(&known, " or one of ", regions_.size() - kMostNamed, " more");
  }
  return absl::NotFoundError(absl::StrCat("the pool has no ", wanted, ", expected ",
                                          known.empty() ? "one that was made before" : known));
}

PoolRegions::Region* PoolRegions::FindByAddress(const void* address) const {
  if (!room_.HasRegions()) return nullptr;
  const auto* const wanted = static_cast<const std::byte*>(address);
  const locks::MutexLock lock(&table_);
  const auto after = by_begin_.upper_bound(wanted);
  if (after == by_begin_.begin()) return nullptr;
  Region* const region = std::prev(after)->second;
  return wanted < region->end ? region : nullptr;
}

Pool* PoolRegions::Holding(const void* address) const {
  const Region* const region = FindByAddress(address);
  return region == nullptr ? nullptr : region->pool.get();
}

absl::Status PoolRegions::Pause(std::span<RegionPause> pauses, Stream stream) {
  if (pauses.empty()) return absl::OkStatus();
  std::vector<std::string_view> tags;
  for (const RegionPause& pause : pauses) tags.push_back(pause.tag);
  const absl::StatusOr<Regions> found = FindAll(tags);
  if (!found.ok()) return found.status();
  const Controls controls(*found);
  for (const Region* const region : *found) {
    if (!region->is_asleep) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(region->tag), " sleeps already: resume it before you pause it again"));
  }
  if (absl::Status status = CheckStream(device_, stream); !status.ok()) return status;
  std::vector<Sleeper> sleepers;
  for (std::size_t i = 0; i < pauses.size(); ++i) {
    const ContentsStore* const store = pauses[i].store.get();
    if (absl::Status status = CheckBlocks(store); !status.ok()) return status;
    sleepers.push_back({*(*found)[i], pauses[i], ModeOf(pauses[i].mode, store)});
  }
  absl::Status status =
      CheckNoCapture(device_, stream, tags.size() > 1 ? "pause them" : "pause it");
  const SharedRoom::Transition transition(room_);
  if (status.ok()) status = SaveAll(sleepers, stream);
  if (!status.ok()) return Because(status, Quoted(tags, " was not paused", " were not paused"));
  const auto work = std::make_shared<QueuedWork>(device_);
  for (const Sleeper& sleeper : sleepers) FallAsleep(sleeper, stream, work);
  return absl::OkStatus();
}

absl::Status PoolRegions::SaveAll(std::vector<Sleeper>& sleepers, Stream stream) {
  absl::Status status;
  std::size_t count = 0;
  for (; count < sleepers.size(); ++count) {
    const absl::StatusOr<std::int64_t> bytes = sleepers[count].region.pool->BeginSleep();
    status = bytes.status();
    if (!status.ok()) break;
    sleepers[count].live_bytes = *bytes;
  }
  const auto for_each = [&](auto save) {
    for (Sleeper& sleeper : sleepers) {
      if (!status.ok() || !sleeper.keeps_contents()) continue;
      status = save(sleeper);
      if (!status.ok() && sleepers.size() > 1) status = Because(status, Quoted(sleeper.region.tag));
    }
  };
  for_each([&](Sleeper& sleeper) { return PrepareSave(sleeper, stream); });
  for_each([&](Sleeper& sleeper) { return Save(sleeper.region, stream); });
  if (status.ok()) return status;
  for (std::size_t i = 0; i < count; ++i) {
    ForgetContents(sleepers[i].region);
    sleepers[i].region.pool->EndSleep();
  }
  return status;
}

void PoolRegions::FallAsleep(const Sleeper& sleeper, Stream stream,
                             const std::shared_ptr<QueuedWork>& work) {
  Region& region = sleeper.region;
  if (options_.recorder != nullptr) options_.recorder->Pause(region.tag, sleeper.mode, stream);
  region.pool->WithBacking([&work](Backing& backing) { backing.Lend(work); });
  {
    const locks::MutexLock lock(&region.arriving);
    region.is_asleep = true;
  }
  Note(region, [&](RegionStats& figures) {
    figures.is_asleep = true;
    ++figures.pauses;
    figures.copied_out_bytes += region.saved_bytes;
    figures.kept_bytes = region.saved_bytes;
    figures.stored_bytes = region.store == nullptr ? 0 : region.store->held_bytes();
  });
}

absl::Status PoolRegions::PrepareSave(Sleeper& sleeper, Stream stream) {
  Region& region = sleeper.region;
  region.store = std::move(sleeper.pause.store);
  if (absl::Status status = AwaitUnordered(region); !status.ok()) return status;
  if (absl::Status status = ProvideHost(region, sleeper.live_bytes); !status.ok()) return status;
  return OrderCopies(region, stream);
}

absl::Status PoolRegions::Save(Region& region, Stream stream) {
  absl::Status status = CopyOut(region, stream);
  if (status.ok()) status = device_.RecordEvent(region.copied.get(), stream);
  if (!status.ok()) region.unordered = std::make_shared<QueuedWork>(device_);
  return status;
}

absl::Status PoolRegions::CopyOut(Region& region, Stream stream) {
  auto* const memory = static_cast<std::byte*>(region.pool->base());
  const Range all = {0, region.end - region.begin};
  absl::Status status = region.pool->CopyLive({all}, stream, [&](const Range& range) {
    const std::int64_t offset = region.saved_bytes;
    region.saved.push_back({range, offset});
    region.saved_bytes += range.bytes();
    if (region.store != nullptr) return absl::OkStatus();
    return device_.Copy(region.host + offset, memory + range.begin, range.bytes(),
                        CopyDirection::kFromDevice, stream);
  });
  if (!status.ok() || region.store == nullptr) return status;
  if (region.saved.empty()) {  // all was freed meanwhile
    region.store = nullptr;
    return status;
  }
  return StagedCopies(device_, *region.store, memory, region.host, stream)
      .Save(region.saved, region.saved_bytes);
}

absl::Status PoolRegions::Resume(std::span<const std::string_view> named, Stream stream) {
  if (named.empty()) return absl::OkStatus();
  const std::vector<std::string_view> tags(named.begin(), named.end());
  const absl::StatusOr<Regions> found = FindAll(tags);
  if (!found.ok()) return found.status();
  const Controls controls(*found);
  for (const Region* const region : *found) {
    if (region->is_asleep) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(region->tag), " does not sleep: pause it before you resume it"));
  }
  if (absl::Status status = CheckStream(device_, stream); !status.ok()) return status;
  absl::Status status =
      CheckNoCapture(device_, stream, tags.size() > 1 ? "resume them" : "resume it");
  for (Region* const region : *found) {
    if (status.ok()) status = AwaitUnordered(*region);
  }
  const SharedRoom::Transition transition(room_);
  if (status.ok()) status = TakeMemory(*found);
  if (status.ok()) status = RestoreAll(*found, stream);
  if (!status.ok()) return Because(status, Quoted(tags, " sleeps on", " sleep on"));
  for (Region* const region : *found) WakeUp(*region, stream);
  return status;
}

absl::Status PoolRegions::RestoreAll(const Regions& regions, Stream stream) {
  for (Region* const region : regions) BeginArrivals(*region);
  absl::Status status;
  for (Region* const region : regions) {
    status = Restore(*region, stream);
    if (status.ok()) continue;
    const char* const help = region->store == nullptr
                                 ? ""
                                 : "; if the contents are lost, discard them (DiscardContents)";
    status = absl::Status(status.code(), absl::StrCat(status.message(), help));
    if (regions.size() > 1) status = Because(status, Quoted(region->tag));
    break;
  }
  if (status.ok()) return status;
  const auto work = std::make_shared<QueuedWork>(device_);
  for (Region* const region : regions) {
    EndArrivals(*region, /*is_awake=*/false);
    LendAfterError(*region, work);
  }
  return status;
}

void PoolRegions::WakeUp(Region& region, Stream stream) {
  region.has_memory = false;
  EndArrivals(region, /*is_awake=*/true);
  ForgetContents(region);
  if (options_.recorder != nullptr) options_.recorder->Resume(region.tag, stream);
  region.pool->EndSleep();
  Note(region, [](RegionStats& figures) {
    figures.is_asleep = false;
    ++figures.resumes;
  });
}

absl::Status PoolRegions::TakeMemory(const Regions& regions) {
  Regions wanting;
  for (Region* const region : regions) {
    if (!region->has_memory) wanting.push_back(region);
  }
  if (wanting.empty()) return absl::OkStatus();
  const PoolImpl& first = *wanting.front()->pool;
  absl::Status status;
  const absl::Status waited = room_.TakeRoom(first, [&] {
    status = TakeBack(wanting);
    return !absl::IsResourceExhausted(status);
  });
  if (absl::IsResourceExhausted(status)) store_.TellWanted(first.taker());
  if (!status.ok()) return waited.ok() ? status : waited;
  for (Region* const region : wanting) region->has_memory = true;
  return status;
}

absl::Status PoolRegions::TakeBack(const Regions& regions) {
  std::vector<PhysicalStore::Taking> takings;
  for (Region* const region : regions) takings.push_back(region->pool->BeginTakingBack());
  Taker& first = *takings.front().taker;
  absl::Status status = store_.BeginTaking(takings);
  const auto for_each = [&](auto step) {
    for (Region* const region : regions) {
      if (status.ok()) status = region->pool->WithBacking(step);
    }
  };
  for_each([&first](Backing& backing) { return backing.TakeOther(first); });
  for_each([](Backing& backing) { return backing.MapOther(); });
  store_.EndTaking(first);
  for (Region* const region : regions) {
    region->pool->WithBacking([is_taken = status.ok()](Backing& backing) {
      is_taken ? backing.EndTakingBack() : backing.LendAgain();
    });
  }
  return status;
}

void PoolRegions::LendAfterError(Region& region, const std::shared_ptr<QueuedWork>& work) {
  region.unordered = work;
  if (region.is_awaited) return;  // no thread writes it after EndArrivals
  region.has_memory = false;
  region.pool->WithBacking([&work](Backing& backing) { backing.Lend(work); });
}

// The page-locked memory stays for the next pause: copies may still be under way.
absl::Status PoolRegions::Discard(std::string_view tag) {
  const absl::StatusOr<Region*> found = Find(tag);
  if (!found.ok()) return found.status();
  Region& region = **found;
  const locks::MutexLock control(&region.control);
  if (!region.is_asleep) {
    return absl::FailedPreconditionError(absl::StrCat(
        Quoted(tag),
        " does not sleep, so no contents are kept: pause it with PauseMode::kDiscard"));
  }
  ForgetContents(region);
  return absl::OkStatus();
}

absl::Status PoolRegions::Restore(Region& region, Stream stream) {
  if (region.saved.empty()) return absl::OkStatus();
  if (absl::Status status = ProvideHost(region, region.saved_bytes); !status.ok()) return status;
  if (absl::Status status = OrderCopies(region, stream); !status.ok()) return status;
  std::int64_t bytes = 0;
  absl::Status status = CopyIn(region, stream, bytes);
  if (status.ok()) status = device_.RecordEvent(region.copied.get(), stream);
  if (status.ok()) Note(region, [&](RegionStats& figures) { figures.copied_in_bytes += bytes; });
  return status;
}

// Only pieces that have other memory now need their contents. Contents that were freed meanwhile
// are skipped.
absl::Status PoolRegions::CopyIn(Region& region, Stream stream, std::int64_t& bytes) {
  auto* const memory = static_cast<std::byte*>(region.pool->base());
  auto saved = region.saved.begin();
  std::vector<SavedPart> stored;
  absl::Status status =
      region.pool->CopyLive(region.pool->LostPieces(), stream, [&](const Range& range) {
        while (saved->memory.end <= range.begin) ++saved;
        const std::int64_t offset = saved->offset + (range.begin - saved->memory.begin);
        if (region.store == nullptr) {
          return CopyPieces(region, range, region.host + offset, stream, bytes);
        }
        stored.push_back({range, offset});
        bytes += range.bytes();
        return absl::OkStatus();
      });
  if (status.ok() && region.store == nullptr) {  // also after the copies of the pause
    status = EndPiece(region, region.end - region.begin, stream);
  }
  if (!status.ok() || stored.empty()) return status;
  const std::int64_t blocks = CeilDivide(region.saved_bytes, region.store->block_bytes());
  const std::int64_t blocks_of_piece = CeilDivide(blocks, kMostPieces);
  std::int64_t copied_blocks = 0;
  return StagedCopies(device_, *region.store, memory, region.host, stream)
      .Restore(stored, region.saved_bytes, [&](std::int64_t end) {
        const bool is_end = ++copied_blocks % blocks_of_piece == 0;
        return is_end ? EndPiece(region, end, stream) : absl::OkStatus();
      });
}

absl::Status PoolRegions::CopyPieces(Region& region, const Range& range, const std::byte* from,
                                     Stream stream, std::int64_t& bytes) {
  auto* const memory = static_cast<std::byte*>(region.pool->base());
  const std::int64_t piece_bytes = std::max(kLeastPieceBytes, region.saved_bytes / kMostPieces);
  for (std::int64_t begin = range.begin; begin < range.end;) {
    const std::int64_t end = std::min(begin + piece_bytes - bytes % piece_bytes, range.end);
    absl::Status status = device_.Copy(memory + begin, from + (begin - range.begin), end - begin,
                                       CopyDirection::kToDevice, stream);
    bytes += end - begin;
    if (status.ok() && bytes % piece_bytes == 0) status = EndPiece(region, end, stream);
    if (!status.ok()) return status;
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status PoolRegions::EndPiece(Region& region, std::int64_t end, Stream stream) {
  const locks::MutexLock lock(&region.arriving);
  if (region.arrival_count == region.arrivals.size()) {
    absl::StatusOr<device::OwnedEvent> event = device::OwnedEvent::Create(device_);
    if (!event.ok()) return event.status();
    region.arrivals.push_back({end, *std::move(event)});
  }
  Arrival& arrival = region.arrivals[region.arrival_count];
  absl::Status status = device_.RecordEvent(arrival.copied.get(), stream);
  if (!status.ok()) return status;
  arrival.end = end;
  ++region.arrival_count;
  region.arrived.SignalAll();
  return status;
}

void PoolRegions::BeginArrivals(Region& region) {
  const locks::MutexLock lock(&region.arriving);
  region.arrival_count = 0;
  region.is_arriving = true;
  region.is_awaited = false;
}

// After a resume from a store all copies have finished.
void PoolRegions::EndArrivals(Region& region, bool is_awake) {
  const locks::MutexLock lock(&region.arriving);
  if (region.store != nullptr) region.arrival_count = 0;
  region.is_arriving = false;
  region.is_asleep = !is_awake;
  region.arrived.SignalAll();
}

const PoolRegions::Arrival* PoolRegions::FindArrival(const Region& region, std::int64_t end) {
  const auto begin = region.arrivals.begin();
  const auto arrivals_end = begin + static_cast<std::ptrdiff_t>(region.arrival_count);
  const auto first = std::partition_point(
      begin, arrivals_end, [end](const Arrival& arrival) { return arrival.end < end; });
  return first == arrivals_end ? nullptr : &*first;
}

absl::Status PoolRegions::AwaitContents(const void* address, std::int64_t bytes, Stream stream) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("contents of ", bytes, " bytes, expected 0 or more"));
  }
  if (absl::Status status = CheckStream(device_, stream); !status.ok()) return status;
  Region* const region = FindByAddress(address);
  if (region == nullptr) return absl::OkStatus();
  const auto* const first = static_cast<const std::byte*>(address);
  const std::int64_t end = first - region->begin + std::min(bytes, region->end - first);
  const locks::MutexLock lock(&region->arriving);
  const Arrival* arrival = FindArrival(*region, end);
  while (region->is_arriving && arrival == nullptr) {
    region->arrived.Wait(&region->arriving);
    arrival = FindArrival(*region, end);
  }
  if (region->is_asleep && !region->is_arriving) {
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(region->tag), " sleeps: resume it before you wait for its contents"));
  }
  if (arrival == nullptr) return absl::OkStatus();
  absl::Status status = CheckNoCapture(device_, stream, "wait for contents");
  if (status.ok()) status = device_.WaitEvent(stream, arrival->copied.get());
  if (status.ok() && region->is_arriving) region->is_awaited = true;
  return status;
}

absl::Status PoolRegions::Register(const void* address, std::int64_t bytes) {
  const absl::StatusOr<PoolImpl*> pool = PoolWith(address, bytes);
  return pool.ok() && *pool != nullptr ? (*pool)->Register(address, bytes) : pool.status();
}

absl::Status PoolRegions::Unregister(const void* address, std::int64_t bytes) {
  const absl::StatusOr<PoolImpl*> pool = PoolWith(address, bytes);
  return pool.ok() && *pool != nullptr ? (*pool)->Unregister(address, bytes) : pool.status();
}

absl::StatusOr<PoolImpl*> PoolRegions::PoolWith(const void* address, std::int64_t bytes) const {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a registration of ", bytes, " bytes, expected 1 or more"));
  }
  const Region* const region = FindByAddress(address);
  if (region != nullptr) return region->pool.get();
  if (untagged_.OffsetOf(address) >= 0) return nullptr;
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(address)),
                   " is not in this pool, expected memory of it"));
}

void PoolRegions::ForgetContents(Region& region) {
  region.saved.clear();
  region.saved_bytes = 0;
  region.store = nullptr;
  Note(region, [](RegionStats& figures) { figures.stored_bytes = figures.kept_bytes = 0; });
}

absl::Status PoolRegions::AwaitUnordered(Region& region) {
  if (region.unordered == nullptr) return absl::OkStatus();
  absl::Status status = region.unordered->Await();
  if (status.ok()) region.unordered = nullptr;
  return status;
}

absl::Status PoolRegions::OrderCopies(Region& region, Stream stream) {
  absl::Status status = region.copied.Ensure(device_, EventKind::kWaited);
  return status.ok() ? device_.WaitEvent(stream, region.copied.get()) : status;
}

// Beside a store, memory of earlier contents would be wasted.
absl::Status PoolRegions::ProvideHost(Region& region, std::int64_t contents_bytes) {
  const bool is_staged = region.store != nullptr;
  const std::int64_t bytes = is_staged ? StagedCopies::HostBytes(*region.store) : contents_bytes;
  const std::int64_t held = region.figures.host_bytes;
  if (held == bytes || (held > bytes && !is_staged)) return absl::OkStatus();
  if (absl::Status status = FreeHost(region); !status.ok()) return status;
  const absl::StatusOr<void*> memory = device_.AllocatePinned(bytes);
  if (!memory.ok()) {
    return Because(memory.status(),
                   absl::StrCat("no page-locked memory for its contents, ", text::ExactSize(bytes),
                                " (free some, keep the contents in a store, or discard them)"));
  }
  region.host = static_cast<std::byte*>(*memory);
  Note(region, [bytes](RegionStats& figures) { figures.host_bytes = bytes; });
  return absl::OkStatus();
}

absl::Status PoolRegions::FreeHost(Region& region) {
  if (region.host == nullptr) return absl::OkStatus();
  if (absl::Status status = AwaitUnordered(region); !status.ok()) return status;
  if (!region.copied.is_empty()) {  // else no copy was ever queued
    if (absl::Status status = device_.SynchronizeEvent(region.copied.get()); !status.ok())
      return status;
  }
  if (absl::Status status = device_.FreePinned(region.host); !status.ok()) return status;
  region.host = nullptr;
  Note(region, [](RegionStats& figures) { figures.host_bytes = 0; });
  return absl::OkStatus();
}

absl::Status PoolRegions::Limit(std::string_view tag, std::int64_t least_bytes,
                                std::int64_t most_bytes) {
  if (least_bytes < 0 || least_bytes > most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("at least ", least_bytes, " and at most ",
                                                   most_bytes,
                                                   " bytes, expected 0 <= least <= most"));
  }
  const absl::StatusOr<Region*> found = Find(tag);
  if (!found.ok()) return found.status();
  Region& region = **found;
  const locks::MutexLock control(&region.control);
  const std::string not_limited = absl::StrCat(Quoted(tag), " was not limited");
  if (region.is_asleep) {
    return absl::FailedPreconditionError(
        absl::StrCat(not_limited, ": it sleeps: resume it before you limit it"));
  }
  PoolImpl& pool = *region.pool;
  // Without a piece it may hold less than its least, and with it more than its most.
  for (const std::int64_t kept_bytes : {least_bytes, std::int64_t{0}}) {
    if (pool.taker().held_bytes() <= most_bytes) break;
    if (absl::Status status = pool.LendUnused(kept_bytes).status(); !status.ok()) {
      return Because(status, not_limited);
    }
  }
  absl::Status status;
  const absl::Status waited = room_.TakeRoom(pool, [&] {
    status = store_.Bound(pool.taker(), least_bytes, most_bytes);
    return !absl::IsResourceExhausted(status);
  });
  if (!status.ok()) return Because(waited.ok() ? status : waited, not_limited);
  Note(region, [&](RegionStats& figures) {
    figures.least_bytes = least_bytes;
    figures.most_bytes = most_bytes;
  });
  room_.AlertAllWaiters();
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> PoolRegions::GiveBack() {
  if (!room_.HasRegions()) return 0;
  std::vector<Region*> regions;
  {
    const locks::MutexLock lock(&table_);
    for (const std::unique_ptr<Region>& region : regions_) regions.push_back(region.get());
  }
  for (Region* const region : regions) {
    const locks::MutexLock control(&region->control);
    if (region->is_asleep && !region->saved.empty() && region->store == nullptr) continue;
    if (absl::Status status = FreeHost(*region); !status.ok()) return status;
  }
  return store_.GiveBackLent();
}

std::vector<RegionStats> PoolRegions::Stats() const {
  std::vector<RegionStats> stats;
  const locks::MutexLock lock(&table_);
  for (const std::unique_ptr<Region>& region : regions_) {
    stats.push_back(region->figures);
    const PoolStats pool = region->pool->Stats();
    stats.back().live_bytes = pool.live_bytes;
    stats.back().live_count = pool.live_count;
    stats.back().reserved_bytes = pool.reserved_bytes;
    stats.back().blocked = pool.blocked;
  }
  return stats;
}

absl::Status PoolRegions::CheckInvariants() const {
  for (const PoolImpl* const pool : room_.Pools()) {
    if (pool == &untagged_) continue;
    if (absl::Status status = pool->CheckInvariants(); !status.ok()) return status;
  }
  return store_.CheckInvariants();
}

}  // namespace tidepool::pool

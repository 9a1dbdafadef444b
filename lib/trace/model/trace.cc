// SPDX-License-Identifier: Apache-2.0
// String tables, and the builder that numbers allocations and tracks the live ones.
#include "tidepool/trace/trace.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/capacity.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/model/live_id.h"
#include "lib/trace/model/sleepers.h"

namespace tidepool {

void TraceEvents::reserve(std::size_t capacity) {
  indices_.reserve(capacity);
  kinds_.reserve(capacity);
  times_.reserve(capacity);
  streams_.reserve(capacity);
  threads_.reserve(capacity);
}

void StringTable::Add(std::string_view text) {
  text_.append(text);
  ends_.push_back(static_cast<std::uint32_t>(text_.size()));
}

void StringTable::Reserve(std::size_t texts, std::size_t bytes) {
  ends_.reserve(texts);
  text_.reserve(bytes);
}

void StringTable::RemoveLast() {
  ends_.pop_back();
  text_.resize(ends_.empty() ? 0 : ends_.back());
}

namespace trace {

// Index of a table's strings by text. Remembers the last string, because most lookups repeat it.
class NameIndex {
 public:
  explicit NameIndex(StringTable& table) : table_(table) {}

  bool Has(std::string_view name) const {
    return indices_.contains(absl::string_view(name.data(), name.size()));
  }
  // Returns the index of `name`, after adding it if it is new.
  std::uint32_t Index(std::string_view name) {
    if (last_ < table_.size() && IsLast(name)) return last_;
    const auto [found, is_new] =
        indices_.try_emplace(std::string(name), static_cast<std::uint32_t>(table_.size()));
    if (is_new) table_.Add(name);
    last_ = found->second;
    return last_;
  }

 private:
  // Most names are empty, which needs no call of memcmp.
  bool IsLast(std::string_view name) const {
    const std::string_view last = table_[last_];
    return last.size() == name.size() && (name.empty() || last == name);
  }

  StringTable& table_;
  absl::flat_hash_map<std::string, std::uint32_t> indices_;
  std::uint32_t last_ = 0;
};

}  // namespace trace

namespace {

Trace EmptyTrace(TraceFormat format) {
  Trace trace;
  trace.format = format;
  trace.original_format = format;
  if (format == TraceFormat::kLifetimeCsv) trace.default_alignment = 1;
  return trace;
}

}  // namespace

// Lookup tables of the builder. The live allocations are a set of numbers, hashed by their ids,
// because the ids are already in the trace.
class TraceBuilder::Lookup {
 public:
  // Caller, name, file, line.
  using FrameKey = std::tuple<TraceTag, std::uint32_t, std::uint32_t, std::uint32_t>;

  explicit Lookup(Trace& trace)
      : streams(trace.stream_names),
        threads(trace.thread_names),
        marks(trace.mark_names),
        texts(trace.frame_texts),
        regions(trace.region_names),
        live_(0, Hash{&trace.allocation_ids}, Equal{&trace.allocation_ids}) {}

  trace::NameIndex streams;
  trace::NameIndex threads;
  std::optional<std::uint32_t> thread;  // index of the current thread once it has an event
  trace::NameIndex marks;
  trace::NameIndex texts;
  trace::NameIndex regions;
  trace::Sleepers sleepers;
  absl::flat_hash_map<FrameKey, TraceTag> frames;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> by_address;  // live allocations of AllocateAt

  bool Insert(std::uint32_t allocation) { return live_.insert(allocation).second; }

  // Removes `id` and returns its number in `allocation`. Returns false if `id` is not live.
  bool Remove(std::string_view id, std::uint32_t* allocation) {
    const auto found = live_.find(id);
    if (found == live_.end()) return false;
    *allocation = *found;
    live_.erase(found);
    return true;
  }

 private:
  struct Hash {
    using is_transparent = void;
    const StringTable* ids;
    std::size_t operator()(std::uint32_t allocation) const { return (*this)((*ids)[allocation]); }
    std::size_t operator()(std::string_view id) const {
      return absl::Hash<absl::string_view>()({id.data(), id.size()});
    }
  };
  struct Equal {
    using is_transparent = void;
    const StringTable* ids;
    bool operator()(std::uint32_t a, std::uint32_t b) const { return (*ids)[a] == (*ids)[b]; }
    bool operator()(std::uint32_t a, std::string_view b) const { return (*ids)[a] == b; }
  };

  absl::flat_hash_set<std::uint32_t, Hash, Equal> live_;
};

TraceBuilder::TraceBuilder(TraceFormat format)
    : trace_(EmptyTrace(format)), lookup_(std::make_unique<Lookup>(trace_)) {}

TraceBuilder::~TraceBuilder() = default;

void TraceBuilder::SetThread(std::string_view thread) {
  if (thread_ == thread) return;
  thread_ = thread;
  lookup_->thread.reset();
}

absl::StatusOr<TraceTag> TraceBuilder::Frame(TraceTag caller, std::string_view name,
                                             std::string_view file, std::uint32_t line) {
  if (trace_.frame_texts.IsFullFor(name.size() + file.size()) ||
      trace_.frames.size() >= UINT32_MAX - 1) {
    return absl::ResourceExhaustedError("more frames than a trace can number");
  }
  const TraceFrame frame = {caller, lookup_->texts.Index(name), lookup_->texts.Index(file), line};
  const auto next = static_cast<TraceTag>(trace_.frames.size() + 1);
  const auto [found, is_new] =
      lookup_->frames.try_emplace({frame.caller, frame.name, frame.file, frame.line}, next);
  if (is_new) trace_.frames.push_back(frame);
  return found->second;
}

absl::StatusOr<TraceRegion> TraceBuilder::RegionOf(std::string_view name) {
  if (name.empty() || name.size() > kMostRegionNameBytes) {
    return absl::InvalidArgumentError(trace::RegionNameError(name.size()));
  }
  if (trace_.region_names.size() >= kMostTraceRegions && !lookup_->regions.Has(name)) {
    return absl::ResourceExhaustedError("more regions than a trace can number");
  }
  return static_cast<TraceRegion>(lookup_->regions.Index(name) + 1);
}

absl::Status TraceBuilder::SetRegion(std::string_view region) {
  region_ = 0;
  if (region.empty()) return absl::OkStatus();
  const absl::StatusOr<TraceRegion> number = RegionOf(region);
  if (number.ok()) region_ = *number;
  return number.status();
}

absl::Status TraceBuilder::Pause(std::string_view region, SleepMode mode, std::string_view stream,
                                 std::int64_t time) {
  const absl::StatusOr<TraceRegion> number = RegionOf(region);
  if (!number.ok()) return number.status();
  if (lookup_->sleepers.IsAsleep(*number)) {
    return absl::InvalidArgumentError(trace::AsleepError(region));
  }
  if (trace_.pauses.size() >= UINT32_MAX) {
    return absl::ResourceExhaustedError("more pauses than a trace can number");
  }
  const auto pause = static_cast<std::uint32_t>(trace_.pauses.size());
  lookup_->sleepers.Pause(*number, pause);
  trace_.pauses.push_back({*number, mode});
  AddEvent(TraceEvent::Kind::kPause, pause, lookup_->streams.Index(stream), time);
  return absl::OkStatus();
}

absl::Status TraceBuilder::Resume(std::string_view region, std::string_view stream,
                                  std::int64_t time) {
  const absl::StatusOr<TraceRegion> number = RegionOf(region);
  if (!number.ok()) return number.status();
  if (!lookup_->sleepers.IsAsleep(*number)) {
    return absl::InvalidArgumentError(trace::AwakeError(region));
  }
  AddEvent(TraceEvent::Kind::kResume, lookup_->sleepers.Resume(*number),
           lookup_->streams.Index(stream), time);
  return absl::OkStatus();
}

absl::Status TraceBuilder::CheckAllocation(std::int64_t bytes, std::size_t id_bytes) const {
  if (bytes < 1 || bytes > kMaxRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("size ", bytes, ", expected 1 to ", kMaxRequestBytes, " bytes"));
  }
  if (lookup_->sleepers.IsAsleep(region_)) {
    return absl::InvalidArgumentError(trace::AsleepError(trace_.region_names[region_ - 1]));
  }
  if (trace_.allocations.size() >= UINT32_MAX - 1 || trace_.allocation_ids.IsFullFor(id_bytes)) {
    return absl::ResourceExhaustedError("more allocations than a trace can number");
  }
  return absl::OkStatus();
}

// Adds the id of the next allocation.
void TraceBuilder::AddId(std::string_view id) {
  if (trace_.allocations.size() == trace_.allocations.capacity()) ReserveAllocations();
  trace_.allocation_ids.Add(id);
}

// Adds the allocation of the last id.
void TraceBuilder::AddAllocation(std::int64_t bytes, Hint hint, std::string_view stream,
                                 std::int64_t time) {
  const auto allocation = static_cast<std::uint32_t>(trace_.allocations.size());
  trace_.allocations.push_back({bytes, hint, region_, tag_, line_});
  AddEvent(TraceEvent::Kind::kAllocate, allocation, lookup_->streams.Index(stream), time);
}

absl::Status TraceBuilder::Allocate(std::string_view id, std::int64_t bytes, Hint hint,
                                    std::string_view stream, std::int64_t time) {
  if (absl::Status status = CheckAllocation(bytes, id.size()); !status.ok()) return status;
  AddId(id);
  if (!lookup_->Insert(static_cast<std::uint32_t>(trace_.allocations.size()))) {
    trace_.allocation_ids.RemoveLast();
    return absl::InvalidArgumentError(trace::LiveIdError(id));
  }
  AddAllocation(bytes, hint, stream, time);
  return absl::OkStatus();
}

absl::Status TraceBuilder::AllocateAt(std::uint64_t address, std::int64_t bytes, Hint hint,
                                      std::string_view stream, std::int64_t time) {
  const trace::AddressText id(address);
  if (absl::Status status = CheckAllocation(bytes, id.text().size()); !status.ok()) return status;
  const auto allocation = static_cast<std::uint32_t>(trace_.allocations.size());
  if (!lookup_->by_address.try_emplace(address, allocation).second)
    return absl::InvalidArgumentError(trace::LiveIdError(id.text()));
  AddId(id.text());
  AddAllocation(bytes, hint, stream, time);
  return absl::OkStatus();
}

void TraceBuilder::ExpectRest(double part) {
  part_ = part;
  expected_events_ = part > 0 ? static_cast<double>(trace_.events.size()) / part : 0;
  expected_allocations_ = part > 0 ? static_cast<double>(trace_.allocations.size()) / part : 0;
}

void TraceBuilder::ReserveAllocations() {
  const std::size_t capacity = io::CapacityFor(trace_.allocations.size(), expected_allocations_);
  const double growth = static_cast<double>(capacity) /
                        static_cast<double>(std::max<std::size_t>(1, trace_.allocations.size()));
  trace_.allocations.reserve(capacity);
  trace_.allocation_ids.Reserve(
      capacity,
      static_cast<std::size_t>(growth * static_cast<double>(trace_.allocation_ids.bytes())));
}

bool TraceBuilder::Free(std::string_view id, std::string_view stream, std::int64_t time) {
  std::uint32_t allocation = 0;
  if (!lookup_->Remove(id, &allocation)) return false;
  AddEvent(TraceEvent::Kind::kFree, allocation, lookup_->streams.Index(stream), time);
  return true;
}

bool TraceBuilder::FreeAt(std::uint64_t address, std::string_view stream, std::int64_t time) {
  const auto found = lookup_->by_address.find(address);
  if (found == lookup_->by_address.end()) return false;
  AddEvent(TraceEvent::Kind::kFree, found->second, lookup_->streams.Index(stream), time);
  lookup_->by_address.erase(found);
  return true;
}

void TraceBuilder::Mark(std::string_view name, std::int64_t time) {
  AddEvent(TraceEvent::Kind::kMark, lookup_->marks.Index(name), 0, time);
}

void TraceBuilder::MarkEnd(std::string_view name, std::int64_t time) {
  AddEvent(TraceEvent::Kind::kMarkEnd, lookup_->marks.Index(name), 0, time);
}

absl::Status TraceBuilder::Failure(std::int64_t bytes, Hint hint, std::string_view stream,
                                   std::int64_t time,
                                   std::optional<std::int64_t> device_free_bytes) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("size ", bytes, ", expected 0 bytes or more"));
  }
  if (trace_.failures.size() >= UINT32_MAX) {
    return absl::ResourceExhaustedError("more failures than a trace can number");
  }
  const auto failure = static_cast<std::uint32_t>(trace_.failures.size());
  trace_.failures.push_back({{bytes, hint, region_, tag_, line_}, device_free_bytes});
  AddEvent(TraceEvent::Kind::kFailure, failure, lookup_->streams.Index(stream), time);
  return absl::OkStatus();
}

void TraceBuilder::Wait(std::string_view stream, std::string_view awaited, std::int64_t time) {
  const std::uint32_t waiting = lookup_->streams.Index(stream);
  AddEvent(TraceEvent::Kind::kWait, lookup_->streams.Index(awaited), waiting, time);
}

absl::Status TraceBuilder::Reserve(const TraceReservation& reservation, std::string_view stream,
                                   std::int64_t time) {
  if (trace_.reservations.size() >= UINT32_MAX) {
    return absl::ResourceExhaustedError("more reservations than a trace can number");
  }
  const auto index = static_cast<std::uint32_t>(trace_.reservations.size());
  trace_.reservations.push_back(reservation);
  AddEvent(TraceEvent::Kind::kReserve, index, lookup_->streams.Index(stream), time);
  return absl::OkStatus();
}

void TraceBuilder::SetDevices(std::int32_t device, std::vector<std::int32_t> devices) {
  trace_.device = device;
  trace_.devices = std::move(devices);
}

void TraceBuilder::SetAllocatorSettings(std::vector<TraceSetting> settings) {
  trace_.allocator_settings = std::move(settings);
}

void TraceBuilder::SetSegments(std::vector<TraceSegment> segments) {
  trace_.segments = std::move(segments);
}

void TraceBuilder::AddEvent(TraceEvent::Kind kind, std::uint32_t index, std::uint32_t stream,
                            std::int64_t time) {
  if (trace_.events.size() == trace_.events.capacity())
    trace_.events.reserve(io::CapacityFor(trace_.events.size(), expected_events_));
  if (!lookup_->thread.has_value()) lookup_->thread = lookup_->threads.Index(thread_);
  trace_.events.push_back(
      {.time = time, .index = index, .stream = stream, .thread = *lookup_->thread, .kind = kind});
}

Trace TraceBuilder::Build() {
  Trace trace = std::move(trace_);
  trace_ = EmptyTrace(trace.format);
  lookup_ = std::make_unique<Lookup>(trace_);
  thread_.clear();
  part_ = expected_events_ = expected_allocations_ = 0;
  tag_ = 0;
  region_ = 0;
  line_ = 0;
  return trace;
}

}  // namespace tidepool

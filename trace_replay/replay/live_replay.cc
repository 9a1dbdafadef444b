// SPDX-License-Identifier: Apache-2.0
// Reads the clock right around each call of the pool. All other work of an event is outside.
#include "trace_replay/replay/live_replay.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/memory/device/owned.h"
#include "trace_replay/caller.h"
#include "trace_replay/replay/contents_check.h"
#include "trace_replay/replay/replay_regions.h"

namespace tidepool::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRefused = -1;
constexpr std::uint32_t kNotLive = UINT32_MAX;

std::uint32_t NanosecondsSince(Clock::time_point start) {
  const std::chrono::nanoseconds elapsed = Clock::now() - start;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(elapsed.count(), UINT32_MAX));
}

std::uint32_t Sum(std::uint32_t a, std::uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

class LiveReplayer {
 public:
  LiveReplayer(const Trace& trace, Device& device, const LiveReplayOptions& options)
      : trace_(trace), device_(device), options_(options) {}
  ~LiveReplayer();
  LiveReplayer(const LiveReplayer&) = delete;
  LiveReplayer& operator=(const LiveReplayer&) = delete;

  absl::Status Start();
  absl::Status Serve();
  LiveReplay Result();

 private:
  absl::Status ServeEvents();
  absl::Status ServeEvent(std::size_t at);
  void Mark(std::string_view name);
  absl::Status Allocate(std::size_t at);
  absl::Status Refused(std::size_t at, const absl::Status& status);
  void CountRefused(std::size_t at, std::int64_t bytes, const Pool& pool);
  absl::Status Pause(const TraceEvent& event);
  absl::Status Resume(std::size_t at);
  absl::Status Free(const TraceEvent& event);
  absl::Status ReadLive();
  absl::Status ReadContents(std::uint32_t allocation, Stream stream);
  absl::Status ReportDamage();
  void FreeLive();

  bool IsLive(std::uint32_t allocation) const { return live_on_[allocation] != kNotLive; }
  Buffer BufferOf(std::uint32_t allocation) const {
    return {.number = allocation,
            .address = static_cast<char*>(addresses_[allocation]),
            .bytes = trace_.allocations[allocation].bytes};
  }

  const Trace& trace_;
  Device& device_;
  const LiveReplayOptions& options_;
  std::vector<device::OwnedStream> owned_streams_;
  std::vector<Stream> streams_;  // by the trace's index
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<ReplayRegions> regions_;
  std::unique_ptr<ContentsCheck> contents_;  // null without --verify

  // Indexed by allocation.
  std::vector<std::uint32_t> live_on_;  // the index of its stream, or kNotLive
  std::vector<void*> addresses_;
  std::vector<std::uint32_t> allocate_ns_;
  std::vector<std::int64_t> losses_;  // of its region, when it was written

  LiveReplay result_;
  Latencies allocates_;
  Latencies frees_;
  Latencies pairs_;
};

// The destructor of a pool reports allocations that are still live, so they are freed first.
LiveReplayer::~LiveReplayer() {
  contents_.reset();
  if (pool_ != nullptr) FreeLive();
  pool_.reset();
}

absl::Status LiveReplayer::Start() {
  PoolOptions pool_options = options_.pool;
  pool_options.recorder = options_.recorder;
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(&device_, pool_options);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  regions_ = std::make_unique<ReplayRegions>(trace_, *pool_);
  // A plan puts all allocations into one range of addresses.
  if (options_.pool.plan == nullptr) {
    if (absl::Status status = regions_->Make(); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < trace_.stream_names.size(); ++i) {
    absl::StatusOr<device::OwnedStream> stream = device::OwnedStream::Create(device_);
    if (!stream.ok()) return stream.status();
    streams_.push_back(stream->get());
    owned_streams_.push_back(*std::move(stream));
  }
  if (options_.verify) contents_ = std::make_unique<ContentsCheck>(device_, streams_);
  const std::size_t allocations = trace_.allocations.size();
  result_.placement.offsets.assign(allocations, kRefused);
  live_on_.assign(allocations, kNotLive);
  addresses_.resize(allocations);
  allocate_ns_.resize(allocations);
  losses_.resize(allocations);
  for (Latencies* latencies : {&allocates_, &frees_, &pairs_}) latencies->Reserve(allocations);
  return absl::OkStatus();
}

absl::Status LiveReplayer::Serve() {
  const auto start = Clock::now();
  absl::Status status = ServeEvents();
  result_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result_.pool = pool_->Stats();
  regions_->AddTo(result_.pool);
  return status;
}

absl::Status LiveReplayer::ServeEvents() {
  for (std::size_t at = 0; at < trace_.events.size(); ++at) {
    if (absl::Status status = CheckNotStopped(); !status.ok()) return status;
    if (absl::Status status = ServeEvent(at); !status.ok()) return status;
    if (regions_->HasAny()) regions_->NotePeaks();
    pool_->AwaitPlans();
  }
  if (contents_ == nullptr) return absl::OkStatus();
  if (absl::Status status = ReadLive(); !status.ok()) return status;
  return ReportDamage();
}

absl::Status LiveReplayer::ServeEvent(std::size_t at) {
  const TraceEvent& event = trace_.events[at];
  switch (event.kind) {
    case TraceEvent::Kind::kAllocate:
      return Allocate(at);
    case TraceEvent::Kind::kFree:
      return IsLive(event.index) ? Free(event) : absl::OkStatus();
    case TraceEvent::Kind::kMark:
      Mark(trace_.mark_names[event.index]);
      break;
    // Failures, waits and reservations were those of the recorded pool; this pool makes its own.
    case TraceEvent::Kind::kFailure:
    case TraceEvent::Kind::kWait:
    case TraceEvent::Kind::kReserve:
    case TraceEvent::Kind::kMarkEnd:
      break;
    case TraceEvent::Kind::kPause:
      return Pause(event);
    case TraceEvent::Kind::kResume:
      return Resume(at);
  }
  return absl::OkStatus();
}

// A plan of the whole trace has one iteration: with more of them, the pool would follow it from the
// beginning again at each mark.
void LiveReplayer::Mark(std::string_view name) {
  if (name == Pool::kIterationMark && options_.pool.plan == nullptr) {
    pool_->MarkIteration();
  } else {
    pool_->Mark(name);
  }
}

absl::Status LiveReplayer::Allocate(std::size_t at) {
  const TraceEvent& event = trace_.events[at];
  const TraceAllocation& allocation = trace_.allocations[event.index];
  const Stream stream = streams_[event.stream];
  Pool& pool = regions_->PoolOf(event.index);
  if (regions_->IsAsleep(event.index)) {
    CountRefused(at, allocation.bytes, pool);
    return absl::OkStatus();
  }
  const auto start = Clock::now();
  const absl::StatusOr<void*> address =
      pool.Allocate(static_cast<std::size_t>(allocation.bytes), stream, allocation.hint);
  const std::uint32_t nanoseconds = NanosecondsSince(start);
  if (!address.ok()) return Refused(at, address.status());
  allocate_ns_[event.index] = nanoseconds;
  allocates_.Add(nanoseconds);
  live_on_[event.index] = event.stream;
  addresses_[event.index] = *address;
  losses_[event.index] = regions_->LossesOf(event.index);
  result_.placement.offsets[event.index] = pool.OffsetOf(*address);
  return contents_ == nullptr ? absl::OkStatus() : contents_->Write(BufferOf(event.index), stream);
}

// Counts a request without room, which the pool counts as a failure too. Other errors end the
// replay.
absl::Status LiveReplayer::Refused(std::size_t at, const absl::Status& status) {
  const std::uint32_t allocation = trace_.events[at].index;
  if (!regions_->CountRefusal(allocation)) return status;
  CountRefused(at, trace_.allocations[allocation].bytes, regions_->PoolOf(allocation));
  return absl::OkStatus();
}

void LiveReplayer::CountRefused(std::size_t at, std::int64_t bytes, const Pool& pool) {
  ReplayResult& placement = result_.placement;
  if (++placement.refused > 1) return;
  const std::int64_t alignment = options_.pool.alignment;
  placement.first_refused_event = static_cast<std::int64_t>(at);
  placement.first_refused_bytes = AlignUp(bytes, alignment);
  placement.largest_free_bytes = pool.Stats().largest_hole_bytes;
}

// Contents are kept only where some were written. Work of all streams may have written them.
absl::Status LiveReplayer::Pause(const TraceEvent& event) {
  if (contents_ != nullptr) {
    if (absl::Status status = contents_->Await(); !status.ok()) return status;
  }
  return regions_->Pause(trace_.pauses[event.index], contents_ != nullptr, streams_[event.stream]);
}

// Work of any stream may read the contents.
absl::Status LiveReplayer::Resume(std::size_t at) {
  const TraceEvent& event = trace_.events[at];
  const TracePause& pause = trace_.pauses[event.index];
  absl::Status status = regions_->Resume(pause, streams_[event.stream]);
  if (absl::IsResourceExhausted(status)) {
    CountRefused(at, regions_->LiveBytes(pause.region), *pool_);
    return absl::OkStatus();
  }
  return status.ok() && contents_ != nullptr ? contents_->Await() : status;
}

absl::Status LiveReplayer::Free(const TraceEvent& event) {
  const Stream stream = streams_[event.stream];
  if (contents_ != nullptr) {
    if (absl::Status status = ReadContents(event.index, stream); !status.ok()) return status;
  }
  void* const address = BufferOf(event.index).address;
  const auto start = Clock::now();
  absl::Status status = pool_->Free(address, stream);
  const std::uint32_t nanoseconds = NanosecondsSince(start);
  if (!status.ok()) return status;
  live_on_[event.index] = kNotLive;
  frees_.Add(nanoseconds);
  pairs_.Add(Sum(allocate_ns_[event.index], nanoseconds));
  return status;
}

absl::Status LiveReplayer::ReadLive() {
  for (std::uint32_t i = 0; i < live_on_.size(); ++i) {
    if (!IsLive(i)) continue;
    if (absl::Status status = ReadContents(i, streams_[live_on_[i]]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// RecordUse is not needed for the stream that wrote: the stream that reads and frees waits for it.
absl::Status LiveReplayer::ReadContents(std::uint32_t allocation, Stream stream) {
  const bool is_lost = losses_[allocation] != regions_->LossesOf(allocation);
  if (is_lost || regions_->IsAsleep(allocation)) return absl::OkStatus();
  return contents_->Read(BufferOf(allocation), streams_[live_on_[allocation]], stream);
}

absl::Status LiveReplayer::ReportDamage() {
  const absl::StatusOr<std::optional<ContentsCheck::Damage>> damage = contents_->FindDamage();
  if (!damage.ok()) return damage.status();
  if (!damage->has_value()) return absl::OkStatus();
  const auto [number, offset] = **damage;
  return absl::DataLossError(absl::StrCat(
      "allocation ", number, " ('", absl::CHexEscape(std::string(trace_.allocation_ids[number])),
      "', ", trace_.allocations[number].bytes, " bytes) is damaged from byte ", offset,
      " on, expected the bytes that were written"));
}

void LiveReplayer::FreeLive() {
  for (std::uint32_t i = 0; i < live_on_.size(); ++i) {
    if (!IsLive(i)) continue;
    pool_->Free(BufferOf(i).address, streams_[live_on_[i]]).IgnoreError();
    live_on_[i] = kNotLive;
  }
}

// Frees live allocations first: their addresses are lost with the result.
LiveReplay LiveReplayer::Result() {
  FreeLive();
  result_.placement.high_water_bytes = result_.pool.high_water_bytes;
  result_.placement.peak_live_bytes = result_.pool.peak_live_bytes;
  result_.allocate = allocates_.Summarize();
  result_.free = frees_.Summarize();
  result_.pair = pairs_.Summarize();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<LiveReplay> ReplayLive(const Trace& trace, Device& device,
                                      const LiveReplayOptions& options) {
  LiveReplayer replayer(trace, device, options);
  absl::Status status = replayer.Start();
  if (status.ok()) status = replayer.Serve();
  if (options.recorder != nullptr) status.Update(options.recorder->Close());
  if (!status.ok()) return status;
  return replayer.Result();
}

}  // namespace tidepool::tool

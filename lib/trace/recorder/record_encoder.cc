// SPDX-License-Identifier: Apache-2.0
// Record encoder: each call of Encode ends its block, so the records are readable as soon as they
// are written.
#include "lib/trace/recorder/record_encoder.h"

#include <bit>

#include "absl/strings/str_cat.h"

namespace tidepool::recorder {

using Kind = TraceEvent::Kind;

namespace {

// Returns the number of low zero bits that all addresses of `records` share.
int CommonZeros(absl::Span<const Record> records) {
  std::uint64_t all = 0;
  for (const Record& record : records) {
    if (record.kind == Kind::kAllocate) all |= record.subject;
  }
  return all == 0 ? 0 : std::countr_zero(all);
}

}  // namespace

RecordEncoder::RecordEncoder(std::int64_t alignment) : encoder_(alignment, TraceFormat::kNative) {}

void RecordEncoder::Encode(absl::Span<const Record> records, const Names& new_names,
                           const TickClock& clock) {
  encoder_.SetAddressShift(CommonZeros(records));
  for (const std::string& name : new_names.marks) encoder_.MarkName(name);
  for (const std::string& name : new_names.regions) {
    if (++regions_ <= kMostTraceRegions) encoder_.RegionName(name);
  }
  for (const Record& record : records) EncodeRecord(record, clock.Nanoseconds(record.ticks));
  encoder_.EndBlock();
}

void RecordEncoder::EncodeRecord(const Record& record, std::int64_t time) {
  const native::NativeEncoder::Context context = {
      .time = time,
      .stream = record.kind == Kind::kMark ? 0 : StreamNumber(record.stream),
      .thread = ThreadNumber(record.thread)};
  switch (record.kind) {
    case Kind::kAllocate:
      live_[record.subject] = encoder_.allocations();
      encoder_.Allocate(
          context, record.subject,
          {.bytes = record.bytes,
           .hint = record.hint,
           .region = sleepers_.IsAsleep(record.region) ? TraceRegion{0} : record.region});
      break;
    case Kind::kFree:
      EncodeFree(context, record.subject);
      break;
    case Kind::kMark:
      encoder_.Mark(context, static_cast<std::uint32_t>(record.subject));
      break;
    case Kind::kFailure:
      encoder_.Failure(
          context,
          {{.bytes = record.bytes, .hint = record.hint, .region = record.region}, std::nullopt});
      break;
    case Kind::kWait:
      encoder_.Wait(context, StreamNumber(record.subject));
      break;
    case Kind::kPause:
    case Kind::kResume:
      EncodeSleep(context, record);
      break;
    case Kind::kMarkEnd:
    case Kind::kReserve:
      break;  // a recorder never records these
  }
}

// Encodes the beginning or the end of a sleep. A recording that began during a sleep has no pause
// for its end.
void RecordEncoder::EncodeSleep(const native::NativeEncoder::Context& context,
                                const Record& record) {
  const bool is_pause = record.kind == Kind::kPause;
  if (record.region == 0 || sleepers_.IsAsleep(record.region) == is_pause) return;
  if (is_pause) {
    sleepers_.Pause(record.region, 0);
    encoder_.Pause(context, {record.region, static_cast<SleepMode>(record.bytes)});
  } else {
    sleepers_.Resume(record.region);
    encoder_.Resume(context, record.region);
  }
}

// Encodes a free. Allocations from before the recording began are unknown: their frees are only
// counted.
void RecordEncoder::EncodeFree(const native::NativeEncoder::Context& context,
                               std::uint64_t address) {
  const auto found = live_.find(address);
  if (found == live_.end()) {
    encoder_.UnmatchedFrees(1);
    return;
  }
  encoder_.Free(context, found->second);
  live_.erase(found);
}

std::uint32_t RecordEncoder::KeyNumbers::NumberOf(std::uint64_t key, bool* is_new) {
  *is_new = false;
  if (key == last_key_ && last_ != UINT32_MAX) return last_;
  const auto [found, inserted] =
      numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size()));
  *is_new = inserted;
  last_key_ = key;
  last_ = found->second;
  return last_;
}

std::uint32_t RecordEncoder::StreamNumber(std::uint64_t stream) {
  bool is_new = false;
  const std::uint32_t number = streams_.NumberOf(stream, &is_new);
  if (is_new) encoder_.StreamName(absl::StrCat(stream));
  return number;
}

std::uint32_t RecordEncoder::ThreadNumber(std::uint64_t thread) {
  bool is_new = false;
  const std::uint32_t number = threads_.NumberOf(thread, &is_new);
  if (is_new) encoder_.ThreadName(absl::StrCat(thread));
  return number;
}

}  // namespace tidepool::recorder

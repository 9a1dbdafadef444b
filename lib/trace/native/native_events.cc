// SPDX-License-Identifier: Apache-2.0
// Native events: decodes items as docs/formats/native_trace.md defines them. The input is not
// trusted: a count never reserves memory, and a number is used only after the item that it refers
// to.
#include "lib/trace/native/native_events.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/model/live_id.h"

namespace tidepool::native {

namespace {

// Returns the flags that an item may have.
unsigned FlagsOf(Item item) {
  constexpr unsigned kContext = kNewStream | kNewThread;
  switch (item) {
    case Item::kAllocate:
      return kContext | kOffloadable | kTextId;
    case Item::kFailure:
      return kContext | kOffloadable | kDeviceFree;
    case Item::kFree:
    case Item::kReservation:
      return kContext;
    case Item::kWait:
      return kContext | kSleep;
    case Item::kMarkName:
      return kRegionName;
    case Item::kTag:
      return kRegion;
    case Item::kMark:
      return kNewThread | kMarkEnd;
    case Item::kDevice:
      return kOwnDevice;
    case Item::kSkippedRows:
      return kEarlier;
    case Item::kFrameText:
      return kSetting;
    case Item::kEnd:
      return kEndedEarly | kNoHistory;
    default:
      return 0;
  }
}

}  // namespace

NativeEvents::NativeEvents(TraceFormat original_format, std::int64_t default_alignment) {
  trace_.format = TraceFormat::kNative;
  trace_.original_format = original_format;
  trace_.default_alignment = default_alignment;
  trace_.ended_early = true;
}

absl::Status NativeEvents::Add(std::string_view block) {
  at_ = block.data();
  end_ = at_ + block.size();
  last_ = TraceEvent();
  last_address_ = 0;
  last_tag_ = 0;
  last_region_ = 0;
  constexpr unsigned kMostShift = 63;
  const unsigned shift = at_ == end_ ? kMostShift + 1 : static_cast<unsigned char>(*at_++);
  if (shift > kMostShift) {
    Fail("no valid address shift, expected 0 to 63");
    return status_;
  }
  address_shift_ = static_cast<int>(shift);
  while (at_ != end_) {
    if (is_at_end_) {
      Fail("items after the end of the trace");
      return status_;
    }
    if (!AddItem()) return status_;
  }
  return absl::OkStatus();
}

Trace NativeEvents::Build() {
  // A recording that was cut off may lack allocations that it has announced.
  trace_.earlier_allocations =
      std::min(trace_.earlier_allocations, static_cast<std::int64_t>(trace_.allocations.size()));
  return std::move(trace_);
}

bool NativeEvents::AddItem() {
  const unsigned tag = static_cast<unsigned char>(*at_++);
  const auto item = static_cast<Item>(tag & kItemMask);
  if ((tag & ~kItemMask & ~FlagsOf(item)) != 0) {
    return Fail(absl::StrCat("an item with unknown flags: its first byte is ", tag));
  }
  TraceEvent event;
  switch (item) {
    case Item::kAllocate:
      return TakeContext(tag, true, &event) && AddAllocation(tag, event);
    case Item::kFree:
      return TakeContext(tag, true, &event) && AddFree(event);
    case Item::kFailure:
      return TakeContext(tag, true, &event) && AddFailure(tag, event);
    case Item::kMark:
      event.kind = (tag & kMarkEnd) != 0 ? TraceEvent::Kind::kMarkEnd : TraceEvent::Kind::kMark;
      return TakeContext(tag, false, &event) && AddReference(trace_.mark_names, "mark", event);
    case Item::kWait:
      if ((tag & kSleep) != 0) return TakeContext(tag, true, &event) && AddSleep(event);
      event.kind = TraceEvent::Kind::kWait;
      return TakeContext(tag, true, &event) && AddReference(trace_.stream_names, "stream", event);
    case Item::kReservation:
      return TakeContext(tag, true, &event) && AddReservation(event);
    case Item::kFrameText:
      return (tag & kSetting) != 0 ? AddSetting() : AddName(trace_.frame_texts);
    case Item::kFrame:
      return AddFrame();
    case Item::kTag:
      return AddTag(tag);
    case Item::kDevice:
      return AddDevice(tag);
    case Item::kStreamName:
      return AddName(trace_.stream_names);
    case Item::kThreadName:
      return AddName(trace_.thread_names);
    case Item::kMarkName:
      return (tag & kRegionName) != 0 ? AddRegionName() : AddName(trace_.mark_names);
    case Item::kUnmatchedFrees:
      return AddCount(trace_.unmatched_frees);
    case Item::kSkippedRows:
      return AddCount((tag & kEarlier) != 0 ? trace_.earlier_allocations : trace_.skipped_rows);
    case Item::kEnd:
      return AddEnd(tag);
  }
  return Fail(absl::StrCat("an item of kind ", tag & kItemMask, ", expected 0 to 15"));
}

bool NativeEvents::AddAllocation(unsigned flags, TraceEvent event) {
  const std::size_t number = trace_.allocations.size();
  const bool is_text = (flags & kTextId) != 0;
  std::uint64_t address = 0;
  if (!is_text) {
    std::uint64_t delta = 0;
    if (!TakeNumber(&delta)) return false;
    last_address_ += static_cast<std::uint64_t>(UnZigZag(delta));
    address = last_address_ << address_shift_;
  }
  std::uint64_t bytes = 0;
  if (!TakeNumber(&bytes)) return false;
  if (bytes < 1 || bytes > static_cast<std::uint64_t>(kMaxRequestBytes)) {
    return Fail(absl::StrCat("size ", bytes, ", expected 1 to ", kMaxRequestBytes, " bytes"));
  }
  const trace::AddressText address_text(address);
  std::string_view id = address_text.text();
  if (is_text) {
    if (!TakeText(&id)) return false;
    if (trace::ParseAddress(id, &address)) {
      return Fail(
          absl::StrCat("id ", text::Quoted(id), " as text, expected an address as a number"));
    }
  }
  if (sleepers_.IsAsleep(last_region_)) {
    return Fail(trace::AsleepError(trace_.region_names[last_region_ - 1]));
  }
  if (number >= UINT32_MAX - 1 || trace_.allocation_ids.IsFullFor(id.size())) {
    return Fail("more allocations than a trace can number");
  }
  const bool is_new =
      is_text ? live_texts_.emplace(id).second : live_addresses_.insert(address).second;
  if (!is_new) return Fail(trace::LiveIdError(id));
  live_.push_back(is_text ? Live::kByText : Live::kByAddress);
  addresses_.push_back(address);
  trace_.allocation_ids.Add(id);
  trace_.allocations.push_back({static_cast<std::int64_t>(bytes),
                                (flags & kOffloadable) != 0 ? Hint::kOffloadable : Hint::kResident,
                                last_region_, last_tag_});
  event.index = static_cast<std::uint32_t>(number);
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddFree(TraceEvent event) {
  std::uint64_t since = 0;
  if (!TakeNumber(&since)) return false;
  if (since >= live_.size() || live_[live_.size() - 1 - since] == Live::kNo) {
    return Fail(
        absl::StrCat("a free of the allocation before the last ", since, ", which is not live"));
  }
  event.kind = TraceEvent::Kind::kFree;
  event.index = static_cast<std::uint32_t>(live_.size() - 1 - since);
  if (std::exchange(live_[event.index], Live::kNo) == Live::kByText) {
    live_texts_.erase(std::string(trace_.allocation_ids[event.index]));
  } else {
    live_addresses_.erase(addresses_[event.index]);
  }
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddFailure(unsigned flags, TraceEvent event) {
  std::uint64_t bytes = 0;
  if (!TakeNumber(&bytes)) return false;
  if (bytes > INT64_MAX) return Fail(absl::StrCat("size ", bytes, ", expected less than 2^63"));
  std::uint64_t free_bytes = 0;
  if ((flags & kDeviceFree) != 0 && !TakeNumber(&free_bytes)) return false;
  if (free_bytes > INT64_MAX) {
    return Fail(absl::StrCat(free_bytes, " free bytes of the device, expected less than 2^63"));
  }
  if (trace_.failures.size() >= UINT32_MAX) {
    return Fail("more failures than a trace can number");
  }
  event.kind = TraceEvent::Kind::kFailure;
  event.index = static_cast<std::uint32_t>(trace_.failures.size());
  TraceFailure failure;
  failure.bytes = static_cast<std::int64_t>(bytes);
  failure.hint = (flags & kOffloadable) != 0 ? Hint::kOffloadable : Hint::kResident;
  failure.region = last_region_;
  failure.tag = last_tag_;
  if ((flags & kDeviceFree) != 0) failure.device_free_bytes = static_cast<std::int64_t>(free_bytes);
  trace_.failures.push_back(failure);
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddReservation(TraceEvent event) {
  TraceReservation reservation;
  std::uint64_t bytes = 0;
  if (!TakeNumber(&reservation.address) || !TakeNumber(&bytes)) return false;
  if (trace_.reservations.size() >= UINT32_MAX) {
    return Fail("more reservations than a trace can number");
  }
  reservation.bytes = UnZigZag(bytes);
  event.kind = TraceEvent::Kind::kReserve;
  event.index = static_cast<std::uint32_t>(trace_.reservations.size());
  trace_.reservations.push_back(reservation);
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddFrame() {
  TraceFrame frame;
  std::uint64_t line = 0;
  if (!TakeIndex(trace_.frames.size() + 1, "calling frame", &frame.caller) ||
      !TakeIndex(trace_.frame_texts.size(), "text of a frame", &frame.name) ||
      !TakeIndex(trace_.frame_texts.size(), "text of a frame", &frame.file) || !TakeNumber(&line)) {
    return false;
  }
  if (line > UINT32_MAX) return Fail(absl::StrCat("line ", line, ", expected less than 2^32"));
  if (trace_.frames.size() >= UINT32_MAX - 1) {
    return Fail("more frames than a trace can number");
  }
  frame.line = static_cast<std::uint32_t>(line);
  trace_.frames.push_back(frame);
  return true;
}

bool NativeEvents::AddTag(unsigned flags) {
  if ((flags & kRegion) == 0) return TakeIndex(trace_.frames.size() + 1, "tag", &last_tag_);
  std::uint32_t region = 0;
  if (!TakeIndex(trace_.region_names.size() + 1, "region", &region)) return false;
  last_region_ = static_cast<TraceRegion>(region);
  return true;
}

bool NativeEvents::AddRegionName() {
  std::string_view name;
  if (!TakeText(&name)) return false;
  if (name.empty() || name.size() > kMostRegionNameBytes) {
    return Fail(trace::RegionNameError(name.size()));
  }
  if (trace_.region_names.size() >= kMostTraceRegions) {
    return Fail("more regions than a trace can number");
  }
  if (!regions_.emplace(name).second) {
    return Fail(absl::StrCat("region ", text::Quoted(name), " is named again"));
  }
  trace_.region_names.Add(name);
  return true;
}

bool NativeEvents::AddSleep(TraceEvent event) {
  std::uint32_t number = 0;
  std::uint64_t mode = 0;
  if (!TakeIndex(trace_.region_names.size(), "region", &number) || !TakeNumber(&mode)) return false;
  const auto region = static_cast<TraceRegion>(number + 1);
  if (mode != kResumeMode) return AddPause(region, mode, event);
  if (!sleepers_.IsAsleep(region)) return Fail(trace::AwakeError(trace_.region_names[number]));
  event.kind = TraceEvent::Kind::kResume;
  event.index = sleepers_.Resume(region);
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddPause(TraceRegion region, std::uint64_t mode, TraceEvent event) {
  if (mode > kSleepModes) {
    return Fail(absl::StrCat("a pause of mode ", mode, ", expected 0 to ", kSleepModes));
  }
  if (sleepers_.IsAsleep(region)) return Fail(trace::AsleepError(trace_.region_names[region - 1]));
  if (trace_.pauses.size() >= UINT32_MAX) return Fail("more pauses than a trace can number");
  event.kind = TraceEvent::Kind::kPause;
  event.index = static_cast<std::uint32_t>(trace_.pauses.size());
  sleepers_.Pause(region, event.index);
  trace_.pauses.push_back({region, static_cast<SleepMode>(mode - 1)});
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddDevice(unsigned flags) {
  std::uint64_t number = 0;
  if (!TakeNumber(&number)) return false;
  const std::int64_t device = UnZigZag(number);
  const bool is_next = trace_.devices.empty() ? device >= -1 : device > trace_.devices.back();
  if (!is_next || device > INT32_MAX) {
    return Fail(absl::StrCat("device ", device, ", expected -1 to 2^31 - 1, ascending"));
  }
  trace_.devices.push_back(static_cast<std::int32_t>(device));
  if ((flags & kOwnDevice) != 0) trace_.device = static_cast<std::int32_t>(device);
  return true;
}

bool NativeEvents::AddReference(const StringTable& names, std::string_view what, TraceEvent event) {
  if (!TakeIndex(names.size(), what, &event.index)) return false;
  trace_.events.push_back(event);
  return true;
}

bool NativeEvents::AddName(StringTable& names) {
  std::string_view name;
  if (!TakeText(&name)) return false;
  if (names.IsFullFor(name.size())) return Fail("names of 4 GiB or more, expected less");
  names.Add(name);
  return true;
}

bool NativeEvents::AddCount(std::int64_t& count) {
  std::uint64_t more = 0;
  if (!TakeNumber(&more)) return false;
  if (more > static_cast<std::uint64_t>(INT64_MAX - count)) {
    return Fail("a count beyond 2^63, expected less");
  }
  count += static_cast<std::int64_t>(more);
  return true;
}

bool NativeEvents::AddSetting() {
  std::string_view text;
  if (!TakeText(&text)) return false;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return Fail(absl::StrCat("allocator setting ", text::Quoted(text), ", expected NAME=VALUE"));
  }
  trace_.allocator_settings.push_back(
      {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))});
  return true;
}

bool NativeEvents::AddEnd(unsigned flags) {
  if (trace_.earlier_allocations > static_cast<std::int64_t>(trace_.allocations.size())) {
    return Fail(absl::StrCat(trace_.earlier_allocations, " allocations from before the recording",
                             ", expected at most the ", trace_.allocations.size(),
                             " of the trace"));
  }
  is_at_end_ = true;
  trace_.has_history = (flags & kNoHistory) == 0;
  trace_.ended_early = (flags & kEndedEarly) != 0;
  return true;
}

// Reads the stream, thread and time with which every event begins.
bool NativeEvents::TakeContext(unsigned tag, bool has_stream, TraceEvent* event) {
  if ((tag & kNewStream) != 0 && !TakeIndex(trace_.stream_names.size(), "stream", &last_.stream)) {
    return false;
  }
  if ((tag & kNewThread) != 0 && !TakeIndex(trace_.thread_names.size(), "thread", &last_.thread)) {
    return false;
  }
  if ((has_stream && last_.stream >= trace_.stream_names.size()) ||
      last_.thread >= trace_.thread_names.size()) {
    return Fail("an event before the name of its stream or thread");
  }
  std::uint64_t delta = 0;
  if (!TakeNumber(&delta)) return false;
  last_.time = static_cast<std::int64_t>(static_cast<std::uint64_t>(last_.time) +
                                         static_cast<std::uint64_t>(UnZigZag(delta)));
  event->time = last_.time;
  event->stream = has_stream ? last_.stream : 0;
  event->thread = last_.thread;
  return true;
}

bool NativeEvents::TakeLongNumber(std::uint64_t* value) {
  std::uint64_t number = 0;
  for (int shift = 0; at_ != end_; shift += 7) {
    const std::uint64_t byte = static_cast<unsigned char>(*at_++);
    if (shift == 63 && byte > 1) return Fail("a number of more than 64 bits, expected at most 64");
    number |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = number;
      return true;
    }
  }
  return Fail("a number is cut off by the end of its block");
}

bool NativeEvents::TakeIndex(std::size_t size, std::string_view what, std::uint32_t* index) {
  std::uint64_t number = 0;
  if (!TakeNumber(&number)) return false;
  if (number >= size) {
    return Fail(absl::StrCat("unknown ", std::string(what), " ", number, ": the file has defined ",
                             size, " so far"));
  }
  *index = static_cast<std::uint32_t>(number);
  return true;
}

bool NativeEvents::TakeText(std::string_view* text) {
  std::uint64_t size = 0;
  if (!TakeNumber(&size)) return false;
  if (size > static_cast<std::uint64_t>(end_ - at_)) {
    return Fail(absl::StrCat("a text of ", size, " bytes, expected at most ", end_ - at_));
  }
  *text = {at_, static_cast<std::size_t>(size)};
  at_ += size;
  return true;
}

bool NativeEvents::Fail(std::string_view what) {
  status_ = absl::InvalidArgumentError({what.data(), what.size()});
  return false;
}

}  // namespace tidepool::native

// SPDX-License-Identifier: Apache-2.0
// Native writer: converts any trace to the native format.
#include <bit>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/model/sleepers.h"
#include "lib/trace/native/native_encoder.h"
#include "lib/trace/native/native_trace.h"

namespace tidepool::native {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

absl::Status CheckTexts(const StringTable& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() <= kLongestText) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", texts[i].size(), " bytes, expected at most ", kLongestText));
  }
  return absl::OkStatus();
}

absl::Status CheckTrace(const Trace& trace) {
  if (!IsAlignment(trace.default_alignment)) {
    return absl::InvalidArgumentError(absl::StrCat("alignment ", trace.default_alignment,
                                                   ", expected a power of two up to 1 GiB"));
  }
  for (const StringTable* texts : {&trace.allocation_ids, &trace.mark_names, &trace.stream_names,
                                   &trace.thread_names, &trace.frame_texts}) {
    if (absl::Status status = CheckTexts(*texts); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < trace.region_names.size(); ++i) {
    const std::size_t bytes = trace.region_names[i].size();
    if (bytes > 0 && bytes <= kMostRegionNameBytes) continue;
    return absl::InvalidArgumentError(trace::RegionNameError(bytes));
  }
  for (const TraceSetting& setting : trace.allocator_settings) {
    const std::size_t bytes = setting.name.size() + 1 + setting.value.size();
    if (bytes <= kLongestText) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an allocator setting of ", bytes, " bytes, expected at most ", kLongestText));
  }
  return absl::OkStatus();
}

// Returns the number of low zero bits that all addresses share.
int CommonZeros(const Trace& trace) {
  std::uint64_t all = 0;
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < trace.allocation_ids.size(); ++i) {
    if (trace::ParseAddress(trace.allocation_ids[i], &address)) all |= address;
  }
  return all == 0 ? 0 : std::countr_zero(all);
}

void EncodeEvent(const Trace& trace, const TraceEvent& event, NativeEncoder& encoder) {
  const NativeEncoder::Context context{event.time, event.stream, event.thread};
  switch (event.kind) {
    case TraceEvent::Kind::kAllocate: {
      const std::string_view id = trace.allocation_ids[event.index];
      std::uint64_t address = 0;
      if (trace::ParseAddress(id, &address)) {
        encoder.Allocate(context, address, trace.allocations[event.index]);
      } else {
        encoder.AllocateText(context, id, trace.allocations[event.index]);
      }
      break;
    }
    case TraceEvent::Kind::kFree:
      encoder.Free(context, event.index);
      break;
    case TraceEvent::Kind::kMark:
      encoder.Mark(context, event.index);
      break;
    case TraceEvent::Kind::kFailure:
      encoder.Failure(context, trace.failures[event.index]);
      break;
    case TraceEvent::Kind::kWait:
      encoder.Wait(context, event.index);
      break;
    case TraceEvent::Kind::kMarkEnd:
      encoder.MarkEnd(context, event.index);
      break;
    case TraceEvent::Kind::kReserve:
      encoder.Reserve(context, trace.reservations[event.index]);
      break;
    case TraceEvent::Kind::kPause:
      encoder.Pause(context, trace.pauses[event.index]);
      break;
    case TraceEvent::Kind::kResume:
      encoder.Resume(context, trace.pauses[event.index].region);
      break;
  }
}

}  // namespace

absl::Status WriteNative(const Trace& trace, std::ostream& out) {
  if (absl::Status status = CheckTrace(trace); !status.ok()) return status;
  NativeEncoder encoder(trace.default_alignment, trace.original_format);
  const auto write = [&](std::size_t at_least) {
    if (encoder.output().size() < at_least) return;
    out << encoder.output();
    encoder.Clear();
  };
  encoder.SetAddressShift(CommonZeros(trace));
  for (std::size_t i = 0; i < trace.stream_names.size(); ++i, write(kBufferBytes))
    encoder.StreamName(trace.stream_names[i]);
  for (std::size_t i = 0; i < trace.thread_names.size(); ++i, write(kBufferBytes))
    encoder.ThreadName(trace.thread_names[i]);
  for (std::size_t i = 0; i < trace.mark_names.size(); ++i, write(kBufferBytes))
    encoder.MarkName(trace.mark_names[i]);
  for (std::size_t i = 0; i < trace.region_names.size(); ++i, write(kBufferBytes))
    encoder.RegionName(trace.region_names[i]);
  for (std::size_t i = 0; i < trace.frame_texts.size(); ++i, write(kBufferBytes))
    encoder.FrameText(trace.frame_texts[i]);
  for (std::size_t i = 0; i < trace.frames.size(); ++i, write(kBufferBytes))
    encoder.Frame(trace.frames[i]);
  for (const std::int32_t device : trace.devices) encoder.Device(device, device == trace.device);
  encoder.UnmatchedFrees(trace.unmatched_frees);
  encoder.SkippedRows(trace.skipped_rows);
  encoder.EarlierAllocations(trace.earlier_allocations);
  for (const TraceSetting& setting : trace.allocator_settings) encoder.Setting(setting);
  for (const TraceEvent& event : trace.events) {
    EncodeEvent(trace, event, encoder);
    write(kBufferBytes);
  }
  encoder.End(trace.ended_early, trace.has_history);
  write(0);
  return absl::OkStatus();
}

}  // namespace tidepool::native

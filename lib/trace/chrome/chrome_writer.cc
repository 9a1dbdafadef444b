// SPDX-License-Identifier: Apache-2.0
// Chrome writer: a trace for Perfetto and chrome://tracing (docs/formats/chrome_traces.md). It
// holds lifetimes, counters and marks for viewers, and PyTorch's [memory] events, from which the
// trace can be read again.
#include <algorithm>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/json_text.h"
#include "lib/base/io/microseconds.h"
#include "lib/base/text/utf8.h"
#include "lib/trace/chrome/chrome_trace.h"
#include "lib/trace/model/address_text.h"
#include "tidepool/trace/frames.h"

namespace tidepool::chrome {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
// Bytes of stack shown with each lifetime: the innermost frames that fit.
constexpr std::size_t kShownStackBytes = 200;
constexpr std::uint32_t kUnpaired = UINT32_MAX;

// Returns, for each mark and mark end, a number that the two of a pair share, or kUnpaired.
std::vector<std::uint32_t> PairMarks(const Trace& trace) {
  std::vector<std::uint32_t> pairs(trace.events.size(), kUnpaired);
  std::vector<std::vector<std::size_t>> open(trace.mark_names.size());
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEvent::Kind::kMark) open[event.index].push_back(i);
    if (event.kind != TraceEvent::Kind::kMarkEnd || open[event.index].empty()) continue;
    pairs[i] = pairs[open[event.index].back()] = ++count;
    open[event.index].pop_back();
  }
  return pairs;
}

// Times at which events are shown. They never decrease, because readers sort by time. Without any
// times in the trace, events are a microsecond apart.
class Clock {
 public:
  explicit Clock(const Trace& trace)
      : counts_(std::all_of(trace.events.begin(), trace.events.end(),
                            [](const TraceEvent& event) { return event.time == 0; })) {}

  std::int64_t At(std::size_t index, const TraceEvent& event) {
    now_ = std::max(now_, counts_ ? static_cast<std::int64_t>(index) * 1000 : event.time);
    return now_;
  }

 private:
  bool counts_;
  std::int64_t now_ = -std::numeric_limits<std::int64_t>::max();
};

std::vector<std::string> JsonTexts(const StringTable& table) {
  std::vector<std::string> texts;
  texts.reserve(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) texts.push_back(io::JsonText(table[i]));
  return texts;
}

class ChromeWriter {
 public:
  ChromeWriter(const Trace& trace, std::ostream& out)
      : trace_(trace),
        out_(out),
        streams_(JsonTexts(trace.stream_names)),
        threads_(JsonTexts(trace.thread_names)),
        marks_(JsonTexts(trace.mark_names)),
        frame_texts_(JsonTexts(trace.frame_texts)),
        names_(trace),
        ids_(IdsOf(trace)),
        device_(absl::StrCat(R"(,"Device Id":)", trace.device, R"(,"Device Type":)",
                             trace.device < 0 ? 0 : 1)) {}

  void Write();

 private:
  using Kind = TraceEvent::Kind;

  // How [memory] events represent ids. If any address must be invented, all are, so that no two are
  // equal.
  enum class Ids : std::uint8_t {
    kAddresses,
    kTexts,   // invented addresses, with the id as text
    kMadeUp,  // invented addresses without text: JSON cannot hold the ids
  };
  static Ids IdsOf(const Trace& trace);

  void WriteFrames();
  void WriteNames();
  void WriteEvent(std::size_t index);
  void WriteAllocation(const TraceEvent& event);
  void WriteFree(const TraceEvent& event);
  void WriteFailure(const TraceEvent& event);
  void WriteReservation(const TraceEvent& event);
  void WriteMark(const TraceEvent& event, std::uint32_t pair);
  void WriteSleep(const TraceEvent& event);
  void WriteCounters();
  void WriteUnfreed();

  void Begin(std::string_view phase, const TraceEvent* event);
  void AppendLifetime(std::uint32_t allocation, std::string_view phase, const TraceEvent* event);
  void AppendMemory(std::int64_t bytes, std::uint64_t address);
  void AppendId(std::uint32_t allocation);
  void AppendDetails(const TraceEvent& event, const TraceAllocation* request);
  std::uint64_t Address(std::uint32_t allocation) const;
  const std::string& ShownStack(TraceTag tag);
  void Flush(std::size_t at_least);

  const Trace& trace_;
  std::ostream& out_;
  std::string text_;
  std::vector<std::string> streams_;
  std::vector<std::string> threads_;
  std::vector<std::string> marks_;
  std::vector<std::string> frame_texts_;
  FrameNames names_;
  Ids ids_;
  std::string device_;
  std::vector<std::uint32_t> pairs_;
  std::vector<bool> live_;
  std::int64_t live_bytes_ = 0;
  std::int64_t reserved_bytes_ = 0;
  bool counters_changed_ = false;
  std::int64_t now_ = 0;
  std::string now_text_;
  TraceTag shown_tag_ = 0;
  std::string shown_stack_;
};

ChromeWriter::Ids ChromeWriter::IdsOf(const Trace& trace) {
  Ids ids = Ids::kAddresses;
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < trace.allocation_ids.size(); ++i) {
    const std::string_view id = trace.allocation_ids[i];
    if (trace::ParseAddress(id, &address)) continue;
    if (!text::IsUtf8(id)) return Ids::kMadeUp;
    ids = Ids::kTexts;
  }
  return ids;
}

void ChromeWriter::Flush(std::size_t at_least) {
  if (text_.size() < at_least) return;
  out_ << text_;
  text_.clear();
}

// Begins an event at the current time, on the thread of `event`, or of the whole process if that is
// nullptr.
void ChromeWriter::Begin(std::string_view phase, const TraceEvent* event) {
  absl::StrAppend(&text_, ",\n{\"ph\":\"", absl::string_view(phase.data(), phase.size()),
                  "\",\"pid\":1,\"ts\":", now_text_);
  if (event != nullptr) absl::StrAppend(&text_, ",\"tid\":", event->thread + 1);
}

void ChromeWriter::WriteFrames() {
  if (trace_.frames.empty()) return;
  text_ += "\"stackFrames\":{";
  for (std::size_t i = 0; i < trace_.frames.size(); ++i, Flush(kBufferBytes)) {
    const TraceFrame& frame = trace_.frames[i];
    absl::StrAppend(&text_, i == 0 ? "\n\"" : ",\n\"", i + 1,
                    "\":{\"name\":", frame_texts_[frame.name]);
    if (!trace_.frame_texts[frame.file].empty()) {
      absl::StrAppend(&text_, ",\"file\":", frame_texts_[frame.file]);
    }
    if (frame.line != 0) absl::StrAppend(&text_, ",\"line\":", frame.line);
    if (frame.caller != 0) absl::StrAppend(&text_, ",\"parent\":\"", frame.caller, "\"");
    text_ += '}';
  }
  text_ += "},\n";
}

void ChromeWriter::WriteNames() {
  absl::StrAppend(&text_, R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"memory of )",
                  trace_.device < 0 ? "the host" : absl::StrCat("device ", trace_.device), "\"}}");
  for (std::size_t i = 0; i < threads_.size(); ++i, Flush(kBufferBytes)) {
    absl::StrAppend(&text_, ",\n", R"({"ph":"M","name":"thread_name","pid":1,"tid":)", i + 1,
                    R"(,"args":{"name":)", threads_[i], "}}");
  }
}

const std::string& ChromeWriter::ShownStack(TraceTag tag) {
  if (tag == shown_tag_) return shown_stack_;
  shown_tag_ = tag;
  std::string stack;
  for (; tag != 0; tag = trace_.frames[tag - 1].caller) {
    const TraceFrame& frame = trace_.frames[tag - 1];
    const std::string_view name = trace_.frame_texts[frame.name];
    if (IsMachineryFrame(name, trace_.frame_texts[frame.file])) continue;
    if (!stack.empty() && stack.size() + name.size() > kShownStackBytes) {
      stack.insert(0, "...;");
      break;
    }
    stack.insert(0, stack.empty() ? name : absl::StrCat(std::string(name), ";"));
  }
  return shown_stack_ = io::JsonText(stack);
}

void ChromeWriter::AppendLifetime(std::uint32_t allocation, std::string_view phase,
                                  const TraceEvent* event) {
  const TraceTag tag = trace_.allocations[allocation].tag;
  Begin(phase, event);
  absl::StrAppend(
      &text_, ",\"cat\":\"allocation\",\"id\":", allocation + 1, ",\"name\":",
      tag == 0 ? "\"allocation\"" : frame_texts_[trace_.frames[names_.Naming(tag) - 1].name]);
}

// Appends the beginning of a [memory] event; AppendDetails ends it.
void ChromeWriter::AppendMemory(std::int64_t bytes, std::uint64_t address) {
  absl::StrAppend(&text_,
                  R"(,"s":"t","cat":"cpu_instant_event","name":"[memory]","args":{"Bytes":)", bytes,
                  ",\"Addr\":", address, device_, ",\"Total Allocated\":", live_bytes_);
  if (!trace_.reservations.empty()) {
    absl::StrAppend(&text_, ",\"Total Reserved\":", reserved_bytes_);
  }
}

std::uint64_t ChromeWriter::Address(std::uint32_t allocation) const {
  std::uint64_t address = 0;
  if (ids_ != Ids::kAddresses) return (std::uint64_t{allocation} + 1) * 512;
  trace::ParseAddress(trace_.allocation_ids[allocation], &address);
  return address;
}

void ChromeWriter::AppendId(std::uint32_t allocation) {
  if (ids_ != Ids::kTexts) return;
  absl::StrAppend(&text_, ",\"Id\":", io::JsonText(trace_.allocation_ids[allocation]));
}

// Appends the remaining arguments and the stack.
void ChromeWriter::AppendDetails(const TraceEvent& event, const TraceAllocation* request) {
  if (!trace_.stream_names[event.stream].empty()) {
    absl::StrAppend(&text_, ",\"Stream\":", streams_[event.stream]);
  }
  if (request != nullptr && request->hint == Hint::kOffloadable) text_ += R"(,"Hint":"high")";
  text_ += '}';
  if (request != nullptr && request->tag != 0) absl::StrAppend(&text_, ",\"sf\":", request->tag);
  text_ += '}';
}

void ChromeWriter::WriteAllocation(const TraceEvent& event) {
  const TraceAllocation& allocation = trace_.allocations[event.index];
  live_bytes_ += allocation.bytes;
  live_[event.index] = true;
  AppendLifetime(event.index, "b", &event);
  absl::StrAppend(&text_, ",\"args\":{\"bytes\":", allocation.bytes,
                  ",\"id\":", io::JsonText(trace_.allocation_ids[event.index]));
  if (!trace_.stream_names[event.stream].empty()) {
    absl::StrAppend(&text_, ",\"stream\":", streams_[event.stream]);
  }
  if (allocation.hint == Hint::kOffloadable) text_ += R"(,"hint":"high")";
  if (allocation.tag != 0) absl::StrAppend(&text_, ",\"stack\":", ShownStack(allocation.tag));
  text_ += "}}";
  Begin("i", &event);
  AppendMemory(allocation.bytes, Address(event.index));
  AppendId(event.index);
  AppendDetails(event, &allocation);
}

void ChromeWriter::WriteFree(const TraceEvent& event) {
  const std::int64_t bytes = trace_.allocations[event.index].bytes;
  live_bytes_ -= bytes;
  live_[event.index] = false;
  AppendLifetime(event.index, "e", &event);
  text_ += '}';
  Begin("i", &event);
  AppendMemory(-bytes, Address(event.index));
  AppendId(event.index);
  AppendDetails(event, nullptr);
}

void ChromeWriter::WriteFailure(const TraceEvent& event) {
  const TraceAllocation& failure = trace_.failures[event.index];
  Begin("i", &event);
  absl::StrAppend(&text_, R"(,"s":"t","cat":"cpu_instant_event","name":"[OutOfMemory]")",
                  R"(,"args":{"Bytes":)", failure.bytes, device_);
  AppendDetails(event, &failure);
}

// Writes a [memory] event without bytes: its running total shows the reservation. An unchanged
// total shows nothing, so it is left out.
void ChromeWriter::WriteReservation(const TraceEvent& event) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const TraceReservation& reservation = trace_.reservations[event.index];
  const std::int64_t before = reserved_bytes_;
  reserved_bytes_ = reservation.bytes > kMost - before
                        ? kMost
                        : std::max<std::int64_t>(0, before + reservation.bytes);
  if (reserved_bytes_ == before) return;
  Begin("i", &event);
  AppendMemory(0, reservation.address);
  AppendDetails(event, nullptr);
}

void ChromeWriter::WriteMark(const TraceEvent& event, std::uint32_t pair) {
  const bool is_end = event.kind == Kind::kMarkEnd;
  if (is_end && pair == kUnpaired) return;
  Begin(pair == kUnpaired ? "i" : is_end ? "e" : "b", &event);
  absl::StrAppend(&text_, ",\"cat\":\"user_annotation\",\"name\":", marks_[event.index]);
  if (pair == kUnpaired) {
    text_ += ",\"s\":\"p\"}";
  } else {
    absl::StrAppend(&text_, ",\"id\":", pair, "}");
  }
}

// Writes the counters once for each time, because a viewer shows only the last value.
void ChromeWriter::WriteCounters() {
  if (!std::exchange(counters_changed_, false)) return;
  Begin("C", nullptr);
  absl::StrAppend(&text_, R"(,"name":"live","args":{"bytes":)", live_bytes_, "}}");
  if (trace_.reservations.empty()) return;
  Begin("C", nullptr);
  absl::StrAppend(&text_, R"(,"name":"reserved","args":{"bytes":)", reserved_bytes_, "}}");
}

void ChromeWriter::WriteEvent(std::size_t index) {
  const TraceEvent& event = trace_.events[index];
  counters_changed_ |= event.TouchesMemory() || event.kind == Kind::kReserve;
  switch (event.kind) {
    case Kind::kAllocate:
      return WriteAllocation(event);
    case Kind::kFree:
      return WriteFree(event);
    case Kind::kFailure:
      return WriteFailure(event);
    case Kind::kReserve:
      return WriteReservation(event);
    case Kind::kMark:
    case Kind::kMarkEnd:
      return WriteMark(event, pairs_[index]);
    case Kind::kWait:
      Begin("i", &event);
      absl::StrAppend(&text_, R"(,"s":"t","cat":"wait","name":"wait","args":{"stream":)",
                      streams_[event.stream], ",\"for\":", streams_[event.index], "}}");
      return;
    case Kind::kPause:
    case Kind::kResume:
      return WriteSleep(event);
  }
}

void ChromeWriter::WriteSleep(const TraceEvent& event) {
  const TracePause& pause = trace_.pauses[event.index];
  Begin("i", &event);
  absl::StrAppend(&text_, R"(,"s":"p","cat":"region","name":")",
                  event.kind == Kind::kPause ? "pause" : "resume", R"(","args":{"region":)",
                  io::JsonText(trace_.region_names[pause.region - 1U]), R"(,"mode":")",
                  std::string(SleepModeName(pause.mode)), "\"}}");
}

// Ends lifetimes without a free at the end of the trace: viewers drop lifetimes without an end.
void ChromeWriter::WriteUnfreed() {
  for (std::uint32_t i = 0; i < live_.size(); ++i, Flush(kBufferBytes)) {
    if (!live_[i]) continue;
    AppendLifetime(i, "e", nullptr);
    text_ += R"(,"args":{"freed":false}})";
  }
}

void ChromeWriter::Write() {
  pairs_ = PairMarks(trace_);
  live_.resize(trace_.allocations.size());
  text_ = "{\"displayTimeUnit\":\"ns\",\n";
  WriteFrames();
  text_ += "\"traceEvents\":[\n";
  WriteNames();
  Clock clock(trace_);
  for (std::size_t i = 0; i < trace_.events.size(); ++i, Flush(kBufferBytes)) {
    const std::int64_t time = clock.At(i, trace_.events[i]);
    if (i == 0 || time != now_) {
      WriteCounters();
      now_ = time;
      now_text_ = io::Microseconds(time);
    }
    WriteEvent(i);
  }
  WriteCounters();
  WriteUnfreed();
  text_ += "\n]}\n";
  Flush(0);
}

}  // namespace

absl::Status WriteChromeTrace(const Trace& trace, std::ostream& out) {
  ChromeWriter(trace, out).Write();
  return absl::OkStatus();
}

}  // namespace tidepool::chrome

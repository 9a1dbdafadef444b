// SPDX-License-Identifier: Apache-2.0
// Chrome reader: the memory events of PyTorch's profiler (docs/formats/chrome_traces.md) as a
// trace. Takes the events of one device in the order of time, each with the stack of its thread at
// that time.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/trace/chrome/chrome_trace.h"
#include "lib/trace/chrome/earlier_memory.h"
#include "lib/trace/chrome/profiler_events.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/model/order_by_time.h"

namespace tidepool::chrome {
namespace {

// Frame of a Python function, parsed from "train.py(12): step". Any other text is a name without
// file and line.
struct PythonFunction {
  explicit PythonFunction(std::string_view text) : name(text) {
    const std::size_t close = text.find("): ");
    if (close == std::string_view::npos) return;
    const std::size_t open = text.rfind('(', close);
    std::int64_t number = 0;
    if (open == std::string_view::npos || open == 0 || close + 3 == text.size() ||
        !io::ParseInteger(text.substr(open + 1, close - open - 1), &number) || number < 0 ||
        number > UINT32_MAX) {
      return;
    }
    name = text.substr(close + 3);
    file = text.substr(0, open);
    line = static_cast<std::uint32_t>(number);
  }

  std::string_view name;
  std::string_view file;
  std::uint32_t line = 0;
};

// Tags of the stacks that the file lists in stackFrames.
class ListedStacks {
 public:
  ListedStacks(const ProfilerEvents& file, TraceBuilder& builder)
      : file_(file), builder_(builder) {}

  absl::StatusOr<TraceTag> Tag(const std::string& id) {
    // Ids from the frame outwards, up to a frame with a known tag.
    std::vector<const std::string*> missing;
    TraceTag tag = 0;
    for (const std::string* at = &id; !at->empty();) {
      const auto known = tags_.find(*at);
      if (known != tags_.end()) {
        tag = known->second;
        break;
      }
      const auto frame = file_.frames.find(*at);
      if (frame == file_.frames.end()) break;
      if (missing.size() > file_.frames.size()) {
        return absl::InvalidArgumentError(
            "stackFrames call each other in a circle, expected a tree");
      }
      missing.push_back(at);
      at = &frame->second.caller;
    }
    for (; !missing.empty(); missing.pop_back()) {
      const ProfilerFrame& frame = file_.frames.at(*missing.back());
      absl::StatusOr<TraceTag> made = builder_.Frame(tag, frame.name, frame.file, frame.line);
      if (!made.ok()) return made;
      tag = *made;
      tags_.emplace(*missing.back(), tag);
    }
    return tag;
  }

 private:
  const ProfilerEvents& file_;
  TraceBuilder& builder_;
  absl::flat_hash_map<std::string, TraceTag> tags_;
};

class ChromeTrace {
 public:
  explicit ChromeTrace(ProfilerEvents file)
      : file_(std::move(file)), listed_stacks_(file_, builder_) {}

  absl::StatusOr<Trace> Build(const ReadOptions& options);

 private:
  using Kind = ProfilerEvent::Kind;

  std::int32_t DeviceWithMost() const;
  void ChooseDevice(const ReadOptions& options);
  absl::Status CheckProcess() const;
  void SortSpans();
  std::vector<std::uint32_t> Order() const;
  absl::Status AddEarlier(const std::vector<std::uint32_t>& order);
  absl::Status AddEarlierAllocation(const ProfilerEvent& witness, std::string_view id,
                                    std::int64_t bytes);
  ProfilerEvent EarlierWitness(const std::vector<std::uint32_t>& order) const;
  std::string_view Id(const ProfilerEvent& event, trace::AddressText& address) const;
  absl::Status Add(const ProfilerEvent& event);
  absl::Status AddMemory(const ProfilerEvent& event);
  absl::Status AddAllocation(const ProfilerEvent& event, std::string_view id);
  absl::StatusOr<bool> AddReservation(const ProfilerEvent& event);
  absl::Status SetTag(const ProfilerEvent& event);

  ProfilerEvents file_;
  TraceBuilder builder_{TraceFormat::kChromeTrace};
  ListedStacks listed_stacks_;
  std::int32_t device_ = 0;
  std::int64_t reserved_ = 0;
};

// Returns the GPU that holds the most memory at a time, as far as its events and totals tell; the
// host (-1) only without a GPU.
std::int32_t ChromeTrace::DeviceWithMost() const {
  struct Use {
    double live = 0;
    double most = -1;
  };
  absl::flat_hash_map<std::int32_t, Use> uses;
  for (const ProfilerEvent& event : file_.events) {
    if (event.kind != Kind::kMemory) continue;
    Use& use = uses[event.device];
    use.live += static_cast<double>(event.bytes);
    use.most = std::max({use.most, use.live, static_cast<double>(event.allocated),
                         static_cast<double>(event.reserved)});
  }
  std::int32_t most = -1;
  for (const std::int32_t device : file_.devices) {
    if (device >= 0 && (most < 0 || uses[device].most > uses[most].most)) most = device;
  }
  return most;
}

void ChromeTrace::ChooseDevice(const ReadOptions& options) {
  const std::set<std::int32_t>& devices = file_.devices;
  const auto refusing = file_.refusing_devices.lower_bound(0);
  device_ = refusing != file_.refusing_devices.end() ? *refusing : DeviceWithMost();
  if (options.device && devices.contains(*options.device)) device_ = *options.device;
  builder_.SetDevices(device_, {devices.begin(), devices.end()});
}

// Checks that all memory events are of one process: addresses of different processes are unrelated.
absl::Status ChromeTrace::CheckProcess() const {
  std::optional<std::uint32_t> process;
  for (const ProfilerEvent& event : file_.events) {
    if (!event.IsOfDevice() || event.device != device_) continue;
    const std::uint32_t its = file_.threads[event.thread].process;
    if (!process) process = its;
    if (*process == its) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "memory events of the processes ", text::Quoted(file_.texts[*process]), " and ",
        text::Quoted(file_.texts[its]), " on device ", device_, ", expected one process"));
  }
  return absl::OkStatus();
}

void ChromeTrace::SortSpans() {
  std::vector<bool> is_wanted(file_.threads.size());
  for (const ProfilerEvent& event : file_.events) {
    if (event.IsOfDevice() && event.device == device_) is_wanted[event.thread] = true;
  }
  file_.spans.Sort(is_wanted);
}

std::vector<std::uint32_t> ChromeTrace::Order() const {
  std::vector<std::int64_t> times;
  times.reserve(file_.events.size());
  for (const ProfilerEvent& event : file_.events) times.push_back(event.time);
  return trace::OrderByTime(times);
}

absl::Status ChromeTrace::SetTag(const ProfilerEvent& event) {
  const auto frame = [this](TraceTag outer, std::uint32_t name) {
    const PythonFunction function(file_.texts[name]);
    return builder_.Frame(outer, function.name, function.file, function.line);
  };
  absl::StatusOr<TraceTag> tag =
      event.stack != 0 ? listed_stacks_.Tag(std::string(file_.stack_ids[event.stack - 1]))
                       : file_.spans.TagAt(event.thread, event.time, frame);
  if (!tag.ok()) return tag.status();
  builder_.SetTag(*tag);
  return absl::OkStatus();
}

std::string_view ChromeTrace::Id(const ProfilerEvent& event, trace::AddressText& address) const {
  if (event.has_text_id) return file_.texts[static_cast<std::uint32_t>(event.subject)];
  address = trace::AddressText(event.subject);
  return address.text();
}

// Returns the first event of the device, moved to the time of the trace's first event. Its reserved
// bytes are the first that are known, at an unknown address.
ProfilerEvent ChromeTrace::EarlierWitness(const std::vector<std::uint32_t>& order) const {
  std::optional<std::int64_t> begin;
  std::optional<ProfilerEvent> first;
  std::int64_t reserved = ProfilerEvent::kUnknownBytes;
  for (const std::uint32_t index : order) {
    const ProfilerEvent& event = file_.events[index];
    if (event.IsOfDevice() && event.device != device_) continue;
    if (!begin) begin = event.time;
    if (!event.IsOfDevice()) continue;
    if (!first) first = event;
    if ((reserved = event.reserved) != ProfilerEvent::kUnknownBytes) break;
  }
  ProfilerEvent witness = first.value_or(ProfilerEvent());
  witness.time = begin.value_or(0);
  witness.bytes = 1;
  witness.reserved = reserved;
  return witness;
}

// Adds the memory from before the recording began, at the time of the first event.
absl::Status ChromeTrace::AddEarlier(const std::vector<std::uint32_t>& order) {
  const EarlierMemory earlier = FindEarlierMemory(file_, device_, order);
  if (earlier.IsEmpty()) return absl::OkStatus();
  ProfilerEvent witness = EarlierWitness(order);
  builder_.SetThread(file_.threads[witness.thread].name);
  if (absl::Status status = AddReservation(witness).status(); !status.ok()) return status;
  if (earlier.other_bytes > 0) {
    absl::Status status =
        AddEarlierAllocation(witness, "before the recording", earlier.other_bytes);
    if (!status.ok()) return status;
  }
  for (const std::uint32_t index : earlier.frees) {
    const ProfilerEvent& free = file_.events[index];
    trace::AddressText address(0);
    witness.stream = free.stream;
    absl::Status status = AddEarlierAllocation(witness, Id(free, address), -free.bytes);
    if (!status.ok()) return status;
  }
  builder_.BeginRecording();
  return absl::OkStatus();
}

absl::Status ChromeTrace::AddEarlierAllocation(const ProfilerEvent& witness, std::string_view id,
                                               std::int64_t bytes) {
  absl::Status status =
      builder_.Allocate(id, bytes, Hint::kResident, file_.texts[witness.stream], witness.time);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("memory from before the recording ('Total "
                                                  "Allocated' less the events up to it): ",
                                                  status.message()));
}

absl::StatusOr<bool> ChromeTrace::AddReservation(const ProfilerEvent& event) {
  if (event.reserved == ProfilerEvent::kUnknownBytes || event.reserved == reserved_) return false;
  const std::uint64_t address = event.bytes == 0 && !event.has_text_id ? event.subject : 0;
  absl::Status status = builder_.Reserve({address, event.reserved - reserved_},
                                         file_.texts[event.stream], event.time);
  if (!status.ok()) return status;
  reserved_ = event.reserved;
  return true;
}

absl::Status ChromeTrace::AddAllocation(const ProfilerEvent& event, std::string_view id) {
  const std::string_view stream = file_.texts[event.stream];
  // A second allocation at a live address means that the profiler missed the free.
  if (builder_.Free(id, stream, event.time)) builder_.CountUnmatchedFree();
  if (absl::Status status = SetTag(event); !status.ok()) return status;
  return builder_.Allocate(id, event.bytes, event.hint, stream, event.time);
}

absl::Status ChromeTrace::AddMemory(const ProfilerEvent& event) {
  absl::StatusOr<bool> reserved = AddReservation(event);
  if (!reserved.ok()) return reserved.status();
  trace::AddressText address(0);
  const std::string_view id = Id(event, address);
  if (event.bytes > 0) return AddAllocation(event, id);
  if (event.bytes == 0) {
    if (!*reserved) builder_.CountSkippedRow();
  } else if (!builder_.Free(id, file_.texts[event.stream], event.time)) {
    builder_.CountUnmatchedFree();
  }
  return absl::OkStatus();
}

absl::Status ChromeTrace::Add(const ProfilerEvent& event) {
  builder_.SetThread(file_.threads[event.thread].name);
  const auto text = [&] { return file_.texts[static_cast<std::uint32_t>(event.subject)]; };
  switch (event.kind) {
    case Kind::kMemory:
      return AddMemory(event);
    case Kind::kFailure: {
      absl::StatusOr<bool> reserved = AddReservation(event);
      absl::Status status = reserved.ok() ? SetTag(event) : reserved.status();
      if (!status.ok()) return status;
      return builder_.Failure(event.bytes, event.hint, file_.texts[event.stream], event.time);
    }
    case Kind::kMark:
      builder_.Mark(text(), event.time);
      return absl::OkStatus();
    case Kind::kMarkEnd:
      builder_.MarkEnd(text(), event.time);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<Trace> ChromeTrace::Build(const ReadOptions& options) {
  if (file_.devices.empty()) {
    return absl::InvalidArgumentError(
        file_.threads.empty()
            ? "a Chrome trace without events of PyTorch's profiler, expected one with [memory] "
              "events"
            : "a profiler's trace without [memory] events, expected one recorded with "
              "profile_memory=True");
  }
  ChooseDevice(options);
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  SortSpans();
  const std::vector<std::uint32_t> order = Order();
  if (absl::Status status = AddEarlier(order); !status.ok()) return status;
  for (const std::uint32_t index : order) {
    const ProfilerEvent& event = file_.events[index];
    if (event.IsOfDevice() && event.device != device_) continue;
    if (absl::Status status = Add(event); !status.ok()) return status;
  }
  Trace trace = builder_.Build();
  if (trace.allocations.empty() && trace.failures.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no allocations on device ", device_,
                                                   ", expected at least one [memory] event that "
                                                   "takes memory"));
  }
  return trace;
}

}  // namespace

bool IsChromeTrace(std::string_view beginning) {
  if (beginning.substr(0, 3) == "\xef\xbb\xbf") beginning.remove_prefix(3);
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (beginning[first] == '{' || beginning[first] == '[');
}

absl::StatusOr<Trace> ReadChromeTrace(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& options) {
  absl::StatusOr<ProfilerEvents> events = ReadProfilerEvents(source, name);
  if (!events.ok()) return events.status();
  absl::StatusOr<Trace> trace = ChromeTrace(*std::move(events)).Build(options);
  return trace.ok() ? std::move(trace) : text::AboutFile(name, trace.status());
}

}  // namespace tidepool::chrome

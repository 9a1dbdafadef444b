// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the input as a pickle, as a pickle without its beginning and end, and as the events
// or segments of a snapshot.
#include "lib/trace/pytorch/pytorch_snapshot.h"
#include "tests/fuzz/fuzz_reader.h"
#include "tidepool/trace/trace_files.h"

namespace {

std::string Text(const std::string& text) {
  return "U" + std::string(1, static_cast<char>(text.size())) + text;
}

// Only a trace with valid addresses can be written as a snapshot; it must read back the same.
void CheckSnapshotRoundTrip(const std::string& pickle) {
  const auto trace = tidepool::ParseTrace(pickle, "input");
  if (!trace.ok() || !tidepool::HasAddresses(*trace)) return;
  std::ostringstream once;
  tidepool::fuzz::Require(tidepool::pytorch::WritePyTorchSnapshot(*trace, once).ok());
  const auto again = tidepool::ParseTrace(
      once.str(), "again",
      {.device = trace->device < 0 || trace->device > 255 ? 0 : trace->device});
  if (trace->devices.empty()) return;
  tidepool::fuzz::Require(again.ok() || trace->events.empty());
  if (!again.ok()) return;
  tidepool::fuzz::Require(again->events.size() == trace->events.size());
  std::int64_t earlier = trace->earlier_allocations;
  for (std::size_t i = 0; i < again->events.size(); ++i) {
    tidepool::fuzz::Require(again->events[i].kind == trace->events[i].kind);
    tidepool::fuzz::Require(again->events[i].index == trace->events[i].index ||
                            !trace->events[i].TouchesMemory());
    // Memory from before the recording has the time of the file's first event. That event may be
    // of an unknown kind, which is not written.
    tidepool::fuzz::Require(earlier > 0 || again->events[i].time == trace->events[i].time);
    if (trace->events[i].kind == tidepool::TraceEvent::Kind::kAllocate) --earlier;
  }
}

void ReadPickle(const std::string& pickle) {
  tidepool::fuzz::Read(pickle);
  CheckSnapshotRoundTrip(pickle);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string head = "\x80\x04";
  ReadPickle(input);
  ReadPickle(head + input + ".");
  ReadPickle(head + "}" + Text("device_traces") + "((" + input + "lls.");
  ReadPickle(head + "}" + Text("segments") + "(" + input + "ls.");
  return 0;
}

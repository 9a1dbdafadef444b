// SPDX-License-Identifier: Apache-2.0
// Tests of PyTorch snapshots: all versions are read, the state before the history is reconstructed,
// malicious files are refused, and written snapshots read back the same.
#include "lib/trace/pytorch/pytorch_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/snapshot_layout.h"
#include "tests/support/pickled.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LittleEndian;
using testing::Opcodes;
using testing::Pickled;
using testing::RandomTrace;
using Kind = TraceEvent::Kind;

Trace ReadSnapshot(const std::string& pickle, const ReadOptions& options = {}) {
  auto trace = ParseTrace(pickle, "test.pickle", options);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : Trace();
}
Trace ReadSnapshot(const json& snapshot, const ReadOptions& options = {}) {
  return ReadSnapshot(Pickled(snapshot), options);
}

std::string SnapshotErrorOf(const std::string& pickle, const ReadOptions& options = {}) {
  const auto trace = ParseTrace(pickle, "test.pickle", options);
  EXPECT_FALSE(trace.ok());
  const std::string message(trace.status().message());
  EXPECT_THAT(message, ::testing::StartsWith("test.pickle: "));
  return message;
}
std::string SnapshotErrorOf(const json& snapshot, const ReadOptions& options = {}) {
  return SnapshotErrorOf(Pickled(snapshot), options);
}

std::string CallersOf(const Trace& trace, TraceTag tag) {
  std::string text;
  for (; tag != 0; tag = trace.frames[tag - 1].caller) {
    const TraceFrame& frame = trace.frames[tag - 1];
    text = absl::StrCat(std::string(trace.frame_texts[frame.name]), "@",
                        std::string(trace.frame_texts[frame.file]), ":", frame.line,
                        text.empty() ? "" : ";", text);
  }
  return text;
}

// Returns one line for each event, with all that a snapshot keeps.
std::vector<std::string> LinesOf(const Trace& trace, bool with_reservations = true,
                                 bool with_ids = true) {
  std::vector<std::string> lines;
  const auto us = [](std::int64_t ns) { return ns / 1000 - (ns % 1000 < 0 ? 1 : 0); };
  for (const TraceEvent& event : trace.events) {
    const bool is_sleep = event.kind == Kind::kPause || event.kind == Kind::kResume;
    if (is_sleep || event.kind == Kind::kWait) continue;
    if (event.kind == Kind::kReserve && !with_reservations) continue;
    std::string line = absl::StrCat(us(event.time), " ");
    const auto on_stream = [&] {
      absl::StrAppend(&line, " on ", std::string(trace.stream_names[event.stream]));
    };
    const auto request = [&](const TraceAllocation& what) {
      absl::StrAppend(&line, " ", what.bytes, " [", CallersOf(trace, what.tag), "]");
      on_stream();
    };
    const auto id = [&] {
      return with_ids ? std::string(trace.allocation_ids[event.index])
                      : absl::StrCat("#", event.index);
    };
    switch (event.kind) {
      case Kind::kAllocate:
        absl::StrAppend(&line, "allocate ", id());
        request(trace.allocations[event.index]);
        break;
      case Kind::kFree:
        absl::StrAppend(&line, "free ", id());
        on_stream();
        break;
      case Kind::kFailure:
        absl::StrAppend(&line, "failure");
        request(trace.failures[event.index]);
        break;
      case Kind::kReserve:
        absl::StrAppend(&line, "reserve ", trace.reservations[event.index].bytes, " at ",
                        trace.reservations[event.index].address);
        on_stream();
        break;
      case Kind::kMark:
      case Kind::kMarkEnd:
        absl::StrAppend(&line, event.kind == Kind::kMark ? "mark " : "end ",
                        std::string(trace.mark_names[event.index]));
        break;
      case Kind::kPause:
      case Kind::kResume:
      case Kind::kWait:
        break;
    }
    lines.push_back(line);
  }
  return lines;
}

// Makes a list also of a single object: braces alone would make an object.
json List(const std::vector<json>& elements) { return elements; }
json Event(const std::string& action, std::int64_t address, std::int64_t size,
           std::int64_t time_us = 0) {
  return {
      {"action", action}, {"addr", address}, {"size", size}, {"stream", 0}, {"time_us", time_us}};
}
json Block(std::int64_t address, std::int64_t size, std::int64_t requested,
           const std::string& state = "active_allocated") {
  return {{"address", address}, {"size", size}, {"requested_size", requested}, {"state", state}};
}
json Segment(std::int64_t address, std::int64_t size, const json& blocks, int device = 0) {
  return {{"device", device}, {"address", address},      {"total_size", size}, {"stream", 0},
          {"blocks", blocks}, {"segment_type", "small"}, {"something new", {}}};
}
json Snapshot(const json& segments, const json& events) {
  return {{"segments", segments}, {"device_traces", json::array({events})}, {"else", nullptr}};
}

TEST(PyTorchSnapshot, IsAHistory) {
  json alloc = Event("alloc", 0x1000, 700, 5);
  alloc["stream"] = 7;
  alloc["frames"] = json::parse(R"([{"name": "f", "filename": "??", "line": 0},
                                    {"name": "main", "filename": "m.py", "line": 3}])");
  const json oom = {{"action", "oom"}, {"device_free", 5}, {"size", 1 << 20},
                    {"stream", 0},     {"time_us", 6},     {"frames", alloc["frames"]}};
  const json events = {Event("segment_alloc", 0x1000, 4096, 4),
                       alloc,
                       oom,
                       Event("snapshot", 0, 0, 7),
                       Event("free_requested", 0x1000, 700, 8),
                       Event("free_completed", 0x1000, 700, 9),
                       Event("segment_free", 0x1000, 4096, 10),
                       Event("something new", 1, 2, 11)};
  const Trace trace = ReadSnapshot(Snapshot(json::array(), events));
  EXPECT_THAT(
      LinesOf(trace),
      ElementsAre("4 reserve 4096 at 4096 on 0", "5 allocate 0x1000 700 [main@m.py:3;f@:0] on 7",
                  "6 failure 1048576 [main@m.py:3;f@:0] on 0", "7 mark snapshot",
                  "9 free 0x1000 on 0", "10 reserve -4096 at 4096 on 0"));
  EXPECT_EQ(trace.format, TraceFormat::kPyTorchSnapshot);
  EXPECT_EQ(trace.original_format, TraceFormat::kPyTorchSnapshot);
  EXPECT_EQ(trace.default_alignment, 512);
  EXPECT_EQ(trace.skipped_rows, 1);
  EXPECT_EQ(trace.unmatched_frees, 0);
  EXPECT_EQ(trace.devices, std::vector<std::int32_t>{0});
}

TEST(PyTorchSnapshot, TakesRequestsAsFreesWhereNothingCompletes) {
  const json events = {Event("alloc", 512, 1), Event("free_requested", 512, 1),
                       Event("alloc", 512, 2)};
  EXPECT_THAT(
      LinesOf(ReadSnapshot(Snapshot(json::array(), events))),
      ElementsAre("0 allocate 0x200 1 [] on 0", "0 free 0x200 on 0", "0 allocate 0x200 2 [] on 0"));
  // A block that still awaits its free is live.
  const json segments =
      List({Segment(512, 512, List({Block(512, 512, 1, "active_pending_free")}))});
  const json requested = {Event("alloc", 512, 1), Event("free_requested", 512, 1),
                          Event("alloc", 512, 2), Event("free_requested", 512, 2)};
  EXPECT_THAT(
      LinesOf(ReadSnapshot(Snapshot(segments, requested)), false),
      ElementsAre("0 allocate 0x200 1 [] on 0", "0 free 0x200 on 0", "0 allocate 0x200 2 [] on 0"));
}

TEST(PyTorchSnapshot, RebuildsWhatCameBefore) {
  json old_block = Block(0x1200, 512, 300);
  old_block["frames"] = List({{{"name", "load"}, {"filename", "l.py"}, {"line", 1}}});
  const json segments =
      List({Segment(0x1000, 4096,
                    {Block(0x1000, 512, 0, "inactive"), old_block,
                     Block(0x1400, 1024, 0, "active_awaiting_free"), Block(0x1800, 2048, 77)})});
  const json events = {Event("free_completed", 0x9000, 100, 20),
                       Event("free_requested", 0x1400, 1024, 21),
                       Event("segment_free", 0x9000, 8192, 22), Event("alloc", 0x1800, 78, 23)};
  EXPECT_THAT(
      LinesOf(ReadSnapshot(Snapshot(segments, events))),
      ElementsAre("20 reserve 4096 at 4096 on 0", "20 reserve 8192 at 36864 on 0",
                  "20 allocate 0x1200 300 [load@l.py:1] on 0", "20 allocate 0x1400 1024 [] on 0",
                  "20 allocate 0x9000 100 [] on 0", "20 free 0x9000 on 0",
                  "22 reserve -8192 at 36864 on 0", "23 allocate 0x1800 78 [] on 0"));
}

TEST(PyTorchSnapshot, PutsBehindTheHistoryWhatCannotHaveBeenBefore) {
  // One address freed in the history and live at the end, and one block inside which the history
  // has another allocation.
  const json segments =
      List({Segment(0x1000, 8192, List({Block(0x1000, 512, 10), Block(0x1400, 1024, 1000)}))});
  const json events = {Event("alloc", 0x1000, 9, 1), Event("free_completed", 0x1000, 9, 2),
                       Event("alloc", 0x1600, 5, 3), Event("free_completed", 0x1600, 5, 4)};
  EXPECT_THAT(LinesOf(ReadSnapshot(Snapshot(segments, events)), false),
              ElementsAre("1 allocate 0x1000 9 [] on 0", "2 free 0x1000 on 0",
                          "3 allocate 0x1600 5 [] on 0", "4 free 0x1600 on 0",
                          "4 allocate 0x1000 10 [] on 0", "4 allocate 0x1400 1000 [] on 0"));
}

TEST(PyTorchSnapshot, ABlockBesideAnAllocationWasThereBefore) {
  const json segments = List({Segment(0x1000, 8192, List({Block(0x1400, 1024, 1000)}))});
  const json events = {Event("alloc", 0x1800, 5, 3), Event("free_completed", 0x1800, 5, 4)};
  EXPECT_THAT(LinesOf(ReadSnapshot(Snapshot(segments, events)), false),
              ElementsAre("3 allocate 0x1400 1000 [] on 0", "3 allocate 0x1800 5 [] on 0",
                          "4 free 0x1800 on 0"));
}

TEST(PyTorchSnapshot, CountsFreesOfWhatIsNotLive) {
  const json events = {Event("free_completed", 512, 9), Event("free_completed", 512, 9)};
  const Trace trace = ReadSnapshot(Snapshot(json::array(), events));
  EXPECT_EQ(trace.allocations.size(), 1);
  EXPECT_EQ(trace.unmatched_frees, 1);
}

// The blocks at 0x200 and 0x600 were freed and joined before the request that was served there.
TEST(PyTorchSnapshot, FreesAllThatAnAllocationOverlaps) {
  const Trace trace = ReadSnapshot(Snapshot(
      json::array(),
      List({Event("alloc", 0x200, 1024), Event("alloc", 0x600, 512), Event("alloc", 0x800, 512),
            Event("alloc", 0x400, 1024), Event("free_completed", 0x600, 512)})));
  EXPECT_THAT(LinesOf(trace),
              ElementsAre("0 allocate 0x200 1024 [] on 0", "0 allocate 0x600 512 [] on 0",
                          "0 allocate 0x800 512 [] on 0", "0 free 0x200 on 0", "0 free 0x600 on 0",
                          "0 allocate 0x400 1024 [] on 0"));
  EXPECT_EQ(trace.unmatched_frees, 3);
}

TEST(PyTorchSnapshot, FreesWhatMustHaveBeenFreed) {
  const Trace trace = ReadSnapshot(
      Snapshot(json::array(), List({Event("alloc", 512, 1), Event("alloc", 512, 2),
                                    Event("free_completed", 512, 2), Event("alloc", 512, 3)})));
  EXPECT_THAT(LinesOf(trace), ElementsAre("0 allocate 0x200 1 [] on 0", "0 free 0x200 on 0",
                                          "0 allocate 0x200 2 [] on 0", "0 free 0x200 on 0",
                                          "0 allocate 0x200 3 [] on 0"));
  EXPECT_EQ(trace.unmatched_frees, 1);
}

TEST(PyTorchSnapshot, ReservationsEndInTheSegments) {
  // Half of an expandable segment was mapped before the history, and a part of it was unmapped. The
  // last event contradicts the segments.
  const json events = {Event("segment_map", 0x3000, 0x1000), Event("segment_unmap", 0x1000, 0x800),
                       Event("segment_alloc", 0x9000, 0x100)};
  const Trace trace =
      ReadSnapshot(Snapshot(List({Segment(0x1800, 0x2800, json::array())}), events));
  EXPECT_THAT(LinesOf(trace),
              ElementsAre("0 reserve -256 at 0 on ", "0 reserve 2048 at 4096 on 0",
                          "0 reserve 6144 at 6144 on 0", "0 reserve 4096 at 12288 on 0",
                          "0 reserve -2048 at 4096 on 0", "0 reserve 256 at 36864 on 0"));
  EXPECT_EQ(MeasureReserved(trace)->reserved_bytes, 0x2800);
}

TEST(PyTorchSnapshot, IsAListOfSegmentsInPyTorch1) {
  const json segments = json::parse(R"([
    {"device": 1, "address": 4096, "total_size": 2097152, "stream": 0, "segment_type": "small",
     "blocks": [
       {"size": 1024, "state": "active_allocated",
        "history": [{"addr": 4096, "real_size": 1000,
                     "frames": [{"name": "g", "filename": "g.py", "line": 2}]},
                    {"addr": 4096, "real_size": 5, "frames": []}]},
       {"size": 512, "state": "inactive", "history": [{"addr": 5120, "real_size": 3}]},
       {"size": 512, "state": "active_pending_free"}]}])");
  const Trace trace = ReadSnapshot(segments);
  EXPECT_THAT(LinesOf(trace), ElementsAre("0 reserve 2097152 at 4096 on 0",
                                          "0 allocate 0x1000 1000 [g@g.py:2] on 0",
                                          "0 allocate 0x1600 512 [] on 0"));
  EXPECT_EQ(trace.device, 1);
  EXPECT_EQ(trace.devices, std::vector<std::int32_t>{1});
  EXPECT_TRUE(ReadSnapshot(json::array()).events.empty());
}

TEST(PyTorchSnapshot, PutsAnnotationsWhereTheirTimeIs) {
  const auto annotation = [](const char* stage, const char* name, int device, int time_us) {
    return json{{"stage", stage}, {"name", name}, {"device", device}, {"time_us", time_us}};
  };
  json snapshot =
      Snapshot(json::array(), List({Event("alloc", 512, 1, 5), Event("alloc", 1024, 1, 8)}));
  snapshot["external_annotations"] =
      List({annotation("START", "early", 0, 1), annotation("START", "step", 0, 5),
            annotation("END", "step", 0, 7), annotation("START", "other", 1, 7),
            annotation("END", "late", 0, 9)});
  EXPECT_THAT(LinesOf(ReadSnapshot(snapshot)),
              ElementsAre("1 mark early", "5 mark step", "5 allocate 0x200 1 [] on 0", "7 end step",
                          "8 allocate 0x400 1 [] on 0", "9 end late"));
  for (json& event : snapshot["device_traces"][0]) event.erase("time_us");
  EXPECT_THAT(LinesOf(ReadSnapshot(snapshot)).front(), "0 mark early");
  snapshot["external_annotations"] = List({annotation("MIDDLE", "step", 0, 1)});
  EXPECT_THAT(SnapshotErrorOf(snapshot), HasSubstr("external_annotations[0]: an unknown stage"));
}

TEST(PyTorchSnapshot, ChoosesADevice) {
  const json snapshot = {{"segments", List({Segment(4096, 512, List({Block(4096, 512, 5)}), 3),
                                            Segment(4096, 1024, List({}), 2)})},
                         {"device_traces",
                          {json::array(), json::array({Event("alloc", 512, 9)}), json::array(),
                           json::array({Event("alloc", 512, 8)})}}};
  // Device 2 has the most bytes in segments.
  const Trace most = ReadSnapshot(snapshot);
  EXPECT_EQ(most.device, 2);
  EXPECT_EQ(most.devices, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(ReadSnapshot(snapshot, {.device = 1}).allocations[0].bytes, 9);
  EXPECT_THAT(LinesOf(ReadSnapshot(snapshot, {.device = 3})),
              ElementsAre("0 reserve 512 at 4096 on 0", "0 allocate 0x1000 5 [] on 0",
                          "0 allocate 0x200 8 [] on 0"));
  EXPECT_THAT(LinesOf(ReadSnapshot(snapshot, {.device = 2})),
              ElementsAre("0 reserve 1024 at 4096 on 0"));
  for (const int device : {-1, 0, 4}) {
    EXPECT_THAT(
        SnapshotErrorOf(snapshot, {.device = device}),
        HasSubstr(absl::StrCat("device ", device, " is not in the file, expected one of 1, 2, 3")));
  }
}

// PyTorch 2.15 writes it with record_pinned_host_memory=True.
TEST(PyTorchSnapshot, PinnedMemoryIsTheDeviceOfTheHost) {
  json snapshot = {
      {"segments", List({Segment(4096, 512, List({Block(4096, 512, 5)}))})},
      {"device_traces", {List({Event("alloc", 4096, 5)})}},
      {"host_segments", List({Segment(1 << 20, 4096, List({Block(1 << 20, 4096, 4000)}), -1)})},
      {"host_traces",
       List({Event("segment_alloc", 1 << 20, 4096), Event("alloc", 1 << 20, 4096),
             Event("free_requested", 1 << 20, 4096), Event("free_completed", 1 << 20, 4096),
             Event("alloc", 1 << 20, 4096)})}};
  const Trace gpu = ReadSnapshot(snapshot);
  EXPECT_EQ(gpu.device, 0) << "a GPU comes first";
  EXPECT_EQ(gpu.devices, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_EQ(gpu.allocations.size(), 1);
  const Trace host = ReadSnapshot(snapshot, {.device = -1});
  EXPECT_EQ(host.device, -1);
  EXPECT_THAT(LinesOf(host),
              ElementsAre("0 reserve 4096 at 1048576 on 0", "0 allocate 0x100000 4096 [] on 0",
                          "0 free 0x100000 on 0", "0 allocate 0x100000 4096 [] on 0"));
  snapshot["device_traces"] = json::array();
  snapshot["segments"] = json::array();
  EXPECT_EQ(ReadSnapshot(snapshot).device, -1) << "without a GPU";

  snapshot["host_traces"][1].erase("addr");
  EXPECT_THAT(SnapshotErrorOf(snapshot), HasSubstr("host_traces[1]: "));
  snapshot["host_traces"] = 5;
  EXPECT_THAT(SnapshotErrorOf(snapshot), HasSubstr("host_traces: "));
  snapshot["host_traces"] = json::array();
  snapshot["host_segments"].push_back(snapshot["host_segments"][0]);
  EXPECT_THAT(SnapshotErrorOf(snapshot, {.device = -1}),
              HasSubstr("host_segments: two live blocks"));
  snapshot["host_segments"][1]["blocks"] = json::array();
  EXPECT_THAT(SnapshotErrorOf(snapshot, {.device = -1}),
              HasSubstr("is already that of host_segments[0]"));
  snapshot["host_segments"][1].erase("total_size");
  EXPECT_THAT(SnapshotErrorOf(snapshot), HasSubstr("host_segments[1]: "));
}

std::string WrittenSnapshot(const Trace& trace) {
  std::ostringstream bytes;
  const absl::Status status = pytorch::WritePyTorchSnapshot(trace, bytes);
  EXPECT_TRUE(status.ok()) << status;
  return bytes.str();
}

json Refusal(std::int64_t size, std::int64_t device_free) {
  return {{"action", "oom"}, {"size", size}, {"device_free", device_free}, {"time_us", 0}};
}

TEST(PyTorchSnapshot, PrefersADeviceThatRefusedARequest) {
  const json snapshot = {{"segments", json::array()},
                         {"device_traces",
                          {json::array({Event("alloc", 512, 9)}), json::array(),
                           json::array({Event("alloc", 512, 8), Refusal(1 << 20, 4096)}),
                           json::array({Refusal(7, 0)})}}};
  const Trace trace = ReadSnapshot(snapshot);
  EXPECT_EQ(trace.device, 2);
  ASSERT_EQ(trace.failures.size(), 1);
  EXPECT_EQ(trace.failures[0].bytes, 1 << 20);
  EXPECT_EQ(trace.failures[0].device_free_bytes, 4096);
  EXPECT_EQ(ReadSnapshot(snapshot, {.device = 0}).device, 0);
}

TEST(PyTorchSnapshot, TellsWhetherThereIsAHistory) {
  const json segments = List({Segment(4096, 512, List({Block(4096, 512, 5)}))});
  // Without memory from before, one event is a whole history; otherwise a few events tell no peak.
  EXPECT_TRUE(ReadSnapshot(Snapshot(json::array(), List({Event("alloc", 512, 9)}))).has_history);
  EXPECT_FALSE(ReadSnapshot(Snapshot(segments, List({Event("alloc", 512, 9)}))).has_history);
  EXPECT_TRUE(ReadSnapshot(Snapshot(segments, List({Refusal(0, 9)}))).has_history);
  json many = json::array();
  for (int i = 0; i < 8; ++i) many.push_back(Event("alloc", 8192 + 512 * i, 9));
  EXPECT_TRUE(ReadSnapshot(Snapshot(segments, many)).has_history);
  for (const json& events : {json::array(), List({Event("snapshot", 0, 0)})}) {
    const Trace trace = ReadSnapshot(Snapshot(segments, events));
    EXPECT_FALSE(trace.has_history);
    EXPECT_EQ(trace.earlier_allocations, 1);
    const Trace again = ReadSnapshot(WrittenSnapshot(trace));
    EXPECT_FALSE(again.has_history);
    EXPECT_EQ(LinesOf(again), LinesOf(trace));
  }
  EXPECT_FALSE(ReadSnapshot(segments).has_history);  // PyTorch 1.x
}

TEST(PyTorchSnapshot, CountsAllocationsFromBeforeTheHistory) {
  // One block is freed in the history, one is live at the end, one came after the history.
  const json segments =
      List({Segment(0x1000, 4096, List({Block(0x1000, 512, 5), Block(0x1200, 512, 6)}))});
  const json events = {Event("alloc", 0x1200, 3), Event("free_completed", 0x1200, 3),
                       Event("free_completed", 0x1400, 512)};
  const Trace trace = ReadSnapshot(Snapshot(segments, events));
  EXPECT_EQ(trace.earlier_allocations, 2);
  EXPECT_EQ(trace.allocations.size(), 4);
  const Trace again = ReadSnapshot(WrittenSnapshot(trace));
  EXPECT_EQ(again.earlier_allocations, 2);
  EXPECT_EQ(LinesOf(again), LinesOf(trace));
}

TEST(PyTorchSnapshot, HasTheSettingsOfTheAllocator) {
  json snapshot = Snapshot(List({Segment(4096, 512, List({Block(4096, 512, 5)}))}), json::array());
  EXPECT_TRUE(ReadSnapshot(snapshot).allocator_settings.empty());
  snapshot["allocator_settings"] = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                                    {"expandable_segments", true},
                                    {"garbage_collection_threshold", 0.5},
                                    {"max_split_size", -1},
                                    {"new", nullptr},
                                    {"roundup_power2_divisions", {{"1", 0}, {"2", 8}}}};
  const std::vector<TraceSetting> expected = {
      {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
      {"expandable_segments", "True"},
      {"garbage_collection_threshold", "0.5"},
      {"max_split_size", "-1"},
      {"new", "None"},
      {"roundup_power2_divisions", "1:0,2:8"}};
  const Trace trace = ReadSnapshot(snapshot);
  EXPECT_EQ(trace.allocator_settings, expected);
  EXPECT_EQ(ReadSnapshot(WrittenSnapshot(trace)).allocator_settings, expected);
}

TEST(PyTorchSnapshot, MetadataIsTheOutermostFrame) {
  json event = Event("alloc", 512, 1);
  event["frames"] = List({{{"name", "f"}, {"filename", "f.py"}, {"line", 1}}});
  event["user_metadata"] = "phase 1";
  event["compile_context"] = "0/1";
  json plain = event;
  plain["addr"] = 1024;
  plain["user_metadata"] = "";
  plain["compile_context"] = "N/A";
  const Trace trace = ReadSnapshot(Snapshot(json::array(), List({event, plain})));
  EXPECT_EQ(CallersOf(trace, trace.allocations[0].tag),
            "phase 1@user_metadata:0;0/1@compile_context:0;f@f.py:1");
  EXPECT_EQ(CallersOf(trace, trace.allocations[1].tag), "f@f.py:1");
}

TEST(PyTorchSnapshot, TakesAddressesOf64Bits) {
  json event = Event("alloc", -4096, 5);  // as a signed number, or as an unsigned number of 9 bytes
  EXPECT_EQ(ReadSnapshot(Snapshot(json::array(), List({event}))).allocation_ids[0],
            "0xfffffffffffff000");
  const std::string bytes =
      "\x80\2}(U\x0d"
      "device_traces](](}(U\6actionU\5allocU\4addr\x8a\x09" +
      LittleEndian(std::uint64_t{0xff} << 56, 8) + LittleEndian(0, 1) + "U\4sizeK\1ueeu.";
  EXPECT_EQ(ReadSnapshot(bytes).allocation_ids[0], "0xff00000000000000");
}

TEST(PyTorchSnapshot, SaysWhatIsWrongAndWhere) {
  const auto error_of_event = [](const json& event) {
    return SnapshotErrorOf(Snapshot(json::array(), List({Event("oom", 0, 1), event})));
  };
  const auto with = [](json event, const char* key, const json& value) {
    event[key] = value;
    return event;
  };
  const json alloc = Event("alloc", 512, 1);
  EXPECT_THAT(error_of_event(with(alloc, "addr", "x")),
              HasSubstr("device_traces[0][1]: addr: a text, expected an integer"));
  EXPECT_THAT(error_of_event(with(alloc, "size", nullptr)), HasSubstr("size: None"));
  EXPECT_THAT(error_of_event(with(alloc, "size", 0)), HasSubstr("[1]: size 0, expected 1"));
  EXPECT_THAT(error_of_event(with(alloc, "size", -5)), HasSubstr("[1]: size -5"));
  EXPECT_THAT(error_of_event(with(alloc, "action", 5)), HasSubstr("action: an integer"));
  EXPECT_THAT(error_of_event(with(alloc, "frames", 5)), HasSubstr("[1]: frames: an integer"));
  EXPECT_THAT(error_of_event(with(alloc, "frames", List({5}))), HasSubstr("frames: an integer"));
  EXPECT_THAT(error_of_event(with(alloc, "frames", List({{{"name", 5}}}))),
              HasSubstr("frames: name: an integer"));
  EXPECT_THAT(error_of_event(with(alloc, "time_us", INT64_MAX)), HasSubstr("[1]: time_us"));
  EXPECT_THAT(error_of_event(json{{"action", "alloc"}}), HasSubstr("no addr"));
  EXPECT_THAT(error_of_event(json{{"action", "oom"}}), HasSubstr("no size"));
  EXPECT_THAT(error_of_event(5), HasSubstr("[1]: an integer, expected a dict"));
  EXPECT_THAT(error_of_event(Event("segment_alloc", 512, -1)), HasSubstr("[1]: size -1"));
  EXPECT_THAT(error_of_event(Event("segment_alloc", -512, 1024)), HasSubstr("[1]: size 1024"));
  const auto error_of_segments = [](const json& segments) {
    return SnapshotErrorOf(Snapshot(segments, json::array()));
  };
  const json segment = Segment(4096, 512, List({Block(4096, 512, 1)}));
  const json bare = Segment(4096, 512, json::array());
  EXPECT_THAT(error_of_segments(List({bare, bare})), HasSubstr("segments[1]: address 0x1000"));
  EXPECT_THAT(error_of_segments(List({Segment(0, 512, List({Block(0, 0, 0)}))})),
              HasSubstr("size 0"));
  EXPECT_THAT(error_of_segments(List({Segment(0, 512, List({Block(0, 9, 9), Block(0, 9, 9)}))})),
              HasSubstr("two live blocks at 0x0"));
  EXPECT_THAT(error_of_segments(List({with(segment, "total_size", -1)})),
              HasSubstr("segments[0]: total_size: -1"));
  EXPECT_THAT(error_of_segments(List({with(segment, "address", -1)})),
              HasSubstr("beyond the last"));
  EXPECT_THAT(error_of_segments(List({with(segment, "device", std::int64_t{1} << 40)})),
              HasSubstr("device: "));
  EXPECT_THAT(error_of_segments(List({with(segment, "blocks", 1)})),
              HasSubstr("blocks: an integer"));
  EXPECT_THAT(error_of_segments(List({with(segment, "blocks", List({{{"state", "inactive"}}}))})),
              HasSubstr("segments[0]: blocks[0]: no size"));
  EXPECT_THAT(error_of_segments(List({{{"address", 1}}})), HasSubstr("no total_size"));
  EXPECT_THAT(error_of_segments(List({{{"total_size", 1}}})), HasSubstr("no address"));
  EXPECT_THAT(error_of_segments(5), HasSubstr("segments: an integer, expected a list"));
  EXPECT_THAT(SnapshotErrorOf(json{{"state_dict", 1}}), HasSubstr("torch.cuda.memory._snapshot()"));
  EXPECT_THAT(SnapshotErrorOf(json(5)), HasSubstr("an integer, expected the result of torch"));
  EXPECT_THAT(SnapshotErrorOf(json{{"device_traces", List({5})}}),
              HasSubstr("device_traces[0]: an integer"));
  EXPECT_THAT(SnapshotErrorOf(std::string("\x80\6N.")),
              HasSubstr("pickle protocol 6, expected 2 to 5"));
  EXPECT_THAT(SnapshotErrorOf(std::string("\x80\2cos\nsystem\n.")),
              HasSubstr("byte 2: opcode GLOBAL"));
}

// Whether or not the other events have the same keys.
TEST(PyTorchSnapshot, TakesTheLastOfEqualKeysAndChecksAll) {
  const auto events_with = [](const json& first, const json& second) {
    std::string event = Opcodes(Event("alloc", 0x1000, 700, 5));
    event.pop_back();  // "u" (SETITEMS), because more entries follow
    event += Opcodes(json("size")) + Opcodes(first) + Opcodes(json("size")) + Opcodes(second) + "u";
    const std::string list = "(" + event + Opcodes(Event("free_completed", 0x1000, 9, 6)) + "l";
    return "\x80\2}(" + Opcodes(json("device_traces")) + "(" + list + "lu.";
  };
  EXPECT_THAT(LinesOf(ReadSnapshot(events_with(8, 9))),
              ElementsAre("5 allocate 0x1000 9 [] on 0", "6 free 0x1000 on 0"));
  EXPECT_THAT(SnapshotErrorOf(events_with("x", 9)),
              HasSubstr("device_traces[0][0]: size: a text, expected an integer"));
}

// Opcodes of two bytes, "memo value 1", repeated.
std::string Times(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += "h\1";
  return bytes;
}

TEST(PyTorchSnapshot, DoesNotUnfoldWhatIsSharedABillionTimes) {
  const auto head = [](const char* key) { return "\x80\2}(" + Opcodes(json(key)) + "("; };
  // One segment with many references to one block.
  const std::string block = Opcodes(Block(4096, 512, 5, "inactive"));
  std::string segment = Opcodes(json{{"address", 4096}, {"total_size", 512}});
  segment.pop_back();  // "u" (SETITEMS), because more entries follow
  segment += Opcodes(json("blocks")) + "](" + block + "q\1" + Times(100'000) + "eu";
  EXPECT_THAT(SnapshotErrorOf(head("segments") + segment + "q\1" + Times(100'000) + "lu."),
              HasSubstr("segments"));
  // Many references to one event with many keys.
  std::string event = "}(";
  for (int i = 0; i < 100'000; ++i) event += "K\1N";
  event += Opcodes(json("action")) + Opcodes(json("snapshot")) + "uq\1";
  EXPECT_THAT(SnapshotErrorOf(head("device_traces") + "(" + event + Times(100'000) + "llu."),
              HasSubstr("too many references to the same objects"));
  // Many references to one event with few keys: each reference would grow far beyond its two bytes.
  const std::string small = Opcodes(json{{"action", "snapshot"}});
  EXPECT_THAT(SnapshotErrorOf(head("device_traces") + "(" + small + "q\1" + Times(5000) + "llu."),
              HasSubstr("too many references to the same objects"));
  // Stacks of many frames, below many different metadata.
  std::string frames = "](";
  for (int i = 0; i < 10'000; ++i) frames += "}";
  frames += "eq\1";
  std::string events;
  for (int i = 0; i < 10'000; ++i) {
    std::string one = Opcodes(Event("oom", 0, 1));
    one.pop_back();
    events += one + Opcodes(json("user_metadata")) + Opcodes(json(absl::StrCat(i))) +
              Opcodes(json("frames")) + (i == 0 ? frames : "h\1") + "u";
  }
  EXPECT_THAT(SnapshotErrorOf(head("device_traces") + "(" + events + "llu."),
              HasSubstr("too many references"));
}

TEST(PyTorchSnapshot, TakesCirclesAndDepthWhereNothingIsExpected) {
  // A frame that contains itself is refused; unknown keys may hold anything.
  const std::string event = Opcodes(Event("oom", 0, 1));
  const std::string circle =
      event.substr(0, event.size() - 1) + Opcodes(json("frames")) + "]q\1h\1au";
  const std::string head = "\x80\2}(" + Opcodes(json("device_traces")) + "((";
  EXPECT_THAT(SnapshotErrorOf(head + circle + "llu."),
              HasSubstr("frames: a list, expected a dict"));
  std::string deep(100'000, ']');
  deep.append(99'999, 'a');
  EXPECT_EQ(ReadSnapshot(head + event + "ll" + Opcodes(json("deep")) + deep + "u.").failures.size(),
            1);
}

// Gives every allocation an address with the simplest allocator: no byte is used twice.
Trace Laid(const Trace& trace) {
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const TraceAllocation& allocation : trace.allocations) {
    offsets.push_back(end);
    end += (allocation.bytes + trace.default_alignment - 1) & -trace.default_alignment;
  }
  auto placed = AtOffsets(trace, offsets, end);
  EXPECT_TRUE(placed.ok()) << placed.status();
  return *std::move(placed);
}

TEST(PyTorchSnapshot, WhatIsWrittenReadsBackTheSame) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Trace trace = RandomTrace(seed).Make(static_cast<int>(seed * 3));
    trace.default_alignment = 512;
    trace.earlier_allocations = 0;
    for (TraceEvent event : std::exchange(trace.events, {})) {
      event.time = std::max(event.time, INT64_MIN / 1000 * 1000);  // that a snapshot can hold
      trace.events.push_back(event);
    }
    const Trace placed = Laid(trace);
    ASSERT_TRUE(HasAddresses(placed)) << seed;
    const Trace again =
        ReadSnapshot(WrittenSnapshot(placed), {.device = std::max(trace.device, 0)});
    ASSERT_EQ(LinesOf(again), LinesOf(placed)) << seed;
    ASSERT_EQ(LinesOf(again, false, false), LinesOf(trace, false, false)) << seed;
    EXPECT_EQ(again.unmatched_frees, 0);
    EXPECT_EQ(WrittenSnapshot(again), WrittenSnapshot(placed)) << seed;
  }
}

// Makes a trace of an allocator that reserves segments and returns them, whole or in parts.
Trace Reserving(std::uint64_t seed, bool in_parts) {
  std::mt19937_64 random(seed);
  TraceBuilder builder(TraceFormat::kPyTorchSnapshot);
  constexpr std::uint64_t kPlace = 1 << 20;
  std::vector<int> state(20);  // 0: not reserved, 1: reserved, 2: allocated
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t at = random() % state.size();
    const std::uint64_t address = (at + 1) * kPlace;
    const trace::AddressText id(address);
    const std::string stream = absl::StrCat(in_parts ? 0 : at % 2);
    if (state[at] == 0) {
      EXPECT_TRUE(builder.Reserve({address, kPlace}, stream, i * 1000).ok());
      state[at] = 1;
    } else if (state[at] == 2) {
      EXPECT_TRUE(builder.Free(id.text(), stream, i * 1000));
      state[at] = 1;
    } else if (random() % 3 > 0) {
      const auto bytes = static_cast<std::int64_t>(1 + random() % kPlace);
      EXPECT_TRUE(builder.Allocate(id.text(), bytes, Hint::kResident, stream, i * 1000).ok());
      state[at] = 2;
    } else {
      std::uint64_t end = at + 1;
      while (in_parts && end < state.size() && state[end] == 1) ++end;
      const auto bytes = static_cast<std::int64_t>((end - at) * kPlace);
      EXPECT_TRUE(builder.Reserve({address, -bytes}, stream, i * 1000).ok());
      std::fill(state.begin() + at, state.begin() + end, 0);
    }
  }
  builder.SetDevices(0, {0});
  return builder.Build();
}

TEST(PyTorchSnapshot, KeepsReservationsWholeOrInPieces) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const bool in_parts = seed % 2 == 1;
    const Trace trace = Reserving(seed, in_parts);
    ASSERT_TRUE(HasAddresses(trace));
    const std::string written = WrittenSnapshot(trace);
    EXPECT_EQ(written.find("segment_map") != std::string::npos, in_parts);
    const Trace again = ReadSnapshot(written);
    ASSERT_EQ(LinesOf(again), LinesOf(trace)) << seed;
    // Without the first part of the history, the rest of it and its end are the same.
    const auto whole = MeasureReserved(trace);
    EXPECT_EQ(MeasureReserved(again)->reserved_bytes, whole->reserved_bytes);
    EXPECT_EQ(MeasureLoad(again, 512)->unfreed_bytes, MeasureLoad(trace, 512)->unfreed_bytes);
  }
}

TEST(PyTorchSnapshot, AnAllocationOverPiecesIsInAnExpandableSegment) {
  TraceBuilder builder(TraceFormat::kNative);
  for (const std::uint64_t address : {4096, 8192}) {
    ASSERT_TRUE(builder.Reserve({address, 4096}, "0", 0).ok());
  }
  ASSERT_TRUE(builder.Reserve({12288, 4096}, "1", 0).ok());
  ASSERT_TRUE(builder.Allocate("0x1000", 8192, Hint::kResident, "0", 0).ok());
  builder.SetDevices(0, {0});
  const absl::StatusOr<pytorch::SnapshotLayout> layout = pytorch::FindLayout(builder.Build());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_TRUE(layout->is_expandable);
  // A segment has one stream.
  ASSERT_EQ(layout->segments.size(), 2);
  EXPECT_EQ(layout->segments[0].end, 12288);
}

TEST(PyTorchSnapshot, NeedsAddressesThatCanBe) {
  const auto has_addresses = [](const std::function<void(TraceBuilder&)>& build) {
    TraceBuilder builder(TraceFormat::kNative);
    EXPECT_TRUE(builder.Reserve({4096, 4096}, "0", 0).ok());
    build(builder);
    const Trace trace = builder.Build();
    std::ostringstream bytes;
    EXPECT_EQ(pytorch::WritePyTorchSnapshot(trace, bytes).ok(), HasAddresses(trace));
    return HasAddresses(trace);
  };
  const auto allocates = [&](const std::string& id, std::int64_t bytes) {
    return has_addresses([&](TraceBuilder& builder) {
      EXPECT_TRUE(builder.Allocate("0x1400", 100, Hint::kResident, "0", 0).ok());
      EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "0", 0).ok());
    });
  };
  EXPECT_TRUE(allocates("0x1000", 1024));
  EXPECT_FALSE(allocates("0x1000", 1025));
  EXPECT_FALSE(allocates("0x1500", 1));
  EXPECT_TRUE(allocates("0x1600", 2560));
  EXPECT_FALSE(allocates("0x1600", 2561));
  EXPECT_FALSE(allocates("0xe00", 1024));
  EXPECT_FALSE(allocates("0xfffffffffffffe00", 1024));
  EXPECT_FALSE(allocates("7", 1));
  const auto reserves = [&](std::uint64_t address, std::int64_t bytes) {
    return has_addresses([&](TraceBuilder& builder) {
      EXPECT_TRUE(builder.Allocate("0x1400", 100, Hint::kResident, "0", 0).ok());
      EXPECT_TRUE(builder.Reserve({address, bytes}, "0", 0).ok());
    });
  };
  EXPECT_TRUE(reserves(8192, 512));
  EXPECT_TRUE(reserves(0x1000, -0x400));
  EXPECT_FALSE(reserves(0x1000, -0x401));
  EXPECT_FALSE(reserves(0x1000, 512));
  EXPECT_FALSE(reserves(0, 512));
  EXPECT_FALSE(reserves(8192, 0));
  EXPECT_FALSE(reserves(8192, -512));
  EXPECT_FALSE(reserves(UINT64_MAX, 512));
  EXPECT_FALSE(reserves(8192, INT64_MIN));
}

TEST(PyTorchSnapshot, OffsetsMustFit) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("a", 100, Hint::kResident, "0", 0).ok());
  const Trace trace = builder.Build();
  EXPECT_TRUE(AtOffsets(trace, {28}, 128).ok());
  for (const std::vector<std::int64_t>& offsets :
       std::vector<std::vector<std::int64_t>>{{}, {0, 0}, {-1}, {29}, {INT64_MAX}}) {
    const auto placed = AtOffsets(trace, offsets, 128);
    EXPECT_FALSE(placed.ok());
  }
}

TEST(PyTorchSnapshot, CutsOffStacksWithoutEnd) {
  TraceBuilder builder(TraceFormat::kNative);
  TraceTag tag = 0;
  for (int i = 0; i < 5000; ++i) tag = *builder.Frame(tag, absl::StrCat(i), "", 0);
  builder.SetTag(tag);
  ASSERT_TRUE(builder.Allocate("a", 100, Hint::kResident, "0", 0).ok());
  const Trace again = ReadSnapshot(WrittenSnapshot(Laid(builder.Build())));
  EXPECT_EQ(again.frames.size(), 1024);
  EXPECT_EQ(again.frame_texts[again.frames.back().name], "4999");
}

TEST(PyTorchSnapshot, ExamplesReadBackTheSame) {
  const std::filesystem::path folder = testing::SharedFile("traces/pytorch");
  TIDEPOOL_SKIP_WITHOUT(folder);
  for (const auto& path : testing::FilesIn(folder, ".gz")) {
    const auto trace = ReadTrace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->unmatched_frees, 0);
    EXPECT_TRUE(HasAddresses(*trace)) << path;
    EXPECT_EQ(LinesOf(ReadSnapshot(WrittenSnapshot(*trace))), LinesOf(*trace)) << path;
    EXPECT_GT(trace->frames.size(), 0);
  }
}

TEST(PyTorchSnapshot, RefusesExamplesCutOffAnywhere) {
  const std::string whole = WrittenSnapshot(Reserving(1, true));
  for (std::size_t size = 1; size < whole.size(); size += 1 + size / 50)
    SnapshotErrorOf(whole.substr(0, size));
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Benchmark of trace files, replays and memory. Claims:
// - text parses at more than 200 MB/s;
// - PyTorch snapshots of 20 MB and a profiler's JSON of 100 MB at more than 150 MB/s;
// - native traces at more than 20 million events a second;
// - a million events replay in less than half a second under each policy;
// - a trace takes less than 64 bytes an event;
// - a Chrome trace of a million events is written in a few seconds.
// The trace is synthetic: random replacement of 1,000 live blocks. For the profiler, operators and
// kernels surround the memory events, 20 for each.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/support/workloads.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::bench {
namespace {

constexpr int kEvents = 1'000'000;

// Engine that records all requests as a trace.
class RecordingEngine {
 public:
  using Row = void (*)(std::string& text, std::int64_t id, std::int64_t bytes, bool allocates,
                       int event);
  RecordingEngine(std::string& text, Row row) : text_(text), row_(row) {}

  struct Key {
    std::int64_t id;
    std::int64_t bytes;
  };
  Key Allocate(std::int64_t bytes) {
    row_(text_, ++ids_, bytes, true, events_++);
    return {ids_, bytes};
  }
  void Free(Key key) { row_(text_, key.id, key.bytes, false, events_++); }
  int events() const { return events_; }

 private:
  std::string& text_;
  Row row_;
  std::int64_t ids_ = 0;
  int events_ = 0;
};

void OperationRow(std::string& text, std::int64_t id, std::int64_t bytes, bool allocates,
                  int /*event*/) {
  absl::StrAppend(&text, allocates ? "a," : "f,", id, ",");
  absl::StrAppend(&text, allocates ? absl::StrCat(bytes) : "", ",",
                  allocates && id % 4 == 0 ? "high\n" : "\n");
}

void RmmRow(std::string& text, std::int64_t id, std::int64_t bytes, bool allocates, int event) {
  char row[128];
  std::snprintf(row, sizeof(row), "27527,00:00:%02d:%06d,%s,0x7f%010llx,%lld,0x0\n",
                event / 1'000'000, event % 1'000'000, allocates ? "allocate" : "free",
                static_cast<unsigned long long>(id * 512), static_cast<long long>(bytes));
  text += row;
}

std::string MakeTrace(const char* header, RecordingEngine::Row row) {
  std::string text = header;
  RecordingEngine engine(text, row);
  RandomReplacement<RecordingEngine> workload(engine, 1000);
  while (engine.events() < kEvents) workload.Step();
  return text;
}

std::string OperationText() { return MakeTrace("op,id,size,hint\n", OperationRow); }
std::string RmmText() { return MakeTrace("Thread,Time,Action,Pointer,Size,Stream\n", RmmRow); }

constexpr std::size_t kProfileBytes = 100'000'000;

// Appends an operator that launches a kernel, as PyTorch's profiler writes it.
void OperatorRows(std::string& text, std::int64_t number, std::int64_t microseconds) {
  absl::StrAppend(
      &text, R"json(  {
    "ph": "X", "cat": "cpu_op", "name": "aten::cudnn_convolution", "pid": 6504, "tid": 6569,
    "ts": )json",
      microseconds, R"json(.503, "dur": 31.250,
    "args": {
      "External id": )json",
      number, R"json(,"Record function id": 0, "Sequence number": 12, "Fwd thread id": 0, )json",
      R"json("Concrete Inputs": ["", "", "[1, 1]", "False"], )json",
      R"json("Input type": ["float", "float", "ScalarList", "Scalar"], )json",
      R"json("Input Dims": [[32, 64, 56, 56], [64, 64, 3, 3], [], []], "Ev Idx": )json", number,
      R"json(
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "void cudnn::ops::nchwToNhwcKernel<__half, float, false>)json",
      R"json((cudnn::ops::nchw2nhwc_params_t<float>, __half const*, __half*)", "pid": 0, "tid": 7,
    "ts": )json",
      microseconds + 9, R"json(.117, "dur": 12.345,
    "args": {
      "External id": )json",
      number, R"json(, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": )json",
      number, R"json(,
      "registers per thread": 56, "shared memory": 4624, "blocks per SM": 5.878788,
      "warps per SM": 47.030304, "grid": [98, 2, 32], "block": [256, 1, 1]
    }
  },
)json");
}

void ProfileRow(std::string& text, std::int64_t id, std::int64_t bytes, bool allocates, int event) {
  constexpr std::int64_t kOperators = 10;
  for (std::int64_t i = 0; i < kOperators; ++i)
    OperatorRows(text, event * kOperators + i, 1'000'000 + std::int64_t{event} * 40 + i * 4);
  absl::StrAppend(&text, R"json(  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 6504, "tid": 6569,
    "ts": )json",
                  1'000'000 + std::int64_t{event} * 40, R"json(.875,
    "args": {
      "Total Reserved": 1910505472, "Total Allocated": 795438592, "Bytes": )json",
                  allocates ? bytes : -bytes, ", \"Addr\": ", 139637976727552 + id * 512,
                  R"json(, "Device Id": 0, "Device Type": 1, "Ev Idx": 126
    }
  },
)json");
}

std::string ProfileText() {
  std::string text = "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n";
  RecordingEngine engine(text, ProfileRow);
  RandomReplacement<RecordingEngine> workload(engine, 1000);
  while (text.size() < kProfileBytes) workload.Step();
  return text + "  {}\n  ]\n}\n";
}

void Write(benchmark::State& state, const Trace& trace, TraceFormat format) {
  std::size_t bytes = 0;
  const std::string path = absl::StrCat("/tmp/tidepool_trace_bench.", getpid());
  for (auto _ : state) {
    if (!WriteTrace(trace, format, path).ok()) state.SkipWithError("not written");
    bytes = std::filesystem::file_size(path);
  }
  std::remove(path.c_str());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.counters["file_bytes_per_event"] =
      static_cast<double>(bytes) / static_cast<double>(trace.events.size());
}

std::string Written(const Trace& trace, TraceFormat format) {
  const std::string path = absl::StrCat("/tmp/tidepool_trace_bench.", getpid());
  if (!WriteTrace(trace, format, path).ok()) return "";
  std::ifstream file(path);
  std::string converted((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::remove(path.c_str());
  return converted;
}

// Converts `text` from any format to another.
std::string Converted(const std::string& text, TraceFormat format) {
  return Written(ParseTrace(text, "bench").value(), format);
}

// Snapshot as Python pickles it: events share texts and frames, and each has its own list of
// frames.
class SnapshotText {
 public:
  SnapshotText() {
    for (const char* key : {"action", "addr", "size", "stream", "frames", "time_us", "alloc",
                            "free_completed", "name", "filename", "line", "model.py"}) {
      texts_.push_back(Text(key));
    }
    for (int i = 0; i < kFrames; ++i) frames_.push_back(Frame(i));
    text_ +=
        "}(\x8c\x0d"
        "device_traces\x94](](";
    memo_ += 1;
  }

  void Event(bool is_alloc, std::int64_t address, std::int64_t time) {
    text_ += "}\x94(";
    ++memo_;
    Get(texts_[0]), Get(texts_[is_alloc ? 6 : 7]);
    Get(texts_[1]), Integer(address);
    Get(texts_[2]), Integer(500);
    Get(texts_[3]), Integer(0);
    Get(texts_[5]), Integer(time);
    Get(texts_[4]);
    text_ += "]\x94(";
    ++memo_;
    for (int depth = 0; depth < kDepth; ++depth) {
      // The stacks branch in the middle.
      const std::int64_t branch = depth < kDepth / 2 ? address / 512 * 7 : 0;
      Get(frames_[static_cast<std::size_t>((depth * 31 + branch) % kFrames)]);
    }
    text_ += "eu";
  }

  std::string Finish() && { return std::move(text_) + "eeu."; }

 private:
  static constexpr int kFrames = 3000;
  static constexpr int kDepth = 28;

  std::uint32_t Text(std::string_view text) {
    absl::StrAppend(&text_, "\x8c", std::string(1, static_cast<char>(text.size())),
                    std::string(text), "\x94");
    text_ += '0';
    return memo_++;
  }
  std::uint32_t Frame(int number) {
    const std::uint32_t name = Text(absl::StrCat("function_", number));
    text_ += "}\x94(";
    const std::uint32_t frame = memo_++;
    Get(texts_[8]), Get(name);
    Get(texts_[9]), Get(texts_[11]);
    Get(texts_[10]), Integer(number);
    text_ += "u0";
    return frame;
  }
  void Get(std::uint32_t memo) { Little(memo < 256 ? 'h' : 'j', memo, memo < 256 ? 1 : 4); }
  void Integer(std::int64_t value) {
    if (value >= std::int64_t{1} << 31) text_ += "\x8a\x08";
    Little(value < std::int64_t{1} << 31 ? 'J' : '\0', static_cast<std::uint64_t>(value),
           value < std::int64_t{1} << 31 ? 4 : 8);
  }
  // Appends an opcode, unless it is zero, and a little-endian number.
  void Little(char opcode, std::uint64_t value, int bytes) {
    if (opcode != '\0') text_ += opcode;
    for (; bytes > 0; --bytes, value >>= 8) text_ += static_cast<char>(value);
  }

  std::string text_ = "\x80\x04";
  std::uint32_t memo_ = 0;
  std::vector<std::uint32_t> texts_;
  std::vector<std::uint32_t> frames_;
};

// Returns a pickle of 20 MB.
std::string SnapshotPickle() {
  constexpr int kAllocations = 50'000;
  SnapshotText text;
  for (std::int64_t i = 0; i < kAllocations; ++i) {
    const std::int64_t address = 0x7f0000000000 + i % 1000 * 512;
    text.Event(true, address, 1'700'000'000'000'000 + 2 * i);
    text.Event(false, address, 1'700'000'000'000'001 + 2 * i);
  }
  return std::move(text).Finish();
}

void Parse(benchmark::State& state, const std::string& text) {
  std::int64_t events = 0;
  double bytes_per_event = 0;
  for (auto _ : state) {
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const Trace trace = ParseTrace(text, "bench").value();
    events = static_cast<std::int64_t>(trace.events.size());
    // Counts reserved bytes, including the unused capacity of vectors.
    bytes_per_event = static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd - before) /
                      static_cast<double>(events);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
  state.SetItemsProcessed(events * state.iterations());
  state.counters["events"] = static_cast<double>(events);
  state.counters["file_bytes_per_event"] =
      static_cast<double>(text.size()) / static_cast<double>(events);
  state.counters["memory_bytes_per_event"] = bytes_per_event;
}

void ReplayTrace(benchmark::State& state, const Trace& trace, const std::string& name) {
  std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy(name).value();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Replay(trace, *policy, {.pool_bytes = std::int64_t{1} << 40}).value().high_water_bytes);
  }
  state.counters["events"] = static_cast<double>(trace.events.size());
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  namespace bench = tidepool::bench;
  static const std::string operations = bench::OperationText();
  static const std::string rmm = bench::RmmText();
  static const std::string lifetimes =
      bench::Converted(operations, tidepool::TraceFormat::kLifetimeCsv);
  static const std::string native = bench::Converted(rmm, tidepool::TraceFormat::kNative);
  static const std::string profile = bench::ProfileText();
  static const std::string snapshot = bench::SnapshotPickle();
  static const tidepool::Trace trace = tidepool::ParseTrace(operations, "bench").value();
  for (const auto& [name, text] : {std::pair{"operation-csv", &operations},
                                   {"rmm-csv", &rmm},
                                   {"lifetime-csv", &lifetimes},
                                   {"native", &native},
                                   {"chrome-trace", &profile},
                                   {"pytorch-snapshot", &snapshot}}) {
    benchmark::RegisterBenchmark(
        absl::StrCat("parse/", name).c_str(),
        [text = text](benchmark::State& state) { bench::Parse(state, *text); })
        ->Unit(benchmark::kMillisecond);
  }
  static const tidepool::Trace timed = tidepool::ParseTrace(rmm, "bench").value();
  benchmark::RegisterBenchmark("write/chrome-trace", [](benchmark::State& state) {
    bench::Write(state, timed, tidepool::TraceFormat::kChromeTrace);
  })->Unit(benchmark::kMillisecond);
  for (const std::string& policy : tidepool::PlacementPolicyNames()) {
    benchmark::RegisterBenchmark(
        absl::StrCat("replay/", policy).c_str(),
        [policy](benchmark::State& state) { bench::ReplayTrace(state, trace, policy); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}

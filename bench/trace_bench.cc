// Claims: text parses at more than 200 MB/s, native traces at more than 20 million events a second;
// a million events replay in less than half a second under each policy; a trace takes less than 64
// bytes an event. The trace is made: random replacement of 1,000 live blocks.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/workloads.h"
#include "tidepool/sizing.h"
#include "tidepool/trace.h"

namespace tidepool::bench {
namespace {

constexpr int kEvents = 1'000'000;

// Writes what is asked for down as a trace.
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

// `text`, of any format, in another.
std::string Converted(const std::string& text, TraceFormat format) {
  const Trace trace = ParseTrace(text, "bench").value();
  const std::string path = absl::StrCat("/tmp/tidepool_trace_bench.", getpid());
  if (!WriteTrace(trace, format, path).ok()) return "";
  std::ifstream file(path);
  std::string converted((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::remove(path.c_str());
  return converted;
}

void Parse(benchmark::State& state, const std::string& text) {
  std::int64_t events = 0;
  double bytes_per_event = 0;
  for (auto _ : state) {
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const Trace trace = ParseTrace(text, "bench").value();
    events = static_cast<std::int64_t>(trace.events.size());
    // Reserved bytes: those of vectors that have grown beyond what they hold count too.
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
  static const tidepool::Trace trace = tidepool::ParseTrace(operations, "bench").value();
  for (const auto& [name, text] : {std::pair{"operation-csv", &operations},
                                   {"rmm-csv", &rmm},
                                   {"lifetime-csv", &lifetimes},
                                   {"native", &native}}) {
    benchmark::RegisterBenchmark(
        absl::StrCat("parse/", name).c_str(),
        [text = text](benchmark::State& state) { bench::Parse(state, *text); })
        ->Unit(benchmark::kMillisecond);
  }
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

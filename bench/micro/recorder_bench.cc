// SPDX-License-Identifier: Apache-2.0
// Benchmark of the recorder. Claims: a recording call takes at most 25 ns; repeated training steps
// take at most 8 bytes an event in the file. The calls are those of recorded training steps
// (examples/traces), repeated.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::bench {
namespace {

// Arguments of a call of the pool's observer.
struct Call {
  const void* address;
  std::int64_t bytes;  // 0 for a free
};

std::vector<Call> TrainingStep() {
  const Trace trace =
      ReadTrace(TIDEPOOL_SOURCE_DIR "/examples/traces/resnet50-b4-sgd.rmm.csv.gz").value();
  std::vector<Call> calls;
  std::vector<const void*> live;
  const auto address = [&](const TraceEvent& event) {
    const std::string id(trace.allocation_ids[event.index]);
    return reinterpret_cast<const void*>(std::strtoull(id.c_str(), nullptr, 16));
  };
  std::vector<bool> freed(trace.allocations.size());
  for (const TraceEvent& event : trace.events) {
    const bool frees = event.kind == TraceEvent::Kind::kFree;
    if (frees) freed[event.index] = true;
    calls.push_back({address(event), frees ? 0 : trace.allocations[event.index].bytes});
  }
  // Frees the allocations that the step leaves live, so that it can be repeated.
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kAllocate && !freed[event.index])
      calls.push_back({address(event), 0});
  }
  return calls;
}

void RecordStep(Recorder& recorder, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (call.bytes == 0) {
      recorder.Free(call.address, {1});
    } else {
      recorder.Allocate(call.address, call.bytes, Hint::kResident, {1});
    }
  }
}

// Records step after step. With `pauses` the writer catches up between steps, as it does in a
// program with other work: this measures the caller's cost of a call. Without pauses, callers wait
// for the writer most of the time: this measures the writer.
void RecordSteps(benchmark::State& state, bool pauses) {
  const std::vector<Call> calls = TrainingStep();
  const std::string path = absl::StrCat("/tmp/tidepool_recorder_bench.", getpid(), ".tide");
  std::unique_ptr<Recorder> recorder = Recorder::Create({.path = path}).value();
  for (auto _ : state) {
    RecordStep(*recorder, calls);
    if (!pauses) continue;
    state.PauseTiming();
    if (!recorder->Flush().ok()) state.SkipWithError("not written");
    state.ResumeTiming();
  }
  if (!recorder->Close().ok()) state.SkipWithError("not written");
  const auto events = static_cast<double>(calls.size()) * static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["time_per_call"] = Counter(events, Counter::kIsRate | Counter::kInvert);
  state.counters["bytes_per_event"] =
      static_cast<double>(std::filesystem::file_size(path)) / events;
  std::filesystem::remove(path);
}
BENCHMARK_CAPTURE(RecordSteps, with_pauses, true)->UseRealTime();
BENCHMARK_CAPTURE(RecordSteps, without_pauses, false)->UseRealTime();

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();

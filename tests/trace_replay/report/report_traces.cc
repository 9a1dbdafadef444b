// SPDX-License-Identifier: Apache-2.0
// Writes native traces that only a program can make, for the test of the report in a browser:
// training.tide (stacks, marks, reservations, a failure, streams, threads) and hostile.tide (names
// with markup, control characters and bytes that are not UTF-8).
// usage: report_traces FOLDER
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace {

using tidepool::Hint;
using tidepool::TraceBuilder;
using tidepool::TraceTag;

constexpr std::int64_t kMiB = 1 << 20;

// A few training steps of a network with layers, as a framework would record them.
class Training {
 public:
  tidepool::Trace Make() {
    const TraceTag module = Frame(0, "<module>", "train.py", 120);
    const TraceTag step = Frame(module, "train_step", "train.py", 88);
    forward_ = Frame(step, "forward", "model.py", 40);
    backward_ = Frame(Frame(step, "backward", "autograd.py", 200), "evaluate", "", 0);
    builder_.SetThread("python");
    builder_.Mark("load", Time());
    Reserve(600 * kMiB);
    for (int i = 0; i < 12; ++i) Allocate(Frame(module, "to", "module.py", 1100), 20 * kMiB);
    for (int i = 0; i < 3; ++i) Step(i);
    return builder_.Build();
  }

 private:
  TraceTag Frame(TraceTag caller, const char* name, const char* file, std::uint32_t line) {
    return *builder_.Frame(caller, name, file, line);
  }
  std::int64_t Time() { return time_ += 1000 + (time_ / 7) % 50'000; }
  void Reserve(std::int64_t bytes) {
    if (!builder_.Reserve({0, bytes}, "0", Time()).ok()) std::abort();
  }
  std::string Allocate(TraceTag tag, std::int64_t bytes, const char* stream = "0") {
    builder_.SetTag(tag);
    const std::string id = "t" + std::to_string(ids_++);
    const Hint hint = ids_ % 5 == 0 ? Hint::kOffloadable : Hint::kResident;
    if (!builder_.Allocate(id, bytes, hint, stream, Time()).ok()) std::abort();
    return id;
  }

  void Step(int number) {
    builder_.Mark("iteration " + std::to_string(number), Time());
    builder_.SetThread("python");
    std::vector<std::string> kept;
    for (std::uint32_t layer = 0; layer < 8; ++layer) {
      const TraceTag tag = Frame(forward_, layer % 2 == 0 ? "attention" : "mlp", "model.py", layer);
      for (int i = 0; i < 3; ++i) kept.push_back(Allocate(tag, (4 + 5 * i) * kMiB));
      builder_.Free(Allocate(tag, 30 * kMiB), "0", Time());
    }
    builder_.Mark("backward", Time());
    builder_.SetThread("autograd");
    if (number == 1 && !builder_.Failure(2048 * kMiB, Hint::kResident, "0", Time()).ok())
      std::abort();
    for (; !kept.empty(); kept.pop_back()) {
      const std::string scratch = Allocate(backward_, 22 * kMiB, "7");
      builder_.Free(kept.back(), "0", Time());
      builder_.Free(scratch, "7", Time());
    }
  }

  TraceBuilder builder_{tidepool::TraceFormat::kNative};
  TraceTag forward_ = 0;
  TraceTag backward_ = 0;
  int ids_ = 0;
  std::int64_t time_ = 0;
};

tidepool::Trace Hostile() {
  const std::string evil =
      "</script><script>window.wasHacked=1</script><img src=x onerror=window.wasHacked=1>"
      "\x1b[31m\x07\"quotes' & {{script}} \xff\xfe \xe2\x80\xae";
  TraceBuilder builder(tidepool::TraceFormat::kNative);
  builder.SetThread(evil);
  builder.SetTag(*builder.Frame(*builder.Frame(0, evil, "<b>file</b>", 3), "inner", evil, 1));
  builder.Mark(evil, 1);
  if (!builder.Allocate(evil, 4096, Hint::kResident, evil, 2).ok()) std::abort();
  if (!builder.Allocate("plain", 8192, Hint::kResident, "</script>", 3).ok()) std::abort();
  builder.Free("plain", evil, 4);
  return builder.Build();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const std::string folder = argv[1];
  for (const auto& [name, trace] :
       {std::pair("training", Training().Make()), {"hostile", Hostile()}}) {
    const absl::Status status =
        tidepool::WriteTrace(trace, tidepool::TraceFormat::kNative, folder + "/" + name + ".tide");
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

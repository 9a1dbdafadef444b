// SPDX-License-Identifier: Apache-2.0
// Profiler traces as text, and traces as lines for comparison.
#ifndef TIDEPOOL_TESTS_TRACE_PROFILES_H_
#define TIDEPOOL_TESTS_TRACE_PROFILES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::testing {

using Lines = std::vector<std::string>;

// Returns a stack as text, for example "outer/file.py:3:inner".
inline std::string StackText(const Trace& trace, TraceTag tag) {
  std::string text;
  for (; tag != 0; tag = trace.frames[tag - 1].caller) {
    const TraceFrame& frame = trace.frames[tag - 1];
    const std::string_view file = trace.frame_texts[frame.file];
    std::string name(trace.frame_texts[frame.name]);
    if (!file.empty()) name = absl::StrCat(std::string(file), ":", frame.line, ":", name);
    text = absl::StrCat(name, text.empty() ? "" : "/", text);
  }
  return text;
}

// Returns one line for each event: time, thread, description.
inline Lines Dump(const Trace& trace) {
  Lines lines;
  for (const TraceEvent& event : trace.events) {
    std::string line =
        absl::StrCat(event.time, " ", std::string(trace.thread_names[event.thread]), " ");
    const auto request = [&](const TraceAllocation& allocation) {
      absl::StrAppend(&line, allocation.bytes, " ", StackText(trace, allocation.tag));
    };
    switch (event.kind) {
      case TraceEvent::Kind::kAllocate:
        absl::StrAppend(&line, "a ", std::string(trace.allocation_ids[event.index]), " ");
        request(trace.allocations[event.index]);
        break;
      case TraceEvent::Kind::kFree:
        absl::StrAppend(&line, "f ", std::string(trace.allocation_ids[event.index]));
        break;
      case TraceEvent::Kind::kMark:
        absl::StrAppend(&line, "m ", std::string(trace.mark_names[event.index]));
        break;
      case TraceEvent::Kind::kMarkEnd:
        absl::StrAppend(&line, "e ", std::string(trace.mark_names[event.index]));
        break;
      case TraceEvent::Kind::kFailure:
        line += "o ";
        request(trace.failures[event.index]);
        break;
      case TraceEvent::Kind::kReserve:
        absl::StrAppend(&line, "r ", trace.reservations[event.index].bytes);
        break;
      case TraceEvent::Kind::kPause:
      case TraceEvent::Kind::kResume:
        line += "p";
        break;
      case TraceEvent::Kind::kWait:
        line += "w";
    }
    lines.push_back(line);
  }
  return lines;
}

inline Lines DumpOf(const std::string& contents, const ReadOptions& options = {}) {
  const auto trace = ParseTrace(contents, "test.json", options);
  EXPECT_TRUE(trace.ok()) << trace.status() << "\n" << contents;
  return trace.ok() ? Dump(*trace) : Lines{};
}

inline std::string ErrorOf(const std::string& contents, const ReadOptions& options = {}) {
  const auto trace = ParseTrace(contents, "test.json", options);
  EXPECT_FALSE(trace.ok()) << contents;
  if (trace.ok()) return "";
  const std::string message(trace.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

inline std::string File(const Lines& events) {
  return absl::StrCat("{\"traceEvents\":[\n", absl::StrJoin(events, ",\n"), "\n]}\n");
}

inline std::string MemoryEvent(const std::string& time, const std::string& bytes,
                               const std::string& address, const std::string& more = "") {
  return absl::StrCat(R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,)",
                      R"("tid":2,"ts":)", time, R"(,"args":{"Bytes":)", bytes, R"(,"Addr":)",
                      address, R"(,"Device Id":0,"Device Type":1)", more, "}}");
}

inline std::string Span(const std::string& category, const std::string& name, int time,
                        int duration) {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":2,"ts":)", time, ",\"dur\":", duration,
                      R"(,"args":{"Ev Idx":1}})");
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRACE_PROFILES_H_

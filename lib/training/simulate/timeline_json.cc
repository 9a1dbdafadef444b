// SPDX-License-Identifier: Apache-2.0
// Writes a timeline for Perfetto and chrome://tracing, one event per line.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/json_text.h"
#include "lib/base/io/microseconds.h"
#include "lib/base/text/quote.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

// By TimelineEvent::Kind.
constexpr std::array<const char*, 5> kTracks = {"compute", "out", "in", "peers", "peers"};
constexpr std::array<const char*, 5> kCategories = {"task", "offload", "prefetch", "receive",
                                                    "add"};
constexpr double kNeverStarts = std::numeric_limits<double>::infinity();

// Viewers count nanoseconds in 64 bits. Both ends of a span are rounded, not its length, so that
// spans that follow each other do not overlap.
std::int64_t ShownNanoseconds(double seconds) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::nearbyint(std::min(seconds * 1e9, kMost)));
}

// A stream of a device, or a core of the host.
using Track = std::tuple<std::size_t, TimelineEvent::Kind, std::size_t>;

// Additions run on the stream of copies from other devices.
Track TrackOf(const TimelineEvent& event) {
  const bool adds = event.kind == TimelineEvent::Kind::kAdd;
  return {event.device, adds ? TimelineEvent::Kind::kReceive : event.kind, event.stream};
}

// Returns "compute", "compute 1", "device 1 out", "host core 0".
std::string TrackName(const Track& track) {
  const auto [device, kind, stream] = track;
  if (device == kHostDevice) return absl::StrCat("host core ", stream);
  const std::string name = kTracks[static_cast<std::size_t>(kind)];
  const std::string numbered = stream == 0 ? name : absl::StrCat(name, " ", stream);
  return device == 0 ? numbered : absl::StrCat("device ", device, " ", numbered);
}

class TimelineWriter {
 public:
  TimelineWriter(const TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), task_starts_(graph.tasks.size(), kNeverStarts) {
    for (const auto kind : {TimelineEvent::Kind::kTask, TimelineEvent::Kind::kOffload,
                            TimelineEvent::Kind::kPrefetch}) {
      tracks_[{0, kind, 0}] = 0;
    }
    for (const TimelineEvent& event : timeline.events) {
      if (event.kind == TimelineEvent::Kind::kTask) task_starts_[event.index] = event.start;
      tracks_[TrackOf(event)] = 0;
    }
    std::size_t number = 0;
    for (auto& [track, own] : tracks_) own = ++number;
  }

  std::string Write() {
    json_ = "{\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n";
    WriteTracks();
    for (const TimelineEvent& event : timeline_.events) WriteEvent(event);
    for (const TimelineStall& stall : timeline_.stalls) WriteStall(stall);
    WriteCounter("device memory", timeline_.device_memory);
    for (std::size_t i = 0; i < timeline_.further_devices.size(); ++i) {
      WriteCounter(absl::StrCat("device ", i + 1, " memory"), timeline_.further_devices[i].memory);
    }
    WriteCounter("host memory", timeline_.host_memory);
    json_ += "\n]}\n";
    return std::move(json_);
  }

 private:
  void WriteTracks() {
    absl::StrAppend(&json_, R"({"ph":"M","name":"process_name","pid":1,"args":{"name":)",
                    io::JsonText(graph_.name.empty() ? "iteration" : graph_.name), "}}");
    for (const auto& [track, number] : tracks_) {
      Begin("M");
      absl::StrAppend(&json_, R"(,"name":"thread_name","tid":)", number, R"(,"args":{"name":")",
                      TrackName(track), "\"}}");
      Begin("M");
      absl::StrAppend(&json_, R"(,"name":"thread_sort_index","tid":)", number,
                      R"(,"args":{"sort_index":)", number - 1, "}}");
    }
  }

  void Begin(const char* phase) { absl::StrAppend(&json_, ",\n{\"ph\":\"", phase, "\",\"pid\":1"); }

  // Writes a span up to its arguments.
  void BeginSpan(std::size_t track, const char* category, std::string_view name, double start,
                 double end) {
    const std::int64_t from = ShownNanoseconds(start);
    Begin("X");
    absl::StrAppend(&json_, ",\"tid\":", track, ",\"ts\":", io::Microseconds(from),
                    ",\"dur\":", io::Microseconds(ShownNanoseconds(end) - from), ",\"cat\":\"",
                    category, "\",\"name\":", io::JsonText(name), ",\"args\":{");
  }

  void WriteEvent(const TimelineEvent& event) {
    const auto kind = static_cast<std::size_t>(event.kind);
    const bool is_task = event.kind == TimelineEvent::Kind::kTask;
    BeginSpan(tracks_.at(TrackOf(event)), kCategories[kind],
              is_task ? graph_.tasks[event.index].name : graph_.data[event.index].name, event.start,
              event.end);
    if (is_task) {
      AppendTask(graph_.tasks[event.index]);
    } else {
      AppendData(graph_.data[event.index]);
    }
    absl::StrAppend(&json_, ",\"step\":", event.step, "}}");
  }

  void AppendTask(const GraphTask& task) {
    absl::StrAppend(&json_, "\"layer\":", io::JsonText(task.layer),
                    ",\"operation\":", io::JsonText(task.operation), ",\"phase\":\"",
                    std::string(TaskPhaseName(task.phase)), "\"");
  }

  void AppendData(const GraphData& data) {
    absl::StrAppend(&json_, "\"bytes\":", data.bytes, ",\"kind\":\"",
                    std::string(DataKindName(data.kind)), "\"");
  }

  void WriteStall(const TimelineStall& stall) {
    // The sum may be a rounding error after the start of the waiting task.
    const double end = std::min(stall.start + stall.seconds, task_starts_[stall.task]);
    const Track track = {stall.device, TimelineEvent::Kind::kTask, stall.stream};
    BeginSpan(tracks_.at(track), "stall", "stall", stall.start, end);
    absl::StrAppend(&json_, "\"reason\":\"", std::string(StallReasonName(stall.reason)),
                    "\",\"data\":", io::JsonText(graph_.data[stall.data].name),
                    ",\"task\":", io::JsonText(graph_.tasks[stall.task].name), "}}");
  }

  void WriteCounter(const std::string& name, const std::vector<MemoryPoint>& points) {
    for (const MemoryPoint& point : points) {
      Begin("C");
      absl::StrAppend(&json_, ",\"name\":\"", name,
                      "\",\"ts\":", io::Microseconds(ShownNanoseconds(point.seconds)),
                      ",\"args\":{\"bytes\":", point.bytes, "}}");
    }
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<double> task_starts_;
  std::map<Track, std::size_t> tracks_;  // their numbers in the file
  std::string json_;
};

}  // namespace

std::string TimelineJson(const TaskGraph& graph, const Timeline& timeline) {
  return TimelineWriter(graph, timeline).Write();
}

absl::Status WriteTimeline(const TaskGraph& graph, const Timeline& timeline,
                           const std::filesystem::path& path) {
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << TimelineJson(graph, timeline);
    return absl::OkStatus();
  });
}

}  // namespace tidepool

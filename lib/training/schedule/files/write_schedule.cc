// SPDX-License-Identifier: Apache-2.0
// Writes schedules: each step has a line of its own, so that line numbers in errors are useful.
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/io/json_text.h"
#include "lib/training/schedule/files/step_columns.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

using schedule::Column;

// Returns the shortest text that is read as the same number.
std::string NumberText(double number) {
  if (std::isinf(number)) return "\"infinite\"";
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

bool IsDefault(const ScheduleStep& step, Column column) {
  const ScheduleStep plain;
  switch (column) {
    case Column::kIndex:
      return false;
    case Column::kAlgorithm:
      return step.algorithm == plain.algorithm;
    case Column::kBegin:
      return step.begin == plain.begin;
    case Column::kEnd:
      return step.end == plain.end;
    case Column::kOffset:
      return step.offset == plain.offset;
    case Column::kDevice:
      return step.device == plain.device;
    case Column::kStream:
      return step.stream == plain.stream;
    case Column::kHint:
      return step.hint == plain.hint;
    case Column::kDensity:
      return step.density == plain.density;
    case Column::kSource:
      return step.source == plain.source;
    case Column::kNoColumn:
      break;
  }
  return true;
}

void AppendColumn(const ScheduleStep& step, Column column, std::string& json) {
  switch (column) {
    case Column::kIndex:
      return absl::StrAppend(&json, ",", step.index);
    case Column::kAlgorithm:
      return absl::StrAppend(&json, ",", step.algorithm);
    case Column::kBegin:
      return absl::StrAppend(&json, ",", step.begin);
    case Column::kEnd:
      return absl::StrAppend(&json, ",", step.end);
    case Column::kOffset:
      return absl::StrAppend(&json, ",", step.offset);
    case Column::kDevice:
      if (step.device == kHostDevice) return absl::StrAppend(&json, ",\"host\"");
      return absl::StrAppend(&json, ",", step.device);
    case Column::kStream:
      return absl::StrAppend(&json, ",", step.stream);
    case Column::kHint:
      return absl::StrAppend(
          &json, step.hint == Hint::kOffloadable ? ",\"offloadable\"" : ",\"resident\"");
    case Column::kDensity:
      return absl::StrAppend(&json, ",", NumberText(step.density));
    case Column::kSource:
      return absl::StrAppend(&json, ",", step.source);
    case Column::kNoColumn:
      break;
  }
}

void AppendStep(const ScheduleStep& step, std::string& json) {
  absl::StrAppend(&json, "[\"", std::string(StepKindName(step.kind)), "\"");
  const schedule::Columns columns = schedule::ColumnsOf(step.kind);
  std::size_t count = columns.size();
  while (count > 0 && IsDefault(step, columns[count - 1])) --count;
  for (std::size_t i = 0; i < count; ++i) AppendColumn(step, columns[i], json);
  json += ']';
}

// Appends "[" and the elements, one a line, and "]".
template <typename List, typename Append>
void AppendList(const char* key, const List& list, std::string& json, Append append) {
  absl::StrAppend(&json, ",\n \"", key, "\": [");
  const char* comma = "\n  ";
  for (const auto& one : list) {
    json += comma;
    append(one, json);
    comma = ",\n  ";
  }
  json += ']';
}

void AppendRound(const ScheduleRound& round, std::string& json) {
  absl::StrAppend(&json, "{\"steps\": ", round.steps, ", \"times\": ", round.times,
                  ", \"batch\": ", round.batch, "}");
}

void AppendMachineDevice(const MachineDevice& device, std::string& json) {
  absl::StrAppend(&json, "{\"memory\": ", device.memory_bytes, ", \"link\": ", device.link,
                  ", \"compute_streams\": ", device.compute_streams);
  if (device.compressor.exists()) {
    absl::StrAppend(&json, ", \"compressor\": ", NumberText(device.compressor.out_bytes_per_second),
                    ", \"decompressor\": ", NumberText(device.compressor.in_bytes_per_second));
  }
  json += '}';
}

void AppendMachineLink(const MachineLink& link, std::string& json) {
  absl::StrAppend(&json, "{\"out\": ", NumberText(link.out_bytes_per_second),
                  ", \"in\": ", NumberText(link.in_bytes_per_second),
                  ", \"latency\": ", NumberText(link.latency_seconds));
  absl::StrAppend(&json, ", \"full_duplex\": ", link.full_duplex ? "true" : "false",
                  ", \"sharing\": \"", std::string(LinkSharingName(link.sharing)), "\"}");
}

void AppendPeers(const PeerLinks& peers, std::string& json) {
  absl::StrAppend(&json, ",\n \"peers\": {\"rate\": ", NumberText(peers.bytes_per_second),
                  ", \"latency\": ", NumberText(peers.latency_seconds),
                  ", \"bus\": ", peers.is_bus ? "true" : "false", ", \"sharing\": \"",
                  std::string(LinkSharingName(peers.sharing)),
                  "\", \"addition\": ", NumberText(peers.addition_bytes_per_second), "}");
}

void AppendMachine(const Machine& machine, std::string& json) {
  json += ",\n \"machine\": {";
  std::string lists;
  AppendList("devices", machine.devices, lists, AppendMachineDevice);
  AppendList("links", machine.links, lists, AppendMachineLink);
  json += lists.substr(1);
  const MachineHost& host = machine.host;
  absl::StrAppend(&json, ",\n \"host\": {\"memory\": ", host.memory_bytes,
                  ", \"cores\": ", host.cores,
                  ", \"accumulation\": ", NumberText(host.accumulation_bytes_per_second),
                  ", \"update\": ", NumberText(host.update_bytes_per_second), "}");
  if (machine.peers.exist()) AppendPeers(machine.peers, json);
  json += '}';
}

}  // namespace

std::string_view BatchNormalizationName(BatchNormalization normalization) {
  switch (normalization) {
    case BatchNormalization::kBatch:
      return "batch";
    case BatchNormalization::kGhost:
      return "ghost";
    case BatchNormalization::kUnknown:
      break;
  }
  return "unknown";
}

std::string ScheduleJson(const ScheduleFile& file) {
  const Schedule& schedule = file.schedule;
  std::string json =
      absl::StrCat("{\"tidepool_schedule\": 2,\n \"policy\": ", io::JsonText(schedule.policy),
                   ",\n \"graph\": ", io::JsonText(file.graph), ",\n \"fingerprint\": \"",
                   absl::Hex(schedule.fingerprint, absl::kZeroPad16), "\"");
  absl::StrAppend(&json, ",\n \"memory\": \"", std::string(ScheduleMemoryName(schedule.memory)),
                  "\",\n \"alignment\": ", schedule.alignment,
                  ",\n \"devices\": ", schedule.devices);
  if (file.batch_normalization != BatchNormalization::kUnknown) {
    absl::StrAppend(&json, ",\n \"batch_normalization\": \"",
                    std::string(BatchNormalizationName(file.batch_normalization)), "\"");
  }
  if (file.machine.has_value()) AppendMachine(*file.machine, json);
  if (!schedule.rounds.empty()) AppendList("rounds", schedule.rounds, json, AppendRound);
  AppendList("steps", schedule.steps, json, AppendStep);
  json += "}\n";
  return json;
}

absl::Status WriteSchedule(const ScheduleFile& file, const std::filesystem::path& path) {
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << ScheduleJson(file);
    return absl::OkStatus();
  });
}

}  // namespace tidepool

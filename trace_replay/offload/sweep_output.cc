// SPDX-License-Identifier: Apache-2.0
// Prints the points of a sweep and its answers.
#include "trace_replay/offload/sweep_output.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

using Row = std::vector<std::string>;

Row PointRow(const SweepPoint& point) {
  Row row = {SeriesText(point.series), MemoryText(point.memory_bytes)};
  if (!point.fits) {
    row.insert(row.end(), {"does not fit", "", "", ""});
    return row;
  }
  row.insert(row.end(), {MillisecondsText(point.seconds), RatioText(point.slowdown()),
                         SizeText(point.bytes_out), SizeText(point.pool_bytes)});
  return row;
}

std::string LimitText(const SweepOptions& sweep) {
  return std::isinf(sweep.most_slowdown)
             ? ""
             : absl::StrFormat(" with a slowdown of at most %gx", sweep.most_slowdown);
}

std::string MemoriesText(const SweepOptions& sweep, const std::vector<SweepAnswer>& answers) {
  std::vector<Row> rows = {{absl::StrCat("smallest memory", LimitText(sweep)), "", "slowdown"}};
  for (const SweepAnswer& answer : answers) {
    rows.push_back({"  " + SeriesText(answer.series)});
    if (answer.best.has_value()) {
      rows.back().push_back(MemoryText(answer.best->memory_bytes));
      rows.back().push_back(RatioText(answer.best->slowdown()));
    } else {
      rows.back().emplace_back("more than these");
    }
  }
  return TableText(rows);
}

std::string BatchesText(const SweepOptions& sweep, const std::vector<SweepAnswer>& answers) {
  std::vector<Row> rows = {{absl::StrCat("largest batch", LimitText(sweep)), "", "slowdown"}};
  for (const SweepAnswer& answer : answers) {
    rows.push_back(
        {absl::StrCat("  ", SeriesText(answer.series), ", ", MemoryText(answer.memory_bytes))});
    if (answer.best.has_value()) {
      rows.back().push_back(CountText(answer.best->series.batch));
      rows.back().push_back(RatioText(answer.best->slowdown()));
    } else {
      rows.back().emplace_back("less than these");
    }
  }
  return TableText(rows);
}

// Quotes a text that commas, quotes or line ends would break.
std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// Returns the shortest text that is read as the same number.
std::string NumberText(double number) { return nlohmann::json(number).dump(); }

// Returns the set of layers that a policy offloads; empty for a policy without one.
std::string SetOf(const SweepSeries& series) {
  return TakesSet(series.policy) ? series.set : std::string();
}

std::string CsvLine(const SweepPoint& point) {
  std::string line =
      absl::StrCat(CsvCell(point.graph), ",", point.series.batch, ",", point.series.policy, ",",
                   SetOf(point.series), ",", point.memory_bytes, ",",
                   NumberText(point.ideal_seconds), ",", point.fits ? "true" : "false", ",");
  if (!point.fits) return line + ",,,,,,,,";
  absl::StrAppend(&line, CsvCell(point.schedule), ",", NumberText(point.seconds), ",",
                  NumberText(point.slowdown()), ",", NumberText(point.compute_seconds));
  for (const std::int64_t bytes : {point.bytes_out, point.bytes_in, point.peak_device_bytes,
                                   point.peak_host_bytes, point.pool_bytes}) {
    absl::StrAppend(&line, ",", bytes);
  }
  return line;
}

nlohmann::ordered_json AnswerJson(const SweepAnswer& answer) {
  nlohmann::ordered_json json = {{"policy", answer.series.policy}, {"offload", nullptr}};
  if (TakesSet(answer.series.policy)) json["offload"] = answer.series.set;
  return json;
}

nlohmann::ordered_json MemoriesJson(const std::vector<SweepAnswer>& answers) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const SweepAnswer& answer : answers) {
    json.push_back(AnswerJson(answer));
    json.back()["batch"] = answer.series.batch;
    json.back()["memory_bytes"] = nullptr;
    json.back()["overhead"] = nullptr;
    if (!answer.best.has_value()) continue;
    json.back()["memory_bytes"] = answer.best->memory_bytes;
    json.back()["overhead"] = answer.best->slowdown();
  }
  return json;
}

nlohmann::ordered_json BatchesJson(const std::vector<SweepAnswer>& answers) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const SweepAnswer& answer : answers) {
    json.push_back(AnswerJson(answer));
    json.back()["memory_bytes"] = answer.memory_bytes;
    json.back()["batch"] = nullptr;
    json.back()["overhead"] = nullptr;
    if (!answer.best.has_value()) continue;
    json.back()["batch"] = answer.best->series.batch;
    json.back()["overhead"] = answer.best->slowdown();
  }
  return json;
}

}  // namespace

std::string MemoryText(std::int64_t bytes) {
  constexpr std::array<std::pair<const char*, int>, 4> kUnits = {
      {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};
  for (const auto& [unit, shift] : kUnits) {
    if (bytes >> shift == 0) continue;
    const double size = std::ldexp(static_cast<double>(bytes), -shift);
    int decimals = 1;
    double scaled = size * 10;
    for (; decimals < 3 && scaled != std::floor(scaled); scaled *= 10) ++decimals;
    return absl::StrFormat("%.*f %s", decimals, size, unit);
  }
  return SizeText(bytes);
}

std::string SweepText(const SweepOptions& sweep, const std::vector<SweepPoint>& points,
                      const SweepAnswers& answers) {
  std::vector<Row> rows = {{absl::CHexEscape(points.front().graph), "memory", "iteration",
                            "slowdown", "to the host", "pool"}};
  for (const SweepPoint& point : points) rows.push_back(PointRow(point));
  std::string text = TableText(rows);
  if (sweep.smallest_memory) {
    absl::StrAppend(&text, "\n", MemoriesText(sweep, answers.smallest_memories));
  }
  if (sweep.largest_batch) {
    absl::StrAppend(&text, "\n", BatchesText(sweep, answers.largest_batches));
  }
  return text;
}

std::string SweepCsv(const std::vector<SweepPoint>& points) {
  std::string csv =
      "graph,batch,policy,offload,memory_bytes,ideal_seconds,fits,schedule,seconds,overhead,"
      "compute_seconds,bytes_out,bytes_in,peak_device_bytes,peak_host_bytes,pool_bytes\n";
  for (const SweepPoint& point : points) absl::StrAppend(&csv, CsvLine(point), "\n");
  return csv;
}

nlohmann::ordered_json SweepJson(const SweepOptions& sweep, const std::vector<SweepPoint>& points,
                                 const SweepAnswers& answers) {
  nlohmann::ordered_json json = {{"points", nlohmann::ordered_json::array()}};
  for (const SweepPoint& point : points) json["points"].push_back(point.json);
  if (sweep.smallest_memory) json["smallest_memory"] = MemoriesJson(answers.smallest_memories);
  if (sweep.largest_batch) json["largest_batch"] = BatchesJson(answers.largest_batches);
  return json;
}

}  // namespace tidepool::tool

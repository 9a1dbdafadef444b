// SPDX-License-Identifier: Apache-2.0
// Replaces computed times of a graph by measured ones.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/parse_number.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

using io::ByteSource;
using io::CsvReader;
using text::Quoted;

class TimesReader {
 public:
  TimesReader(io::CsvReader reader, TaskGraph& graph) : reader_(std::move(reader)), graph_(graph) {}

  absl::Status Read();

 private:
  struct Time {
    std::size_t task;
    std::size_t algorithm;
    double seconds;
  };

  absl::Status ReadHeader();
  absl::Status ReadRow();
  absl::StatusOr<std::size_t> AlgorithmCalled(std::string_view name, std::size_t task) const;

  io::CsvReader reader_;
  TaskGraph& graph_;
  absl::flat_hash_map<absl::string_view, std::size_t> tasks_;
  absl::flat_hash_map<std::pair<std::size_t, std::size_t>, std::int64_t> lines_;
  std::vector<Time> times_;
};

absl::Status TimesReader::ReadHeader() {
  if (!reader_.Next()) {
    if (!reader_.status().ok()) return reader_.status();
    return reader_.ErrorAt(1, "an empty file, expected a header: task,algorithm,seconds");
  }
  reader_.UseAsHeader();
  return reader_.RequireColumns({"task", "algorithm", "seconds"});
}

absl::StatusOr<std::size_t> TimesReader::AlgorithmCalled(std::string_view name,
                                                         std::size_t task) const {
  const std::vector<TaskAlgorithm>& algorithms = graph_.tasks[task].algorithms;
  std::string known;
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    if (algorithms[i].name == name) return i;
    absl::StrAppend(&known, i == 0 ? "" : ", ", text::Escaped(algorithms[i].name));
  }
  return reader_.Error(absl::StrCat("task ", text::Quoted(graph_.tasks[task].name),
                                    " has no algorithm ", text::Quoted(name), ", expected ",
                                    known));
}

absl::Status TimesReader::ReadRow() {
  const std::string_view name = reader_.field(reader_.Column("task"));
  const auto task = tasks_.find(absl::string_view(name.data(), name.size()));
  if (task == tasks_.end()) {
    return reader_.Error(
        absl::StrCat("there is no task ", text::Quoted(name), ", expected a task of the graph"));
  }
  const absl::StatusOr<std::size_t> algorithm =
      AlgorithmCalled(reader_.field(reader_.Column("algorithm")), task->second);
  if (!algorithm.ok()) return algorithm.status();
  const std::string_view text = reader_.field(reader_.Column("seconds"));
  Time time = {task->second, *algorithm, 0};
  if (!graph::ParseSeconds(text, &time.seconds)) {
    return reader_.Error(
        absl::StrCat("seconds is ", text::Quoted(text), ", expected a number from 0 to 10^9"));
  }
  const auto [before, is_new] =
      lines_.emplace(std::pair(time.task, time.algorithm), reader_.line());
  if (!is_new) {
    return reader_.Error(absl::StrCat("a second time for task ", text::Quoted(name),
                                      ", after that in line ", before->second, ", expected one"));
  }
  times_.push_back(time);
  return absl::OkStatus();
}

absl::Status TimesReader::Read() {
  if (absl::Status status = ReadHeader(); !status.ok()) return status;
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) tasks_.emplace(graph_.tasks[i].name, i);
  while (reader_.Next()) {
    if (absl::Status status = ReadRow(); !status.ok()) return status;
  }
  if (!reader_.status().ok()) return reader_.status();
  if (times_.empty()) {
    return reader_.ErrorAt(reader_.line() + 1, "no times, expected a row after the header");
  }
  for (const Time& time : times_) {
    graph_.tasks[time.task].algorithms[time.algorithm].seconds = time.seconds;
  }
  return absl::OkStatus();
}

absl::Status ReadTimesFrom(std::unique_ptr<io::ByteSource> source, const std::string& name,
                           TaskGraph& graph) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(std::move(source));
  if (!plain.ok()) return text::AboutFile(name, plain.status());
  return TimesReader(io::CsvReader(*std::move(plain), name), graph).Read();
}

}  // namespace

absl::Status ReadTimes(const std::filesystem::path& path, TaskGraph& graph) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file =
      io::OpenFile(path.string(), "a table of times");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  return ReadTimesFrom(*std::move(file), path.string(), graph);
}

absl::Status ParseTimes(std::string_view csv, std::string_view name, TaskGraph& graph) {
  return ReadTimesFrom(io::FromMemory(csv), std::string(name), graph);
}

}  // namespace tidepool

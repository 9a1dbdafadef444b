// SPDX-License-Identifier: Apache-2.0
// The command `diff`: the change from one recording to another.
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/category_rules.h"
#include "trace_replay/commands/trace_diff.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct DiffOptions {
  std::string before;
  std::string after;
  std::vector<std::int64_t> batch;  // of both recordings, or empty
  std::int64_t memory_bytes = -1;
  std::int64_t alignment = 0;
  ReadOptions read;
  std::vector<std::string> categories;  // NAME=REGEX
  bool json = false;
};

std::string MomentText(const DeviceAnswer& answer) {
  if (!answer.has_history) {
    return absl::StrCat("live ", SizeText(answer.live_bytes), ", ", std::string(kNoHistory));
  }
  std::string text = absl::StrCat("peak live ", SizeText(answer.load.peak_live_bytes));
  if (answer.refusal.has_value()) {
    absl::StrAppend(&text, ", out of memory with ", SizeText(answer.live_bytes),
                    " live: needs at least ", SizeText(answer.demand.needs_bytes));
  }
  return text;
}

nlohmann::ordered_json BatchJson(const BatchLine& line, std::int64_t memory_bytes) {
  nlohmann::ordered_json json = {{"before", line.batch[0]},
                                 {"after", line.batch[1]},
                                 {"bytes_per_sample", line.bytes_per_sample()}};
  if (memory_bytes >= 0) {
    json["memory_bytes"] = memory_bytes;
    json["largest_batch"] = line.LargestBatch(memory_bytes);
  }
  return json;
}

std::string BatchText(const BatchLine& line, std::int64_t memory_bytes) {
  std::string text = absl::StrCat("\n  each sample of the batch needs ",
                                  SizeText(static_cast<std::int64_t>(line.bytes_per_sample())),
                                  ", on the line through both\n");
  if (memory_bytes < 0) return text;
  const std::int64_t largest = line.LargestBatch(memory_bytes);
  absl::StrAppend(&text, "  in ", SizeText(memory_bytes),
                  largest > 0 ? absl::StrCat(" the largest batch is ", CountText(largest))
                              : std::string(" no batch fits"),
                  "\n");
  return text;
}

void PrintDiff(const DiffOptions& options, const TraceDiff& diff,
               const std::optional<BatchLine>& line) {
  std::cout << "before  " << absl::CHexEscape(options.before) << "\n        "
            << MomentText(diff.answers[0]) << "\nafter   " << absl::CHexEscape(options.after)
            << "\n        " << MomentText(diff.answers[1]) << "\n\n"
            << DiffText(diff);
  if (line.has_value()) std::cout << BatchText(*line, options.memory_bytes);
}

absl::StatusOr<TraceDiff> ReadDiff(const DiffOptions& options) {
  const absl::StatusOr<std::vector<CategoryRule>> rules = ParseCategoryRules(options.categories);
  if (!rules.ok()) return rules.status();
  const auto before = ReadMeasured(options.before, options.alignment, options.read);
  if (!before.ok()) return before.status();
  const auto after = ReadMeasured(options.after, options.alignment, options.read);
  if (!after.ok()) return after.status();
  return Compare(*before, *after, *rules);
}

absl::StatusOr<Answer> RunDiff(const DiffOptions& options) {
  const absl::StatusOr<TraceDiff> diff = ReadDiff(options);
  if (!diff.ok()) return diff.status();
  std::optional<BatchLine> line;
  if (!options.batch.empty()) {
    const absl::StatusOr<BatchLine> made = LineOf(*diff, options.batch);
    if (!made.ok()) return made.status();
    line = *made;
  }
  if (options.json) {
    nlohmann::ordered_json json = DiffJson(*diff);
    if (line.has_value()) json["batch"] = BatchJson(*line, options.memory_bytes);
    PrintJson(json);
  } else {
    PrintDiff(options, *diff, line);
  }
  const bool is_none = line.has_value() && options.memory_bytes >= 0 &&
                       line->LargestBatch(options.memory_bytes) == 0;
  return is_none ? Answer::kNo : Answer::kYes;
}

}  // namespace

Command AddDiff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* diff = app.add_subcommand(
      "diff", "Compares two traces: which lines, categories and sizes hold more memory, or less");
  diff->group("Traces");
  diff->add_option("BEFORE", options->before, "The trace file to compare with")->required();
  diff->add_option("AFTER", options->after, "The trace file that is compared")->required();
  CLI::Option* batch =
      diff->add_option("--batch", options->batch,
                       "The batch sizes of both traces: also prints how much memory a sample needs")
          ->delimiter(',')
          ->expected(2)
          ->type_name("BEFORE,AFTER");
  AddSizeOption(*diff, "--memory", options->memory_bytes,
                "With --batch: also prints the largest batch that this memory holds. Exit status 2 "
                "if it holds none")
      ->needs(batch);
  AddCategoryOption(*diff, options->categories);
  AddAlignOption(*diff, options->alignment);
  AddTraceDeviceOption(*diff, options->read);
  AddJsonOption(*diff, options->json);
  AddExamples(*diff, {"tidepool diff before.pickle after.pickle",
                      "tidepool diff batch16.pickle batch32.pickle --batch 16,32 --memory 80GiB"});
  return {diff, [options] { return RunDiff(*options); }};
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// The command `workspace`: micro-batches and algorithms of kernels under a limit of workspace, and
// batches split over devices.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/nearest.h"
#include "tidepool/training/workspace_policy.h"
#include "trace_replay/command.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

using Json = nlohmann::ordered_json;

struct WorkspaceOptions {
  std::string file;
  std::string name;    // empty: all cases
  std::string policy;  // empty: that of each case
  std::int64_t limit_bytes = 0;
  const CLI::Option* limit = nullptr;
  bool json = false;
};

// The answer to one case, as JSON and as text.
struct CaseAnswer {
  Answer answer = Answer::kYes;
  Json json;
  std::string text;
};

std::string KindName(WorkspaceKind kind) {
  constexpr const char* kNames[] = {"a workspace for each kernel", "one workspace, divided",
                                    "one workspace, shared", "a batch over devices"};
  return kNames[static_cast<std::size_t>(kind)];
}

Json PartJson(const KernelPart& part) {
  Json json = {part.algorithm, part.micro_batch};
  if (part.precision != KernelPrecision::kFloat) {
    json.push_back(std::string(KernelPrecisionName(part.precision)));
  }
  return json;
}

Json KernelJson(const KernelConfiguration& kernel) {
  Json parts = Json::array();
  for (const KernelPart& part : kernel.parts) parts.push_back(PartJson(part));
  return {
      {"time", kernel.seconds}, {"workspace", kernel.workspace_bytes}, {"parts", std::move(parts)}};
}

Json AnswerJson(const WorkspaceCase& question, const WorkspaceAnswer& answer) {
  Json front = Json::array();
  for (const WorkspacePoint& point : answer.front) {
    front.push_back({point.seconds, point.workspace_bytes});
  }
  Json kernels = Json::array();
  for (const KernelConfiguration& kernel : answer.kernels) kernels.push_back(KernelJson(kernel));
  return {{"name", question.name},
          {"policy", question.policy},
          {"limit", question.limit_bytes},
          {"fits", true},
          {"proved", answer.proved},
          {"time", answer.seconds},
          {"workspace", answer.workspace_bytes},
          {"front", std::move(front)},
          {"kernels", std::move(kernels)}};
}

// "3 x 64 by 5, 1 x 32 by 1": counts, micro-batches and algorithms.
std::string PartsText(const std::vector<KernelPart>& parts) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < parts.size();) {
    std::size_t end = begin;
    while (end < parts.size() && parts[end] == parts[begin]) ++end;
    const KernelPart& part = parts[begin];
    texts.push_back(
        absl::StrCat(end - begin, " x ", part.micro_batch, " by ", part.algorithm,
                     part.precision == KernelPrecision::kFloat
                         ? ""
                         : absl::StrCat(" ", std::string(KernelPrecisionName(part.precision)))));
    begin = end;
  }
  return absl::StrJoin(texts, ", ");
}

std::string HeadOf(const WorkspaceCase& question) {
  const bool is_devices = question.kind == WorkspaceKind::kDevices;
  return absl::StrCat(question.name.empty() ? "a case" : absl::CHexEscape(question.name),
                      "\n  batch ", question.batch, ", ", KindName(question.kind),
                      is_devices
                          ? ""
                          : absl::StrCat(", limit ", SizeText(question.limit_bytes),
                                         ", micro-batches ", absl::CHexEscape(question.policy)),
                      "\n");
}

std::string AnswerText(const WorkspaceCase& question, const WorkspaceAnswer& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"  kernel", "time", "workspace", "micro-batches by algorithm"}};
  for (std::size_t i = 0; i < answer.kernels.size(); ++i) {
    const KernelConfiguration& kernel = answer.kernels[i];
    rows.push_back({absl::StrCat("  ", i), MillisecondsText(kernel.seconds),
                    SizeText(kernel.workspace_bytes), PartsText(kernel.parts)});
  }
  rows.push_back({"  all", MillisecondsText(answer.seconds), SizeText(answer.workspace_bytes), ""});
  return absl::StrCat(HeadOf(question), answer.proved ? "" : "  not proved to be the best\n", "\n",
                      TableText(rows));
}

CaseAnswer DoesNotFit(const WorkspaceCase& question, const absl::Status& why) {
  return {
      .answer = Answer::kNo,
      .json = {{"name", question.name},
               {"fits", false},
               {"why", std::string(why.message())},
               {"time", nullptr},
               {"workspace", nullptr},
               {"front", Json::array()},
               {"kernels", Json::array()}},
      .text = absl::StrCat(HeadOf(question), "  does not fit: ", std::string(why.message()), "\n")};
}

absl::StatusOr<CaseAnswer> AnswerDevices(const WorkspaceCase& question) {
  const absl::StatusOr<DeviceSplit> split = SplitBatch(question);
  if (absl::IsResourceExhausted(split.status())) return DoesNotFit(question, split.status());
  if (!split.ok()) return split.status();
  Json devices = Json::array();
  std::vector<std::vector<std::string>> rows = {{"  device", "samples", "time"}};
  for (std::size_t i = 0; i < split->devices.size(); ++i) {
    const DeviceRow& device = split->devices[i];
    devices.push_back({{"time", device.seconds}, {"batch", device.samples}});
    rows.push_back({absl::StrCat("  ", i), CountText(device.samples),
                    device.samples == 0 ? "stays out" : MillisecondsText(device.seconds)});
  }
  rows.push_back({"  all", CountText(question.batch), MillisecondsText(split->seconds)});
  return CaseAnswer{.json = {{"name", question.name},
                             {"fits", true},
                             {"time", split->seconds},
                             {"gpus", std::move(devices)}},
                    .text = absl::StrCat(HeadOf(question), "\n", TableText(rows))};
}

absl::StatusOr<CaseAnswer> AnswerKernels(const WorkspaceCase& question) {
  const absl::StatusOr<WorkspaceAnswer> answer = ChooseWorkspaces(question);
  if (absl::IsResourceExhausted(answer.status())) return DoesNotFit(question, answer.status());
  if (!answer.ok()) return answer.status();
  return CaseAnswer{.json = AnswerJson(question, *answer), .text = AnswerText(question, *answer)};
}

// Refuses options that would do nothing.
absl::Status CheckOptions(const WorkspaceOptions& options, const WorkspaceCase& question) {
  const char* given = !options.policy.empty()      ? "--policy"
                      : options.limit->count() > 0 ? "--limit"
                                                   : nullptr;
  if (question.kind != WorkspaceKind::kDevices || given == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      given, ": an option for kernels, and this case splits a batch over devices: remove it"));
}

absl::StatusOr<CaseAnswer> AnswerFor(const WorkspaceOptions& options, WorkspaceCase question) {
  if (absl::Status status = CheckOptions(options, question); !status.ok()) return status;
  if (!options.policy.empty()) question.policy = options.policy;
  if (options.limit->count() > 0) question.limit_bytes = options.limit_bytes;
  return question.kind == WorkspaceKind::kDevices ? AnswerDevices(question)
                                                  : AnswerKernels(question);
}

absl::StatusOr<CaseAnswer> AnswerCase(const WorkspaceOptions& options,
                                      const WorkspaceCase& question) {
  absl::StatusOr<CaseAnswer> answer = AnswerFor(options, question);
  if (answer.ok()) return answer;
  const std::string name = question.name.empty() ? "" : absl::StrCat(question.name, ": ");
  return AboutFile(
      options.file,
      absl::Status(answer.status().code(),
                   absl::StrCat(absl::CHexEscape(name), std::string(answer.status().message()))));
}

absl::StatusOr<std::vector<WorkspaceCase>> CasesOf(const WorkspaceOptions& options) {
  absl::StatusOr<std::vector<WorkspaceCase>> cases = ReadWorkspaceCases(options.file);
  if (!cases.ok() || options.name.empty()) return cases;
  std::vector<std::string> names;
  for (const WorkspaceCase& question : *cases) {
    if (question.name == options.name) return std::vector<WorkspaceCase>{question};
    names.push_back(question.name);
  }
  constexpr std::size_t kMostNames = 10;
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names = text::NearestFirst(options.name, std::move(names));
  names.resize(names.size() - more);
  return absl::NotFoundError(absl::StrCat(
      "--case: no case '", absl::CHexEscape(options.name), "' in ", absl::CHexEscape(options.file),
      ", expected one of ", absl::CHexEscape(absl::StrJoin(names, ", ")),
      more > 0 ? absl::StrCat(" and ", more, " more") : ""));
}

absl::StatusOr<Answer> RunWorkspace(const WorkspaceOptions& options) {
  const absl::StatusOr<std::vector<WorkspaceCase>> cases = CasesOf(options);
  if (!cases.ok()) return cases.status();
  std::vector<CaseAnswer> answers;
  for (const WorkspaceCase& question : *cases) {
    absl::StatusOr<CaseAnswer> answer = AnswerCase(options, question);
    if (!answer.ok()) return answer.status();
    answers.push_back(*std::move(answer));
  }
  Answer all = Answer::kYes;
  Json json = Json::array();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].answer == Answer::kNo) all = Answer::kNo;
    if (options.json) json.push_back(std::move(answers[i].json));
    if (!options.json) std::cout << (i == 0 ? "" : "\n") << answers[i].text;
  }
  if (options.json) PrintJson(json.size() == 1 ? json.front() : Json({{"cases", json}}));
  return all;
}

}  // namespace

Command AddWorkspace(CLI::App& app) {
  auto options = std::make_shared<WorkspaceOptions>();
  CLI::App* workspace = app.add_subcommand(
      "workspace", "Chooses micro-batches and algorithms of kernels under a limit of workspace");
  workspace->group("Training iterations");
  workspace
      ->add_option("FILE", options->file,
                   "Measured kernels: a list of cases, or one (docs/formats/kernel_tables.md)")
      ->required();
  workspace->add_option("--case", options->name, "The case with this name (default: all of them)")
      ->type_name("NAME");
  workspace
      ->add_option("--policy", options->policy,
                   "Micro-batches that may run: undivided, powerOfTwo, all, or numbers such as "
                   "8,16,32 (default: the case's)")
      ->type_name("NAME");
  options->limit = AddSizeOption(
      *workspace, "--limit", options->limit_bytes,
      "The limit of workspace: of each kernel, or of all together (default: the case's)");
  AddJsonOption(*workspace, options->json);
  AddExamples(*workspace,
              {"tidepool workspace examples/kernels/convolutions.json --case divided",
               "tidepool workspace examples/kernels/convolutions.json --case conv2 --limit 64MiB"});
  return {workspace, [options] { return RunWorkspace(*options); }};
}

}  // namespace tidepool::tool

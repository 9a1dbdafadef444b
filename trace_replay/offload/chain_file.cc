// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/chain_file.h"

#include <filesystem>
#include <ostream>
#include <system_error>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/schedule/offload_policy.h"
#include "tidepool/trace/output_file.h"
#include "trace_replay/options.h"

namespace tidepool::tool {

void AddChainFileOptions(CLI::App& app, ChainFileOptions& options) {
  app.add_option(
         "--chain", options.path,
         "Write the chain to this file: the one of FILE, or the one that a policy of chains "
         "sees of a graph; compressed if the name ends in .gz")
      ->type_name("FILE");
  app.add_option("--chain-format", options.format,
                 "Format of the chain: tidepool, or rotor, which ColossalAI has too (default: "
                 "tidepool)")
      ->check(CLI::IsMember({"tidepool", "rotor"}))
      ->type_name("NAME");
}

absl::Status CheckChainFile(const CLI::App& app, const ChainFileOptions& options,
                            const OffloadCommandOptions& point, const std::string& output) {
  if (options.path.empty()) {
    if (app.count("--chain-format") == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("--chain-format: no file for a chain, expected --chain too");
  }
  absl::Status status = CheckJsonOutput(point.json, options.path, "chain");
  if (!status.ok()) return status;
  if (!point.schedule.empty()) {
    return absl::InvalidArgumentError(
        "--chain: no policy sees a chain, expected no --chain with --schedule");
  }
  std::error_code error;
  const bool is_input = std::filesystem::equivalent(point.graph, options.path, error);
  if (!is_input && options.path != output) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--chain: ", absl::CHexEscape(options.path), " is ",
                   is_input ? "the input itself" : "the file of -o", ", expected another file"));
}

absl::Status WriteChainFile(const ChainFileOptions& options, const Chain& chain) {
  if (options.path.empty()) return absl::OkStatus();
  if (options.format != "rotor") return WriteChain(chain, options.path);
  return WriteFile(options.path, [&](std::ostream& out) {
    out << RotorChainJson(chain);
    return absl::OkStatus();
  });
}

absl::Status WriteChainFile(const ChainFileOptions& options, const OffloadCommandOptions& point,
                            const GraphOrFamily& graphs, std::int64_t batch) {
  if (options.path.empty()) return absl::OkStatus();
  const auto* family = std::get_if<GraphFamily>(&graphs);
  const absl::StatusOr<TaskGraph> graph =
      family != nullptr ? GraphAt(*family, batch) : std::get<TaskGraph>(graphs);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<PolicyChoice> choice = PolicyOptionsOf(point, *graph);
  if (!choice.ok()) return choice.status();
  const absl::StatusOr<GraphChain> chain =
      ChainOfGraph(point.policy, *graph, RequestOf(point.policy, *choice));
  if (!chain.ok()) {
    return absl::Status(chain.status().code(),
                        absl::StrCat("--chain: ", std::string(chain.status().message())));
  }
  return WriteChainFile(options, chain->chain);
}

}  // namespace tidepool::tool

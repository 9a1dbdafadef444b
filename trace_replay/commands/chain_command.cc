// SPDX-License-Identifier: Apache-2.0
// The command `chain`: the schedule of a chain, which is in a file or stands for a graph.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/nearest.h"
#include "tidepool/training/offload_policy.h"
#include "trace_replay/offload/chain_answer.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

struct ChainOptions {
  OffloadCommandOptions point;  // of the chain, or of the graph of --from
  std::string from;             // a graph; empty: the chain is in a file
  std::int64_t batch = 0;       // of the graph; 0: its own
  std::string output;           // a file for the chain
  std::string format;           // of that file
  const CLI::App* app = nullptr;
};

absl::Status CheckFiles(const ChainOptions& options, const std::string& input) {
  if (options.point.graph.empty() == options.from.empty()) {
    return absl::InvalidArgumentError(options.from.empty()
                                          ? "no chain, expected CHAIN or --from GRAPH"
                                          : "--from: CHAIN is given too: remove one of the two");
  }
  for (const char* name : {"--batch", "--link"}) {
    if (options.app->count(name) == 0 || !options.from.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": an option of graphs, expected it with --from"));
  }
  if (options.output.empty() && options.app->count("--format") > 0) {
    return absl::InvalidArgumentError("--format: no file for a chain, expected -o too");
  }
  if (absl::Status status = CheckJsonOutput(options.point.json, options.output, "chain");
      !status.ok()) {
    return status;
  }
  std::error_code error;
  if (!std::filesystem::equivalent(input, options.output, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("-o: ", absl::CHexEscape(options.output),
                                                 " is the input itself, expected another file"));
}

absl::Status CheckPolicy(const std::string& policy) {
  const std::vector<std::string> known = ChainPolicyNames();
  if (absl::c_linear_search(known, policy)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("--policy: no chain policy '", absl::CHexEscape(policy),
                                          "', expected one of ",
                                          absl::StrJoin(text::NearestFirst(policy, known), ", ")));
}

// Returns the chain that the policy sees of the graph. `best` sees that of a policy of the paper.
absl::StatusOr<Chain> ChainOf(const ChainOptions& options, const ChainCommandOptions& chain) {
  if (!chain.memory_bytes.has_value()) {
    return absl::InvalidArgumentError("--memory is missing, expected the memory of the device");
  }
  const absl::StatusOr<GraphOrFamily> graphs = ReadGraphFor(options.from, options.batch);
  if (!graphs.ok()) return graphs.status();
  const auto* family = std::get_if<GraphFamily>(&*graphs);
  const absl::StatusOr<TaskGraph> graph =
      family != nullptr ? GraphAt(*family, options.batch) : std::get<TaskGraph>(*graphs);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<PolicyChoice> choice = ChoiceOf(options.point, *graph);
  if (!choice.ok()) return choice.status();
  const std::string policy = chain.policy != "best"     ? chain.policy
                             : chain.choices.recomputes ? "pofo"
                                                        : kDefaultChainPolicy;
  absl::StatusOr<GraphChain> made = ChainOfGraph(policy, *graph, RequestOf(policy, *choice));
  if (!made.ok()) return made.status();
  return std::move(made->chain);
}

absl::StatusOr<Answer> RunChain(const ChainOptions& options) {
  const std::string& input = options.from.empty() ? options.point.graph : options.from;
  if (absl::Status status = CheckFiles(options, input); !status.ok()) return status;
  absl::StatusOr<ChainCommandOptions> chain = ChainOptionsOf(*options.app, options.point);
  if (!chain.ok()) return chain.status();
  chain->path = input;
  chain->output = options.output;
  chain->is_output_rotor = options.format == "rotor";
  if (!options.from.empty()) {
    if (IsChainFile(options.from)) {
      return absl::InvalidArgumentError(absl::StrCat(
          absl::CHexEscape(options.from), ": is a chain, expected a task graph for --from"));
    }
    if (absl::Status status = CheckPolicy(chain->policy); !status.ok()) return status;
    absl::StatusOr<Chain> made = ChainOf(options, *chain);
    if (absl::IsResourceExhausted(made.status())) {
      return PrintChainDoesNotFit(*chain, *chain->memory_bytes,
                                  std::string(made.status().message()));
    }
    if (!made.ok()) return made.status();
    chain->chain = *std::move(made);
  }
  return PrintChainSchedule(*chain);
}

}  // namespace

Command AddChain(CLI::App& app) {
  auto options = std::make_shared<ChainOptions>();
  OffloadCommandOptions& point = options->point;
  CLI::App* chain = app.add_subcommand(
      "chain", "Makes the schedule of a chain of layers, from a file or of a task graph");
  options->app = chain;
  chain->group("Training iterations");
  chain->add_option("CHAIN", point.graph, "A file with a chain, as of Rotor or Beaumont et al.");
  chain->add_option("--from", options->from, "Take the chain that stands for this task graph")
      ->type_name("GRAPH");
  AddWholeOption(*chain, "--batch", options->batch, {.least = 1, .most = INT64_MAX},
                 "Samples of an iteration, for a graph at any batch");
  AddSizeOption(*chain, "--memory", point.machine.memory_bytes,
                "Memory of the device (default: the chain's); a graph needs the option");
  chain
      ->add_option("--policy", point.policy,
                   absl::StrCat("One of ", absl::StrJoin(ChainPolicyNames(), ", ")))
      ->type_name("NAME")
      ->default_str(kDefaultChainPolicy);
  AddChainSearchOptions(*chain, point);
  chain
      ->add_option("-o,--output", options->output,
                   "Write the chain to this file; compressed if the name ends in .gz")
      ->type_name("FILE");
  chain
      ->add_option("--format", options->format,
                   "Format of that file: tidepool, or rotor, which ColossalAI has too")
      ->check(CLI::IsMember({"tidepool", "rotor"}))
      ->default_str("tidepool")
      ->type_name("NAME");
  AddJsonOption(*chain, point.json);
  AddExamples(*chain, {"tidepool chain examples/chains/resnet-18.json --policy dynprog",
                       "tidepool model alexnet --batch 32 -o alexnet.json",
                       ("tidepool chain --from alexnet.json --memory 1GiB --policy pofo -o "
                        "alexnet.chain.json --format rotor")});
  return {chain, [options] { return RunChain(*options); }};
}

}  // namespace tidepool::tool

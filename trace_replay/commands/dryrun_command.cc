// SPDX-License-Identifier: Apache-2.0
// The command `dryrun`: the memory of a program on a GPU that is not there. The program and
// the answer are the work of the Python package tidepool_dryrun, which this command becomes.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/gpu_cards.h"
#include "trace_replay/options.h"
#include "trace_replay/quantity.h"

namespace tidepool::tool {
namespace {

constexpr int kMostRanks = 1 << 20;

struct DryRunOptions {
  std::string gpu = "h100";
  std::optional<std::int64_t> memory_bytes;  // none: that of the GPU
  std::optional<int> devices;                // none: one, or those of the ranks of a node
  std::string world;                         // empty: all ranks of the program run
  std::optional<int> rank;
  std::string ranks;
  std::int64_t steps = 3;
  double time_limit_seconds = 300;
  std::vector<std::string> fit;
  int jobs = 1;
  bool skips_initialization = false;
  double density = 0.5;
  std::optional<std::int64_t> cudnn_workspace_bytes;  // none: the shapes decide
  std::string snapshot;
  std::string report;
  std::string graph;
  std::string front;
  std::string prices;
  std::string by;
  std::vector<std::string> compare;  // none, or the names of two environments
  bool json = false;
  std::vector<std::string> command;
};

namespace fs = std::filesystem;

// The place of the folder below a prefix of an installation, and below an installed Python package.
constexpr const char* kInstalledFolder = "lib/tidepool/dryrun";

// Returns the places of Python packages below a prefix.
std::vector<fs::path> PackageFolders(const fs::path& prefix) {
  std::vector<fs::path> folders;
  std::error_code unknown;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", unknown)) {
    if (!absl::StartsWith(entry.path().filename().string(), "python3")) continue;
    folders.push_back(entry.path() / "site-packages");
    folders.push_back(entry.path() / "dist-packages");
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Finds the folder of the Python sources and of the stand-in for CUDA: of the build tree or the
// prefix of the program, or of the Python package that came with it.
std::optional<fs::path> FindFolder(const fs::path& program) {
  const fs::path prefix = program.parent_path().parent_path();
  std::vector<fs::path> places = {prefix / "dryrun", prefix / kInstalledFolder};
  for (const fs::path& packages : PackageFolders(prefix)) {
    places.push_back(packages / "tidepool" / kInstalledFolder);
  }
  std::error_code unknown;
  for (const fs::path& place : places) {
    if (fs::exists(place / "tidepool_dryrun" / "__main__.py", unknown)) return place;
  }
  return std::nullopt;
}

// Returns a text as JSON has it for the package: a character for each byte. Names of files are any
// bytes, of which JSON has no text.
std::string BytesText(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80) {
      text += byte;
    } else {
      text += static_cast<char>(0xC0 | value >> 6);
      text += static_cast<char>(0x80 | (value & 0x3F));
    }
  }
  return text;
}

nlohmann::json OptionsAsJson(const DryRunOptions& options, const fs::path& program,
                             const fs::path& folder) {
  nlohmann::json json = {{"gpu", BytesText(options.gpu)},
                         {"steps", options.steps},
                         {"time_limit_seconds", options.time_limit_seconds},
                         {"jobs", options.jobs},
                         {"initializes", !options.skips_initialization},
                         {"density", options.density},
                         {"snapshot", BytesText(options.snapshot)},
                         {"report", BytesText(options.report)},
                         {"graph", BytesText(options.graph)},
                         {"front", BytesText(options.front)},
                         {"prices", BytesText(options.prices)},
                         {"by", options.by},
                         {"json", options.json},
                         {"tool", BytesText(program.string())},
                         {"stand_in", BytesText((folder / "cudart_host").string())}};
  if (options.devices.has_value()) json["devices"] = *options.devices;
  if (!options.world.empty()) json["world"] = BytesText(options.world);
  if (options.rank.has_value()) json["ranks"] = std::to_string(*options.rank);
  if (!options.ranks.empty()) json["ranks"] = BytesText(options.ranks);
  if (options.memory_bytes.has_value()) json["memory_bytes"] = *options.memory_bytes;
  for (const std::string& values : options.fit) json["fit"].push_back(BytesText(values));
  for (const std::string& name : options.compare) json["compare"].push_back(BytesText(name));
  if (options.cudnn_workspace_bytes.has_value()) {
    json["cudnn_workspace_bytes"] = *options.cudnn_workspace_bytes;
  }
  return json;
}

// Replaces this process by the package, with the options as JSON and the words of the command as
// its arguments. Returns only where that fails.
absl::Status BecomePackage(const fs::path& folder, const std::string& json,
                           const std::vector<std::string>& command) {
  std::vector<std::string> words = {"python3", (folder / "tidepool_dryrun").string(), json};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  if (errno == E2BIG) {
    return absl::ErrnoToStatus(errno, "the command is too long for this system");
  }
  return absl::ErrnoToStatus(errno, "python3 cannot be started, expected Python 3.9 or newer");
}

absl::StatusOr<Answer> RunDryRun(const DryRunOptions& options) {
  if (options.command.empty()) {
    return absl::InvalidArgumentError(
        "no command, expected one after --: tidepool dryrun -- python train.py");
  }
  if (!options.prices.empty()) {  // before the run, which takes long
    if (absl::Status status = ReadPrices(options.prices).status(); !status.ok()) return status;
  }
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const std::optional<fs::path> folder = FindFolder(program);
  if (!folder.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.string(), " has no ", kInstalledFolder,
                     " beside it, expected a whole installation or a build tree"));
  }
  if (!fs::exists(*folder / "cudart_host", unknown)) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder->string(),
                     " has no stand-in for the CUDA runtime, expected a build with the CUDA "
                     "Toolkit 13"));
  }
  return BecomePackage(*folder, OptionsAsJson(options, program, *folder).dump(), options.command);
}

std::string MoreThanNoMemory(const std::string& text) {
  return ParseSize(text).value_or(1) > 0 ? "" : "'0', expected more than 0 bytes";
}

}  // namespace

Command AddDryRun(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "dryrun", "Runs a program without a GPU, and answers how much memory it needs on one");
  command->group("Programs");
  const auto options = std::make_shared<DryRunOptions>();
  command
      ->add_option("--gpu", options->gpu,
                   "The GPU to assume: h100, a100-40, rtx-4090, ... (default: h100)")
      ->type_name("NAME");
  AddSizeOption(*command, "--memory", options->memory_bytes,
                "The memory of each GPU, in place of the memory of --gpu")
      ->check(MoreThanNoMemory, "");
  AddWholeOption(*command, "--devices", options->devices, {1, 64},
                 "How many GPUs there are; with --world: on each node");
  command
      ->add_option("--world", options->world,
                   "Run one rank of a job of N ranks, or several, without the processes of the "
                   "others. N may be a product of names of --fit, such as tensor*data")
      ->type_name("N");
  CLI::Option* const rank = AddWholeOption(*command, "--rank", options->rank, {0, kMostRanks - 1},
                                           "The rank that runs (default: 0)");
  command
      ->add_option("--ranks", options->ranks,
                   "The ranks that run, with commas between them, or `representative`: the first, "
                   "the last and one of each pipeline stage")
      ->type_name("RANK,...")
      ->excludes(rank);
  AddWholeOption(*command, "--steps", options->steps, {0, std::numeric_limits<std::int64_t>::max()},
                 "Stop after N steps of optimizers; 0: at the end of the program");
  AddSecondsOption(*command, "--time-limit", options->time_limit_seconds,
                   "Stop after this time, and answer with the memory so far (default: 5m)");
  command
      ->add_option("--fit", options->fit,
                   "NAME=LEAST..MOST: find the largest number in place of {NAME} in the command "
                   "with which the program fits. NAME=VALUE,VALUE: try each value, and find the "
                   "fewest GPUs; may be given for several names")
      ->type_name("VALUES")
      ->allow_extra_args(false);
  AddWholeOption(*command, "--jobs", options->jobs, {1, 1024},
                 "How many dry runs at a time, where --fit tries values");
  command->add_flag("--no-init", options->skips_initialization,
                    "Skip the functions of torch.nn.init: they only write numbers");
  AddNumberOption(*command, "--density", options->density, {0, 1},
                  "The share of elements that torch.nonzero, torch.unique and boolean masks are "
                  "assumed to keep");
  AddSizeOption(*command, "--cudnn-workspace", options->cudnn_workspace_bytes,
                "The workspace of each convolution of cuDNN (default: as its shape decides)");
  command
      ->add_option("--snapshot", options->snapshot,
                   "Write PyTorch's memory snapshot to this file, which other commands read")
      ->type_name("FILE");
  command->add_option("--report", options->report, "Write a report of the memory to this file")
      ->type_name("FILE");
  command
      ->add_option("--graph", options->graph,
                   "Write the task graph of the last complete training step to this file, for "
                   "`tidepool schedule`; compressed if the name ends in .gz")
      ->type_name("FILE");
  command
      ->add_option(
          "--front", options->front,
          "Draw the time of a training step in less memory to this SVG file, and list the "
          "GPUs that can train it, with the slowdown where memory is short; with values of --fit, "
          "draw the memory of the layouts")
      ->type_name("FILE");
  command
      ->add_option(
          "--prices", options->prices,
          "A file with a line `GPU,PRICE` for each GPU, its price of an hour: --front then "
          "names the GPU on which a step costs least")
      ->type_name("FILE");
  command
      ->add_option("--by", options->by,
                   "Print a table of the peak by line, with the lines of libraries below those of "
                   "the program, or by module")
      ->type_name("KIND")
      ->check(CLI::IsMember({"line", "module"}));
  command
      ->add_option(
          "--compare", options->compare,
          "Run the program in two environments of Python, and list the lines that hold more "
          "memory in the second. Each is "
          "`pip:PACKAGE==VERSION ...`, an interpreter or the folder of an environment")
      ->type_name("ENVIRONMENT")
      ->expected(2);
  AddJsonOption(*command, options->json);
  command->add_option("COMMAND...", options->command, "The program and its arguments, after --");
  AddExamples(
      *command,
      {"tidepool dryrun -- python train.py --batch-size 48",
       "tidepool dryrun --gpu a100-40 --report memory.html -- python train.py",
       "tidepool dryrun --world 1024 --rank 3 -- python train.py",
       "tidepool dryrun --graph step.json.gz -- python train.py",
       "tidepool dryrun --compare pip:torch==2.9.1 pip:torch==2.10.0 -- python train.py",
       "tidepool dryrun --fit batch=1..512 -- python train.py --batch-size {batch}",
       "tidepool dryrun --fit tensor=1,2,4,8 --fit data=1,2,4 --world tensor*data -- python "
       "train.py --tensor-parallel {tensor}"});
  return {command, [options] { return RunDryRun(*options); }};
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// The command `dryrun`: the memory of a PyTorch program on a GPU that is not there. The program and
// the answer are the work of the Python package tidepool_dryrun, which this command becomes.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

struct DryRunOptions {
  std::string gpu = "h100";
  std::int64_t memory_bytes = 0;  // 0: that of the GPU
  int devices = 1;
  std::int64_t steps = 3;
  double time_limit_seconds = 300;
  std::string fit;
  bool skips_initialization = false;
  double density = 0.5;
  std::string snapshot;
  std::string report;
  bool json = false;
  std::vector<std::string> command;
};

namespace fs = std::filesystem;

// Returns the folder of the Python sources and of the stand-in for the CUDA runtime, which a build
// tree has beside the folder of the program.
fs::path DryRunFolder(const fs::path& program) {
  return program.parent_path().parent_path() / "dryrun";
}

nlohmann::json OrdersFor(const DryRunOptions& options, const fs::path& program,
                         const fs::path& folder) {
  nlohmann::json orders = {{"gpu", options.gpu},
                           {"memory_bytes", nullptr},
                           {"devices", options.devices},
                           {"steps", options.steps},
                           {"time_limit_seconds", options.time_limit_seconds},
                           {"fit", options.fit},
                           {"initializes", !options.skips_initialization},
                           {"density", options.density},
                           {"snapshot", options.snapshot},
                           {"report", options.report},
                           {"json", options.json},
                           {"tool", program.string()},
                           {"stand_in", (folder / "cudart_host").string()},
                           {"command", options.command}};
  if (options.memory_bytes > 0) orders["memory_bytes"] = options.memory_bytes;
  return orders;
}

// Replaces this process by the package. Returns only where that fails.
absl::Status BecomePackage(const fs::path& folder, const std::string& orders) {
  std::vector<std::string> words = {"python3", (folder / "tidepool_dryrun").string(), orders};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  return absl::ErrnoToStatus(errno, "python3 cannot be started, expected Python 3.9 or newer");
}

absl::StatusOr<Answer> RunDryRun(const DryRunOptions& options) {
  if (options.command.empty()) {
    return absl::InvalidArgumentError(
        "no command, expected one after --: tidepool dryrun -- python train.py");
  }
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path folder = DryRunFolder(program);
  if (!fs::exists(folder / "cudart_host", unknown)) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.string(),
                     " has no stand-in for the CUDA runtime beside it, expected a "
                     "build with the CUDA Toolkit"));
  }
  return BecomePackage(folder, OrdersFor(options, program, folder).dump());
}

}  // namespace

Command AddDryRun(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "dryrun",
      "Runs a PyTorch program without a GPU, and answers how much memory it needs on one");
  command->group("Programs");
  const auto options = std::make_shared<DryRunOptions>();
  command
      ->add_option("--gpu", options->gpu,
                   "The GPU to assume: h100, a100-40, rtx-4090, ... (default: h100)")
      ->type_name("NAME");
  AddSizeOption(*command, "--memory", options->memory_bytes,
                "The memory of each GPU, instead of that of the model");
  AddWholeOption(*command, "--devices", options->devices, {1, 64}, "How many GPUs there are");
  AddWholeOption(*command, "--steps", options->steps, {0, std::numeric_limits<std::int64_t>::max()},
                 "Stop after so many steps of optimizers; 0: at the end of the program");
  AddSecondsOption(*command, "--time-limit", options->time_limit_seconds,
                   "Stop after this time with the memory so far (default: 300s)");
  command
      ->add_option("--fit", options->fit,
                   "NAME=LEAST..MOST: find the largest number in place of {NAME} in the command "
                   "with which the program fits")
      ->type_name("RANGE");
  command->add_flag("--no-init", options->skips_initialization,
                    "Skip the functions of torch.nn.init: they only write numbers");
  AddNumberOption(*command, "--density", options->density, {0, 1},
                  "The share of elements that nonzero, masks and unique are assumed to keep "
                  "(default: 0.5)");
  command
      ->add_option("--snapshot", options->snapshot,
                   "Keep PyTorch's memory snapshot in this file, for every other command")
      ->type_name("FILE");
  command->add_option("--report", options->report, "Write a report of the memory into this file")
      ->type_name("FILE");
  AddJsonOption(*command, options->json);
  command->add_option("command", options->command, "The program and its arguments, after --")
      ->type_name("COMMAND...");
  AddExamples(*command,
              {"tidepool dryrun -- python train.py --batch-size 48",
               "tidepool dryrun --gpu a100-40 --report memory.html -- python train.py",
               "tidepool dryrun --fit batch=1..512 -- python train.py --batch-size {batch}"});
  return {command, [options] { return RunDryRun(*options); }};
}

}  // namespace tidepool::tool

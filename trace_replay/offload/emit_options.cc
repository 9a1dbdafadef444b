// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/emit_options.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "tidepool/schedule/emit_program.h"
#include "tidepool/trace/output_file.h"
#include "trace_replay/offload/schedule_source.h"

namespace tidepool::tool {

void AddEmitOptions(CLI::App& app, EmitCommandOptions& options) {
  app.add_option("--emit", options.language,
                 "Write a program instead of the schedule: cpp, a C++ program that trains with "
                 "cuDNN and cuBLAS on one device")
      ->type_name("LANGUAGE")
      ->check(CLI::IsMember({"cpp"}))
      ->group("Output");
  app.add_flag("--callbacks", options.callbacks,
               "With --emit, let the program call your own functions in the place of kernels")
      ->group("Output");
}

absl::Status CheckEmitOptions(const EmitCommandOptions& options, const OffloadCommandOptions& point,
                              const std::string& output) {
  if (!options.language.empty()) {
    if (!output.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--emit: no file for the program, expected -o FILE");
  }
  if (options.callbacks) {
    return absl::InvalidArgumentError("--callbacks: an option of programs, expected --emit cpp");
  }
  if (point.schedule.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--schedule: the schedule is made already, expected --emit cpp, or the command simulate");
}

absl::Status WriteProgram(const EmitCommandOptions& options, ScheduledGraph& scheduled,
                          const std::string& path) {
  if (absl::Status status = FixPages(scheduled); !status.ok()) return status;
  const absl::StatusOr<std::string> program =
      EmitProgram(scheduled.graphs, *scheduled.schedule, MachineFor(scheduled),
                  {.callbacks = options.callbacks});
  if (!program.ok()) {
    return absl::Status(program.status().code(),
                        absl::StrCat("--emit: ", std::string(program.status().message())));
  }
  return WriteFile(path, [&](std::ostream& out) {
    out << *program;
    return absl::OkStatus();
  });
}

}  // namespace tidepool::tool

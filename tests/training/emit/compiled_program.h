// SPDX-License-Identifier: Apache-2.0
// Schedules as programs: emitted, compiled, and run on the stand-ins for CUDA, cuDNN and cuBLAS.
#ifndef TIDEPOOL_TESTS_TRAINING_EMIT_COMPILED_PROGRAM_H_
#define TIDEPOOL_TESTS_TRAINING_EMIT_COMPILED_PROGRAM_H_

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tidepool/training/emit_program.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::testing {

// Makes a schedule with fixed addresses on one device. Without one the test ends: value() throws
// the error.
inline MadeSchedule MakeFixed(const GraphFamily& family, const std::string& policy,
                              std::int64_t batch, std::int64_t memory_bytes,
                              std::int64_t sub_batch = kWholeBatch) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.batch = batch;
  request.sub_batch = sub_batch;
  request.memory = ScheduleMemory::kFixed;
  return MakeSchedule(policy, family, request).value();
}

struct ProgramResult {
  int status = -1;
  std::string output;  // of both streams
};

inline ProgramResult RunCommand(const std::string& command) {
  ProgramResult result;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char part[4096];
  while (std::fgets(part, sizeof part, pipe) != nullptr) result.output += part;
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

// A folder with programs, removed at the end.
class ProgramFolder {
 public:
  ProgramFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "emit_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~ProgramFolder() { std::filesystem::remove_all(folder_); }
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  // Compiles a program with more options, and returns its path.
  std::string Compile(const std::string& text, const std::string& compile_options = "") {
    const std::string path = folder_ + "/program" + std::to_string(++programs_);
    std::ofstream(path + ".cc") << text;
    const ProgramResult compiled =
        RunCommand(std::string(TIDEPOOL_COMPILE) + " " + compile_options + " -o " + path + " " +
                   path + ".cc " + TIDEPOOL_LINK);
    EXPECT_EQ(compiled.status, 0) << compiled.output;
    return path;
  }

  // Emits and compiles a schedule, and returns the path of the program.
  std::string Compile(const MadeSchedule& made, const EmitOptions& options = {},
                      const std::string& functions = "") {
    const absl::StatusOr<std::string> text =
        EmitProgram(made.graphs, made.schedule, made.machine, options);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? Compile(*text + functions) : "false";
  }

 private:
  std::string folder_;
  int programs_ = 0;
};

// Returns the losses of a program's output.
inline std::vector<double> LossesOf(const std::string& output) {
  std::vector<double> losses;
  std::istringstream lines(output);
  std::string word;
  while (lines >> word) {
    if (word != "loss") continue;
    losses.push_back(0);
    lines >> losses.back();
  }
  return losses;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EMIT_COMPILED_PROGRAM_H_

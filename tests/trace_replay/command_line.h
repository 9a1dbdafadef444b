// SPDX-License-Identifier: Apache-2.0
// Runs the command line in a folder of its own, and returns its outputs and exit status.
#ifndef TIDEPOOL_TESTS_TRACE_REPLAY_COMMAND_LINE_H_
#define TIDEPOOL_TESTS_TRACE_REPLAY_COMMAND_LINE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shared_files.h"

namespace tidepool {

// Returns an array. One element in braces alone would be taken for a copy.
inline nlohmann::json List(const std::vector<nlohmann::json>& elements) { return elements; }

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

class CommandLine : public ::testing::Test {
 protected:
  CommandLine()
      : folder_(std::filesystem::temp_directory_path() / ("tidepool-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~CommandLine() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }

  Outcome Run(const std::vector<std::string>& arguments) { return End(Start(arguments)); }

  // Sends a signal to a command as soon as it would catch it, and returns its answer. The status
  // must be 0.
  nlohmann::json InterruptedJson(std::vector<std::string> arguments, int signal = SIGINT) {
    arguments.push_back("--json");
    const pid_t child = Start(arguments);
    while (!Catches(child, signal)) std::this_thread::yield();
    kill(child, signal);
    const Outcome outcome = End(child);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }

  // Runs a command that must end with `status`, and returns its output: as text, or with --json.
  std::string Text(const std::vector<std::string>& arguments, int status = 0) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return outcome.out;
  }
  nlohmann::json Json(std::vector<std::string> arguments, int status = 0) {
    arguments.push_back("--json");
    return nlohmann::json::parse(Text(arguments, status));
  }

  // Runs a command that must fail, and returns its error: status 1, no output, one line of error.
  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.out, ::testing::IsEmpty());
    EXPECT_THAT(outcome.err, ::testing::StartsWith("tidepool: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    // The last part is the values that are expected, or the cure.
    EXPECT_THAT(outcome.err, ::testing::ContainsRegex(
                                 "expected|: (remove|give|leave|use|paste) |; use |, or give "));
    return outcome.err;
  }

  std::filesystem::path folder_;

 private:
  pid_t Start(const std::vector<std::string>& arguments) {
    const pid_t child = fork();
    if (child != 0) return child;
    dup2(open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::vector<char*> argv = {const_cast<char*>("tidepool")};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(TIDEPOOL_TOOL, argv.data());
    _exit(127);
  }

  Outcome End(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, testing::Contents(folder_ / "out"),
            testing::Contents(folder_ / "err")};
  }

  // Whether the child would catch the signal, or has ended.
  static bool Catches(pid_t child, int signal) {
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("State:\tZ")) return true;
      if (!line.starts_with("SigCgt:")) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
    }
    return false;
  }
};

// The example of vDNN++ section IV-B, in units of 512 bytes.
inline constexpr char kPaper[] =
    "op,id,size,hint\na,1,2560,\na,2,1024,\na,3,512,\nf,2,,\na,4,512,\nf,1,,\nf,3,,\na,5,4096,\n";

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_TRACE_REPLAY_COMMAND_LINE_H_

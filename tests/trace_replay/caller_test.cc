// SPDX-License-Identifier: Apache-2.0
// Commands that a program runs in its own process.
#include "trace_replay/caller.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/temporary_files.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::tool {
namespace {

constexpr char kTrace[] = "op,id,size,hint\na,1,1000,\na,2,3000,\nf,1,,\na,3,500,\n";

std::shared_ptr<const Trace> TraceInMemory() {
  return std::make_shared<const Trace>(*ParseTrace(kTrace, "memory.csv"));
}

TEST(CallerTest, AnswersAboutATraceInMemory) {
  std::string json;
  const Caller caller = {.traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
  const auto answer = RunFor(caller, {"size", "memory.csv", "--policy", "best-fit", "--json"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, Answer::kYes);
  EXPECT_EQ(nlohmann::json::parse(json)["trace"]["allocations"], 3);
  EXPECT_EQ(CurrentCaller(), nullptr);
}

TEST(CallerTest, ReadsOtherDevicesFromTheFile) {
  std::string json;
  const Caller caller = {.traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
  const auto answer = RunFor(caller, {"info", "memory.csv", "--trace-device", "1", "--json"});
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(json, "");
}

TEST(CallerTest, AnswersNo) {
  std::string json;
  const Caller caller = {.traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
  EXPECT_EQ(*RunFor(caller, {"size", "memory.csv", "--fits", "1", "--json"}), Answer::kNo);
}

TEST(CallerTest, ErrorsAreTheLineOfTheProgram) {
  std::string json;
  const Caller caller = {.json = &json};
  EXPECT_EQ(RunFor(caller, {"size", "missing\x1b.csv"}).status().message().find("missing"), 0);
  EXPECT_EQ(RunFor(caller, {"sizes"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunFor(caller, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunFor(caller, {"size", "--help"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CallerTest, TellsProgress) {
  std::vector<std::pair<std::string, double>> shown;
  std::string json;
  const Caller caller = {.show_progress = [&](const std::string& text,
                                              double part) { shown.emplace_back(text, part); },
                         .traces = {{"memory.csv", TraceInMemory()}},
                         .json = &json};
  ASSERT_TRUE(RunFor(caller, {"size", "memory.csv", "--policy", "best-fit", "--policy", "first-fit",
                              "--json"})
                  .ok());
  ASSERT_EQ(shown.size(), 2);
  EXPECT_EQ(shown[1].first, "policy first-fit, 2 of 2");
  EXPECT_EQ(shown[1].second, 0.5);
}

TEST(CallerTest, AStopEndsSizesAndSweeps) {
  std::stop_source stop;
  stop.request_stop();
  std::string json;
  const Caller caller = {
      .stop = stop.get_token(), .traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
  EXPECT_TRUE(absl::IsCancelled(RunFor(caller, {"size", "memory.csv", "--json"}).status()));
  EXPECT_TRUE(absl::IsCancelled(
      RunFor(caller, {"simulate", "alexnet", "--batch", "1,2", "--memory", "1GiB", "--json"})
          .status()));
}

TEST(CallerTest, AStopEndsReadingAndReports) {
  const std::string path = TemporaryFile("stopped.csv");
  std::ofstream(path) << kTrace;
  std::stop_source stop;
  std::string json;
  const Caller caller = {
      .stop = stop.get_token(), .traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
  EXPECT_TRUE(RunFor(caller, {"info", path, "--json"}).ok());
  stop.request_stop();
  for (const char* command : {"info", "size", "plan"}) {
    EXPECT_TRUE(absl::IsCancelled(RunFor(caller, {command, path, "--json"}).status())) << command;
  }
  const std::string page = TemporaryFile("stopped.html");
  EXPECT_TRUE(
      absl::IsCancelled(RunFor(caller, {"report", "memory.csv", "-o", page, "--json"}).status()));
  EXPECT_FALSE(std::filesystem::exists(page));
  EXPECT_TRUE(absl::IsCancelled(
      RunFor(caller, {"replay", "memory.csv", "--pool", "1MiB", "--json"}).status()));
  EXPECT_TRUE(absl::IsCancelled(
      RunFor(caller, {"replay", "memory.csv", "--pool", "1MiB", "--device", "host", "--json"})
          .status()));
}

TEST(CallerTest, CommandsShareATraceInMemory) {
  const std::shared_ptr<const Trace> trace = TraceInMemory();
  ASSERT_EQ(trace.use_count(), 1);
  std::string json;
  Caller caller = {.traces = {{"memory.csv", trace}}, .json = &json};
  // Progress is told while the command has the trace: by the test, by the caller, by the command.
  long owners = 0;
  caller.show_progress = [&](const std::string&, double) { owners = trace.use_count(); };
  ASSERT_TRUE(RunFor(caller, {"size", "memory.csv", "--policy", "best-fit", "--json"}).ok());
  EXPECT_EQ(owners, 3);
}

TEST(CallerTest, ThreadsHaveCallersOfTheirOwn) {
  std::vector<std::string> answers(4);
  std::vector<std::thread> threads;
  for (std::string& json : answers) {
    threads.emplace_back([&json] {
      const Caller caller = {.traces = {{"memory.csv", TraceInMemory()}}, .json = &json};
      EXPECT_TRUE(RunFor(caller, {"info", "memory.csv", "--json"}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& json : answers) EXPECT_EQ(json, answers.front());
  EXPECT_NE(answers.front(), "");
}

}  // namespace
}  // namespace tidepool::tool

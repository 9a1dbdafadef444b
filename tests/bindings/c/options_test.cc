// SPDX-License-Identifier: Apache-2.0
// Option strings: how they are parsed, and their errors.
#include <gmock/gmock.h>

#include <filesystem>

#include "bindings/support/option_string.h"
#include "tests/bindings/c/fixture.h"

namespace tidepool {
namespace {

using bindings::ParseOptions;
using bindings::Settings;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Settings Parsed(const std::string& text) {
  const absl::StatusOr<Settings> settings = ParseOptions(text);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return settings.value_or(Settings{});
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Settings> settings = ParseOptions(text);
  EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(settings.status().message());
}

TEST(OptionStringTest, ReadsEveryOption) {
  const Settings settings = Parsed(
      "placement=planned,budget=3GiB;memory=virtual\ngrowth=0.25, remap = 1 ,wait=1500ms,"
      "trace=/tmp/a=b;statistics=1,errors=1,device=cuda:2,device_memory=64MiB,initial=1MiB,"
      "alignment=256,pinned=2MiB,pinned_numa=1,shared_budget=/dev/shm/a,"
      "plan=\"a,b;c.csv\",exact=1,recording=1,nvtx=off,\n");
  EXPECT_EQ(settings.placement, "planned");
  EXPECT_EQ(settings.budget_bytes, std::int64_t{3} << 30);
  EXPECT_EQ(settings.has_virtual_memory, true);
  EXPECT_EQ(settings.growth, 0.25);
  EXPECT_TRUE(settings.remaps && settings.statistics && settings.errors);
  EXPECT_EQ(settings.wait, absl::Milliseconds(1500));
  EXPECT_EQ(settings.trace, "/tmp/a=b");
  EXPECT_EQ(settings.device, bindings::DeviceKind::kCuda);
  EXPECT_EQ(settings.ordinal, 2);
  EXPECT_EQ(settings.device_memory_bytes, 64 << 20);
  EXPECT_EQ(settings.initial_bytes, 1 << 20);
  EXPECT_EQ(settings.alignment, 256);
  EXPECT_EQ(settings.pinned_bytes, 2 << 20);
  EXPECT_EQ(settings.pinned_numa, 1);
  EXPECT_EQ(settings.plan, "a,b;c.csv");
  EXPECT_EQ(settings.shared_budget, "/dev/shm/a");
  EXPECT_TRUE(settings.is_exact && settings.is_recording);
  EXPECT_FALSE(settings.uses_nvtx);
}

TEST(OptionStringTest, HasDefaults) {
  for (const std::string text : {"", " ", ",;\n"}) {
    const Settings settings = Parsed(text);
    EXPECT_EQ(settings.placement, "best-fit");
    EXPECT_EQ(settings.device, bindings::DeviceKind::kAny);
    EXPECT_EQ(settings.initial_bytes, 0);
    EXPECT_FALSE(settings.is_recording);
    EXPECT_TRUE(settings.uses_nvtx);
  }
  EXPECT_EQ(Parsed("plan=x").placement, "planned");
  EXPECT_TRUE(Parsed("trace=x").is_recording);
  EXPECT_TRUE(Parsed("nvtx=auto").uses_nvtx);
  EXPECT_EQ(Parsed("initial=0").initial_bytes, 0);
  EXPECT_FALSE(Parsed("device=cuda").ordinal.has_value());
}

TEST(OptionStringTest, TakesOptionsOfTheVariableInThePlaceOfTheProgram) {
  const auto settings = ParseOptions("device=host,budget=80%,initial=1MiB,placement=first-fit",
                                     "budget=3GiB,initial=0;remap=1");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->budget_bytes, std::int64_t{3} << 30);
  EXPECT_FALSE(settings->budget_part.has_value());
  EXPECT_EQ(settings->initial_bytes, 0);
  EXPECT_EQ(settings->placement, "first-fit");
  EXPECT_TRUE(settings->remaps);
  EXPECT_EQ(ParseOptions("budget=3GiB", "budget=50%")->budget_bytes, std::nullopt);
  EXPECT_TRUE(ParseOptions("", "trace=x")->is_recording);
}

TEST(OptionStringTest, TellsThatTheVariableIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"bugdet=1GiB", "TIDEPOOL_OPTIONS: no option 'bugdet', expected one of budget, "},
      {"budget=1GB", "TIDEPOOL_OPTIONS: option 'budget' is '1GB', expected bytes"},
      {"budget=1GiB,budget=2GiB", "TIDEPOOL_OPTIONS: option 'budget' is given twice"},
      {"device=cuda:1", "TIDEPOOL_OPTIONS: option 'device' is the program's, expected another one"},
      {"streams=stay", "TIDEPOOL_OPTIONS: option 'streams' is the program's"},
      {"placement=best-fit",
       "TIDEPOOL_OPTIONS: option 'placement' is 'best-fit' and option 'plan'"},
  };
  for (const auto& [variable, error] : cases) {
    const auto settings = ParseOptions("plan=x.csv", variable);
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(settings.status().message()), StartsWith(error));
  }
  EXPECT_THAT(std::string(ParseOptions("budget=1GB", "budget=1GiB").status().message()),
              StartsWith("option 'budget'"));
  EXPECT_THAT(std::string(ParseOptions("remap=1,memory=segments", "wait=1s").status().message()),
              StartsWith("option 'remap'"));
}

TEST(OptionStringTest, NamesTheNearestKeyFirst) {
  EXPECT_THAT(ErrorOf("bugdet=8GiB"), StartsWith("no option 'bugdet', expected one of budget, "));
  EXPECT_THAT(ErrorOf("Placement=x"),
              StartsWith("no option 'Placement', expected one of placement"));
  EXPECT_THAT(ErrorOf("=x"), StartsWith("no option ''"));
}

TEST(OptionStringTest, RefusesMalformedValues) {
  for (const std::string text : {"placement=worst-fit",
                                 "budget=0",
                                 "budget=8GB",
                                 "budget=101%",
                                 "memory=fast",
                                 "growth=2",
                                 "remap=yes",
                                 "wait=5",
                                 "statistics=true",
                                 "errors=on",
                                 "device=gpu",
                                 "device=cuda:",
                                 "device=cuda:x",
                                 "device=cuda:-1",
                                 "device=cuda:99999999999",
                                 "device=host:0",
                                 "device_memory=0",
                                 "initial=-1",
                                 "alignment=none",
                                 "pinned_numa=-1",
                                 "pinned_numa=99999999999",
                                 "exact=2",
                                 "recording=maybe",
                                 "nvtx=on"}) {
    const std::string key = text.substr(0, text.find('='));
    EXPECT_THAT(ErrorOf(text), StartsWith("option '" + key + "' is '" +
                                          text.substr(key.size() + 1) + "', expected "));
  }
  EXPECT_THAT(ErrorOf("budget"), HasSubstr("has no value, expected key=value"));
  EXPECT_THAT(ErrorOf("budget,remap=1"), HasSubstr("option 'budget' has no value"));
  EXPECT_THAT(ErrorOf("trace="), HasSubstr("option 'trace' is '', expected "));
  EXPECT_THAT(ErrorOf("trace=\"a"), HasSubstr("has no closing quote"));
  EXPECT_THAT(ErrorOf("trace=\"a\"b,remap=1"), HasSubstr("'b' after the closing quote"));
  EXPECT_THAT(ErrorOf("remap=1,remap=1"), HasSubstr("option 'remap' is given twice"));
}

TEST(OptionStringTest, RefusesContradictions) {
  EXPECT_THAT(ErrorOf("memory=segments,remap=1"), HasSubstr("expected memory=virtual"));
  EXPECT_THAT(ErrorOf("plan=x,placement=best-fit"), HasSubstr("expected placement=planned"));
}

TEST(OptionStringTest, SurvivesAMegabyte) {
  const std::string megabyte(1 << 20, 'x');
  for (const std::string& text :
       {megabyte, megabyte + "=1", "budget=" + megabyte, "trace=\"" + megabyte,
        "trace=\"a\"" + megabyte, "trace=" + megabyte + ",bugdet=1", std::string(1 << 20, '=')}) {
    const std::string error = ErrorOf(text);
    EXPECT_LT(error.size(), 1000U);
    EXPECT_THAT(error, Not(HasSubstr("\n")));
  }
  EXPECT_THAT(ErrorOf("budget=\x01\n"), HasSubstr("'\\x01'"));
  std::string repeated;
  while (repeated.size() < megabyte.size()) repeated += "placement=best-fit,";
  EXPECT_THAT(ErrorOf(repeated), HasSubstr("given twice"));
  EXPECT_EQ(Parsed("trace=" + megabyte).trace, megabyte);
  EXPECT_EQ(Parsed(std::string(1 << 20, ',')).trace, "");
}

TEST(OptionStringTest, ArePassedOnByTheLibrary) {
  EXPECT_THAT(CreationError("device=host,bugdet=1", TIDEPOOL_INVALID_ARGUMENT),
              StartsWith("no option 'bugdet', expected one of budget"));
  EXPECT_THAT(CreationError("device=host,alignment=24", TIDEPOOL_INVALID_ARGUMENT),
              HasSubstr("expected a power of two"));
  EXPECT_THAT(CreationError("device=host,budget=1MiB,initial=2MiB", TIDEPOOL_INVALID_ARGUMENT),
              HasSubstr("expected at most the budget of 1048576 bytes"));
  EXPECT_THAT(CreationError("device=host,trace=/nowhere/at/all", TIDEPOOL_NOT_FOUND),
              StartsWith("/nowhere/at/all.host.tide: "));
  EXPECT_THAT(CreationError("device=host,plan=/nowhere.csv", TIDEPOOL_NOT_FOUND),
              StartsWith("/nowhere.csv: "));
}

TEST(OptionStringTest, HaveErrorsOfOneLineForAnyPath) {
  constexpr std::size_t kLongestPath = 4096;
  const std::string plan =
      TestFile("one\ntwo\xff", "id,lower,upper,size,offset\na,0,1,2097152,0\n");
  for (const std::string key : {"trace", "plan", "shared_budget"}) {
    const std::string option = "device=host,budget=1MiB," + key + "=";
    EXPECT_THAT(CreationError(option + "\"/nowhere\n/\xff\"", TIDEPOOL_NOT_FOUND),
                HasSubstr("/nowhere\\n/\\xff"));
    const std::string path(1 << 20, 'x');
    EXPECT_LT(CreationError(option + path, TIDEPOOL_INVALID_ARGUMENT).size(), kLongestPath + 100);
  }
  EXPECT_THAT(
      CreationError("device=host,budget=1MiB,plan=\"" + plan + "\"", TIDEPOOL_INVALID_ARGUMENT),
      HasSubstr("one\\ntwo\\xff: the plan needs 2097152 bytes"));
}

TEST(OptionStringTest, AreChangedByTheVariable) {
  setenv("TIDEPOOL_OPTIONS", "budget=1MiB", 1);
  const CPool limited("device=host,budget=8MiB");
  setenv("TIDEPOOL_OPTIONS", "budget=x", 1);
  EXPECT_THAT(CreationError("device=host", TIDEPOOL_INVALID_ARGUMENT),
              StartsWith("TIDEPOOL_OPTIONS: option 'budget' is 'x'"));
  unsetenv("TIDEPOOL_OPTIONS");
  const CPool other("device=host,budget=8MiB");
  EXPECT_EQ(limited.Statistics().max_bytes, std::size_t{1} << 20);
  EXPECT_EQ(other.Statistics().max_bytes, std::size_t{8} << 20);
}

TEST(OptionStringTest, AreCheckedWithoutTraces) {
  const std::string trace = TemporaryFile("checked");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(tidepool_check_options(("device=host,statistics=1,trace=" + trace).c_str()),
            TIDEPOOL_OK);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(std::filesystem::exists(trace + ".host.tide"));
  EXPECT_EQ(tidepool_check_options(nullptr), TIDEPOOL_OK);
  for (const std::string wrong :
       {"budgett=1GiB", "device=host,alignment=3", "device=host,plan=/no/plan",
        "device=host,budget=1MiB,initial=2MiB"}) {
    const tidepool_status status = tidepool_check_options(wrong.c_str());
    const std::string error = tidepool_last_error();
    EXPECT_NE(status, TIDEPOOL_OK) << wrong;
    EXPECT_EQ(error, CreationError(wrong, status));
  }
  setenv("TIDEPOOL_OPTIONS", "budget=x", 1);
  EXPECT_EQ(tidepool_check_options("device=host"), TIDEPOOL_INVALID_ARGUMENT);
  unsetenv("TIDEPOOL_OPTIONS");
}

}  // namespace
}  // namespace tidepool

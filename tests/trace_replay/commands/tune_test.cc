// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool tune`: its output, its files and its errors, but no speeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trace_replay/command_line.h"
#include "tidepool/copies/compression_profile.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Contents;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TuneCommand : public CommandLine {
 protected:
  // Uses small buffers: speeds do not matter here.
  Outcome Tune(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"tune", "compression", "--bytes", "192KiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  std::string TuneError(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"tune", "compression"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  }
};

TEST_F(TuneCommand, PrintsOneJsonObject) {
  const Outcome outcome = Tune({"--json", "--max-threads", "3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["bytes"], 192 << 10);
  ASSERT_EQ(answer["words"].size(), 2);
  EXPECT_EQ(answer["words"][0]["word"], 32);
  EXPECT_EQ(answer["words"][1]["word"], 16);
  for (const json& word : answer["words"]) {
    EXPECT_GE(word["rounds"], 1);
    EXPECT_GT(word["processor_share"], 0);
    EXPECT_LE(word["processor_share"], 1);
    // Five densities, two more numbers of threads, and slots of 64 and 128 KiB.
    EXPECT_EQ(word["measured"].size(), 9);
    for (const json& row : word["measured"]) {
      for (const char* const name : {"compress_bytes_per_second", "decompress_bytes_per_second",
                                     "memcpy_bytes_per_second"}) {
        EXPECT_GT(row[name], 0) << name;
      }
      EXPECT_GT(row["compressed_share"], 0);
      EXPECT_LE(row["compressed_share"], 1.01);
    }
  }
  EXPECT_GE(answer["threads"], 1);
  EXPECT_LE(answer["threads"], 3);
  EXPECT_LE(answer["knee_threads"], 3);
  for (const char* const stores : {"cached", "streaming"}) {
    EXPECT_GT(answer["whole_buffers"][stores]["compress_bytes_per_second"], 0);
    EXPECT_GT(answer["whole_buffers"][stores]["decompress_bytes_per_second"], 0);
  }
  EXPECT_TRUE(answer["whole_buffers"]["streaming_stores"].is_boolean());
  EXPECT_EQ(answer["links"].size(), 7);
  EXPECT_EQ(answer["profile"]["threads"], answer["threads"]);
  EXPECT_EQ(answer["profile"]["chunk_bytes"], answer["chunk_bytes"]);
  EXPECT_EQ(answer["profile"]["speedups"].size(), 3);
}

TEST_F(TuneCommand, MeasuresWhatItIsAskedFor) {
  const Outcome outcome = Tune({"--json", "--density", "0.3", "--density", "0.9", "--word", "16",
                                "--max-threads", "1", "--link", "10e9"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  ASSERT_EQ(answer["words"].size(), 1);
  EXPECT_EQ(answer["words"][0]["word"], 16);
  std::vector<double> densities;
  for (const json& row : answer["words"][0]["measured"]) {
    EXPECT_EQ(row["threads"], 1);
    densities.push_back(row["density"]);
  }
  EXPECT_EQ(densities.size(), 4);  // and two slot sizes at the density nearer to 0.5
  EXPECT_NEAR(densities.front(), 0.3, 0.01);
  EXPECT_NEAR(densities.back(), 0.9, 0.01);
  ASSERT_EQ(answer["links"].size(), 1);
  EXPECT_EQ(answer["links"][0]["link_bytes_per_second"], 10e9);
  EXPECT_EQ(
      json::parse(Tune({"--json", "--link", "2GiB"}).out)["links"][0]["link_bytes_per_second"],
      2LL << 30);
}

TEST_F(TuneCommand, SavesAProfileThatTheLibraryReads) {
  const std::string path = folder_ / "profile.json";
  const Outcome outcome = Tune({"--json", "--force", "--save", path, "--max-threads", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto profile = ReadCompressionProfile(path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(json::parse(CompressionProfileJson(*profile)), json::parse(outcome.out)["profile"]);
  EXPECT_EQ(profile->speedups.size(), 2);
  EXPECT_GT(profile->words32.compress.a + profile->words32.compress.b, 0);
  EXPECT_GT(profile->words16.decompress.a + profile->words16.decompress.b, 0);
  // The folder holds no other files.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
}

// Whether the machine is busy, the answer itself tells.
TEST_F(TuneCommand, SavesTheProfileOfAQuietMachineAlone) {
  const std::string path = folder_ / "profile.json";
  const Outcome outcome = Tune({"--json", "--save", path, "--max-threads", "1", "--word", "32"});
  const json answer = json::parse(outcome.out);
  const bool is_busy = answer["busy"];
  EXPECT_EQ(is_busy, answer["words"][0]["processor_share"] < 0.9);
  EXPECT_EQ(outcome.status, is_busy ? 2 : 0);
  EXPECT_EQ(std::filesystem::exists(path), !is_busy);
  EXPECT_THAT(outcome.err,
              ::testing::MatchesRegex(
                  is_busy ? "tidepool: .*profile.json: not saved: the machine is busy, threads had "
                            "a processor [0-9]+ % of the time; measure again on an idle machine, "
                            "or save with --force\n"
                          : ""));
}

TEST_F(TuneCommand, PrintsATable) {
  const Outcome outcome = Tune({"--max-threads", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  // Progress appears on terminals only.
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("words of 32 bits"), HasSubstr("words of 16 bits"), HasSubstr("/ memcpy"),
            HasSubstr("64.0 KiB"),
            ContainsRegex(
                "use [12] threads? and slots of [0-9.]+ [KM]iB: [0-9.]+ times the speed of one "
                "thread; (more were not measured|one more adds less than 50 % of the first)\n"),
            ContainsRegex("32 bits +[0-9.]+ [+] [0-9.]+ x share"),
            ContainsRegex("costs no time up to"), HasSubstr("core-seconds a GB"),
            HasSubstr("64 GB/s"), HasSubstr("saves memory up to")));
  EXPECT_THAT(Tune({"--max-threads", "2", "--link", "1e6"}).out,
              ContainsRegex("use 1 thread and slots of [0-9.]+ [KM]iB: (more are not needed to "
                            "keep up with the link|1.00 times)"));
  EXPECT_THAT(Tune({"--word", "32", "--force", "--save", folder_ / "p"}).out,
              HasSubstr("words of 16 bits were not measured"));
}

TEST_F(TuneCommand, ListsWhatThereIsToTune) {
  EXPECT_THAT(ErrorOf({"tune"}), HasSubstr("tune: no command, expected one of compression"));
  EXPECT_THAT(ErrorOf({"tune", "placement"}),
              HasSubstr("tune: no command 'placement', expected one of compression"));
  EXPECT_THAT(ErrorOf({"tune", "--json"}),
              HasSubstr("tune: no option '--json' before a command, expected one of compression"));
}

TEST_F(TuneCommand, RefusesWhatCannotBeMeasured) {
  for (const char* const bytes : {"0", "1", "65535", "5GiB", "1000TiB", "-1", "many", ""}) {
    EXPECT_THAT(TuneError({"--bytes", bytes}), HasSubstr("--bytes"));
  }
  for (const char* const density : {"-0.1", "1.1", "nan", "inf", "half", ""}) {
    EXPECT_THAT(TuneError({"--density", density}), HasSubstr("expected a share from 0 to 1"));
  }
  for (const char* const threads : {"0", "-1", "257", "10000", "1.5", "nan", "99999999999"}) {
    EXPECT_THAT(TuneError({"--max-threads", threads}),
                HasSubstr("expected a whole number from 1 to 256"));
  }
  for (const char* const link : {"0", "-1", "nan", "inf", "1e999", "fast", "0GiB"}) {
    EXPECT_THAT(TuneError({"--link", link}), HasSubstr("expected bytes a second, more than 0"));
  }
  for (const char* const word : {"8", "0", "64", "float"}) {
    EXPECT_THAT(TuneError({"--word", word}), HasSubstr("--word"));
  }
  EXPECT_THAT(TuneError({"--save", ""}), HasSubstr("--save: no value, expected one"));
  EXPECT_THAT(TuneError({"--unknown"}), HasSubstr("--unknown"));
  EXPECT_THAT(TuneError({"more"}), HasSubstr("more"));
}

TEST_F(TuneCommand, RefusesPlacesThatCannotBeWritten) {
  const std::string nowhere = folder_ / "not-there" / "profile.json";
  EXPECT_THAT(TuneError({"--bytes", "64KiB", "--save", nowhere}),
              AllOf(StartsWith("tidepool: " + nowhere + ": "), HasSubstr("a writable folder")));
  EXPECT_THAT(TuneError({"--bytes", "64KiB", "--save", folder_}), HasSubstr("a writable folder"));
  EXPECT_THAT(TuneError({"--bytes", "64KiB", "--force", "--save", "/dev/full"}),
              HasSubstr("/dev/full: "));
  EXPECT_THAT(TuneError({"--json", "--save", "/dev/stdout"}), HasSubstr("expected another file"));
}

TEST_F(TuneCommand, AProfileThatIsThereIsReplaced) {
  const std::string path = File("profile.json", "old");
  ASSERT_EQ(Tune({"--json", "--force", "--save", path, "--max-threads", "1"}).status, 0);
  EXPECT_TRUE(ReadCompressionProfile(path).ok());
  EXPECT_THAT(Contents(path), HasSubstr("tidepool_compression_profile"));
}

}  // namespace
}  // namespace tidepool

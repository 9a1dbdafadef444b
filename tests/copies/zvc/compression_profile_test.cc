// SPDX-License-Identifier: Apache-2.0
// Tests of compression profiles: a written profile is read back, invalid files are refused with
// their line, and the model agrees with a transfer simulated slot by slot.
#include "tidepool/copies/compression_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CompressionProfileFile : public ::testing::Test {
 protected:
  CompressionProfileFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("tidepool-profile-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "profile.json";
  }
  ~CompressionProfileFile() override {
    unsetenv(kCompressionProfileVariable);
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  // Returns the error for a file with `text`, which must not be a valid profile.
  std::string ErrorOf(const std::string& text) {
    Write(text);
    const auto profile = ReadCompressionProfile(path_);
    EXPECT_FALSE(profile.ok()) << text;
    const std::string message(profile.status().message());
    EXPECT_THAT(message, StartsWith(path_ + ":")) << text;
    return message;
  }

  std::filesystem::path folder_;
  std::string path_;
};

CompressionProfile RandomProfile(std::mt19937_64& random) {
  const auto number = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  CompressionProfile profile;
  profile.machine = "an \"odd\"\nmachine \xc3\xa9";
  profile.instruction_set = "avx2";
  profile.processors = 1 + static_cast<int>(random() % 200);
  profile.threads = 1 + static_cast<int>(random() % kMaxZeroValueThreads);
  profile.chunk_bytes = static_cast<std::int64_t>(kZeroValueBlockBytes * (1 + random() % 128));
  profile.slot_ns = number(0, 20'000);
  profile.memcpy_bytes_per_second = number(1e9, 1e11);
  profile.speedups = {1};
  for (std::size_t i = 1; i < 1 + random() % 12; ++i) {
    profile.speedups.push_back(profile.speedups.back() + number(0, 1));
  }
  for (CompressionCosts* costs : {&profile.words16, &profile.words32}) {
    *costs = {{number(0, 1), number(0, 1)}, {number(0, 1), number(0, 1)}, number(0.05, 1)};
  }
  return profile;
}

TEST_F(CompressionProfileFile, WhatIsWrittenIsRead) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const CompressionProfile profile = RandomProfile(random);
    ASSERT_TRUE(WriteCompressionProfile(profile, path_).ok());
    const auto read = ReadCompressionProfile(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(CompressionProfileJson(*read), CompressionProfileJson(profile));
    EXPECT_EQ(read->machine, profile.machine);
    EXPECT_EQ(read->speedups, profile.speedups);
    EXPECT_EQ(read->words16.decompress.b, profile.words16.decompress.b);
    EXPECT_EQ(read->words32.packed_share, profile.words32.packed_share);
  }
}

TEST_F(CompressionProfileFile, ShowsItselfAsJsonThatOthersRead) {
  const auto json = nlohmann::json::parse(CompressionProfileJson(CompressionProfile()));
  EXPECT_EQ(json["tidepool_compression_profile"], 1);
  EXPECT_EQ(json["chunk_bytes"], 1 << 20);
  EXPECT_EQ(json["words"]["32"]["compress"]["a"], 0.4);
  // Also reads JSON in the style of other writers.
  Write(json.dump());
  EXPECT_TRUE(ReadCompressionProfile(path_).ok());
}

TEST_F(CompressionProfileFile, CutAnywhereIsRefused) {
  std::string text = CompressionProfileJson(CompressionProfile());
  while (text.back() == '\n') text.pop_back();
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    const std::string error = ErrorOf(text.substr(0, bytes));
  }
}

TEST_F(CompressionProfileFile, AnyByteChangedIsReadOrRefused) {
  const std::string text = CompressionProfileJson(CompressionProfile());
  std::mt19937_64 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string changed = text;
    changed[random() % text.size()] = static_cast<char>(random());
    Write(changed);
    const auto read = ReadCompressionProfile(path_);
    if (read.ok()) {
      EXPECT_TRUE(CheckCompressionProfile(*read).ok()) << changed;
    } else {
    }
  }
}

// Returns pointers to all values in `json` that are not objects or arrays.
std::vector<nlohmann::ordered_json::json_pointer> Leaves(const nlohmann::ordered_json& json) {
  std::vector<nlohmann::ordered_json::json_pointer> leaves;
  const nlohmann::ordered_json flat = json.flatten();
  for (const auto& [name, value] : flat.items()) leaves.emplace_back(name);
  return leaves;
}

TEST_F(CompressionProfileFile, EachValueIsNeededAndChecked) {
  const auto json = nlohmann::ordered_json::parse(CompressionProfileJson(CompressionProfile()));
  for (const auto& leaf : Leaves(json)) {
    const bool is_text = json[leaf].is_string();
    const std::string name = leaf.back();
    auto changed = json;
    for (const nlohmann::ordered_json& bad :
         {nlohmann::ordered_json(-1), nlohmann::ordered_json(nullptr), nlohmann::ordered_json(true),
          nlohmann::ordered_json(1e30), nlohmann::ordered_json::array(),
          nlohmann::ordered_json::object()}) {
      changed[leaf] = bad;
      const std::string error = ErrorOf(changed.dump(1));
      EXPECT_THAT(error, HasSubstr(name)) << bad;
    }
    changed[leaf] = is_text ? nlohmann::ordered_json(5) : nlohmann::ordered_json("5");
    EXPECT_THAT(ErrorOf(changed.dump(1)), HasSubstr(name));
    if (!leaf.parent_pointer().empty() && json[leaf.parent_pointer()].is_array()) continue;
    changed = json;
    (leaf.parent_pointer().empty() ? changed : changed[leaf.parent_pointer()]).erase(name);
    EXPECT_THAT(ErrorOf(changed.dump(1)), AllOf(HasSubstr(": no '"), HasSubstr(name)));
  }
}

TEST_F(CompressionProfileFile, SaysWhereItIsWrong) {
  const std::string text = CompressionProfileJson(CompressionProfile());
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string changed = text;
    EXPECT_NE(text.find(old), std::string::npos) << old;
    changed.replace(text.find(old), old.size(), now);
    return ErrorOf(changed);
  };
  EXPECT_THAT(with("profile\": 1", "profile\": 2"),
              HasSubstr(":2: 'tidepool_compression_profile' "
                        "is 2, expected a whole number from 1 to 1"));
  EXPECT_THAT(with("\"threads\": 2", "\"threads\": 0"),
              HasSubstr(":6: 'threads' is 0, expected a whole number from 1 to 256"));
  EXPECT_THAT(with("\"threads\": 2", "\"threads\": 2.5"), HasSubstr(":6: 'threads' is 2.5"));
  EXPECT_THAT(with("\"threads\": 2", "\"threads\": NaN"), HasSubstr(":6: broken JSON"));
  EXPECT_THAT(with("\"threads\": 2", "\"threads\": 1e999"),
              HasSubstr(":6: broken JSON (Number too big"));
  EXPECT_THAT(with("\"chunk_bytes\": 1048576", "\"chunk_bytes\": 1048577"),
              HasSubstr(":7: 'chunk_bytes' is 1048577, expected a multiple of 8192 from"));
  EXPECT_THAT(with("\"threads\": 2,", "\"threads\": 2, \"threads\": 3,"),
              HasSubstr(":6: 'threads' is there twice"));
  EXPECT_THAT(with("\"threads\": 2,", "\"threads\": 2, \"cores\": 3,"),
              HasSubstr(":6: 'cores' is not a field of profiles of version 1"));
  EXPECT_THAT(with("\"words\": {", "\"words.16\": 1, \"words\": {"),
              HasSubstr(":11: unknown name 'words.16'"));
  EXPECT_THAT(with("[1, 1.7]", "[1, 2.5]"),
              HasSubstr("'speedups[1]' is 2.5, expected a number from 1 to 2"));
  EXPECT_THAT(with("[1, 1.7]", "[1, 1.7, 1.6]"), HasSubstr("'speedups[2]' is 1.6"));
  EXPECT_THAT(with("[1, 1.7]", "[]"), HasSubstr(": no 'speedups[0]'"));
  EXPECT_THAT(with("[1, 1.7]", "[1, 1.7, []]"),
              HasSubstr(":10: 'speedups[2]' is an array, expected a number from 1.7 to 3"));
  EXPECT_THAT(with("\"threads\": 2,", "\"threads\": 2, \"x\": {},"),
              HasSubstr(":6: 'x' is not a field"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr(": no 'tidepool_compression_profile'"));
  EXPECT_THAT(with("not measured", std::string(1001, 'x')), HasSubstr("has 1001 bytes"));
  EXPECT_THAT(ErrorOf(text + "{}"), HasSubstr("broken JSON"));
  EXPECT_THAT(ErrorOf(text + std::string(1, '\0')), HasSubstr("broken JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr(":1: an array"));
  EXPECT_THAT(ErrorOf("5"), HasSubstr(":1: 5, expected an object"));
  EXPECT_THAT(ErrorOf(""), HasSubstr(":1:"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("an array"));
  EXPECT_THAT(ErrorOf("{\"x\": " + std::string(100'000, '[')),
              HasSubstr("more than 64 levels deep"));
  std::string many = "{\"x\": [0";
  for (int i = 0; i < 2000; ++i) many += ", 0";
  EXPECT_THAT(ErrorOf(many + "]}"),
              HasSubstr(":1: more than 1000 values, expected a compression profile"));
}

TEST_F(CompressionProfileFile, FilesThatAreNone) {
  for (const std::string& path : {folder_.string(), (folder_ / "not-there").string()}) {
    const auto profile = ReadCompressionProfile(path);
    EXPECT_THAT(std::string(profile.status().message()), StartsWith(path + ": "));
  }
  EXPECT_THAT(
      std::string(
          WriteCompressionProfile(CompressionProfile(), folder_ / "not-there" / "x").message()),
      HasSubstr(": cannot be"));
}

TEST_F(CompressionProfileFile, WhatCannotBeIsNotWritten) {
  CompressionProfile profile;
  profile.words32.compress.b = std::numeric_limits<double>::quiet_NaN();
  const absl::Status status = WriteCompressionProfile(profile, path_);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'words.32.compress.b' is nan, expected a number from 0 to"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  profile = CompressionProfile();
  profile.speedups.clear();
  EXPECT_THAT(std::string(CheckCompressionProfile(profile).message()),
              HasSubstr("'speedups' has 0 numbers, expected 1 to 256"));
  profile = CompressionProfile();
  profile.machine = std::string(1001, 'x');
  EXPECT_FALSE(CheckCompressionProfile(profile).ok());
}

TEST_F(CompressionProfileFile, TheEnvironmentNamesIt) {
  unsetenv(kCompressionProfileVariable);
  const std::string standard = CompressionProfileJson(CompressionProfile());
  EXPECT_EQ(CompressionProfileJson(CompressionProfileFromEnvironment().value()), standard);
  setenv(kCompressionProfileVariable, "", 1);
  EXPECT_EQ(CompressionProfileJson(CompressionProfileFromEnvironment().value()), standard);
  CompressionProfile profile;
  profile.threads = 7;
  ASSERT_TRUE(WriteCompressionProfile(profile, path_).ok());
  setenv(kCompressionProfileVariable, path_.c_str(), 1);
  EXPECT_EQ(CompressionProfileFromEnvironment().value().threads, 7);
  setenv(kCompressionProfileVariable, "/not/there", 1);
  EXPECT_THAT(std::string(CompressionProfileFromEnvironment().status().message()),
              StartsWith("TIDEPOOL_COMPRESSION_PROFILE names /not/there: cannot be opened"));
}

TEST(CompressionModel, TheDefaultIsAProfile) {
  EXPECT_TRUE(CheckCompressionProfile(CompressionProfile()).ok());
}

TEST(CompressionModel, SizesAreThoseOfTheFormat) {
  CompressionProfile profile;
  // Header, entry and rounding, mask, and the words of 8 KiB, half of them zero, in plain mode.
  EXPECT_EQ(CompressedBytes(profile, 8192, ZeroValueWord::k32Bits, 0.5), 64 + 72 + 256 + 4096);
  EXPECT_EQ(CompressedBytes(profile, 8192, ZeroValueWord::k16Bits, 0.5), 64 + 72 + 512 + 4096);
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    profile = RandomProfile(random);
    const auto bytes = static_cast<std::int64_t>(random() >> (14 + random() % 50));
    const auto word = i % 2 == 0 ? ZeroValueWord::k16Bits : ZeroValueWord::k32Bits;
    std::int64_t before = 0;
    for (const double density : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      const std::int64_t compressed = CompressedBytes(profile, bytes, word, density);
      EXPECT_GE(compressed, before);
      EXPECT_LE(compressed,
                static_cast<std::int64_t>(ZeroValueBound(static_cast<std::size_t>(bytes))));
      before = compressed;
    }
  }
}

TEST(CompressionModel, SpeedupsEndWithTheLast) {
  CompressionProfile profile;
  profile.speedups = {1, 1.9, 2.5};
  EXPECT_EQ(Speedup(profile, 0), 1);
  EXPECT_EQ(Speedup(profile, 1), 1);
  EXPECT_EQ(Speedup(profile, 2), 1.9);
  EXPECT_EQ(Speedup(profile, 3), 2.5);
  EXPECT_EQ(Speedup(profile, 256), 2.5);
}

// Returns the time to compress slots that arrive one after the other; each goes to the first free
// thread.
double SimulatedOffload(std::int64_t slots, double link_seconds, double codec_seconds,
                        int threads) {
  std::vector<double> free_at(static_cast<std::size_t>(threads), 0);
  double end = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    double& thread = *std::min_element(free_at.begin(), free_at.end());
    thread = std::max(thread, static_cast<double>(slot + 1) * link_seconds) + codec_seconds;
    end = std::max(end, thread);
  }
  return end;
}

// Returns the time to send slots: each uses the link after its decompression and all earlier
// slots.
double SimulatedPrefetch(std::int64_t slots, double link_seconds, double codec_seconds,
                         int threads) {
  double link = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const double ready = static_cast<double>(slot / threads + 1) * codec_seconds;
    link = std::max(link, ready) + link_seconds;
  }
  return link;
}

TEST(CompressionModel, TransfersTakeWhatASimulationBySlotsTakes) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 3000; ++i) {
    CompressionProfile profile = RandomProfile(random);
    const int threads = 1 + static_cast<int>(random() % 8);
    // The simulation assumes a speedup equal to the number of threads.
    profile.speedups.clear();
    for (int k = 1; k <= threads; ++k) profile.speedups.push_back(k);
    const auto word = i % 2 == 0 ? ZeroValueWord::k16Bits : ZeroValueWord::k32Bits;
    const double density = static_cast<double>(random() % 101) / 100;
    const double link = 1e9 * static_cast<double>(1 + random() % 64);
    const auto slots = static_cast<std::int64_t>(1 + random() % 300);
    const std::int64_t bytes = slots * profile.chunk_bytes;
    for (const auto direction : {TransferDirection::kOffload, TransferDirection::kPrefetch}) {
      const double link_seconds = static_cast<double>(profile.chunk_bytes) / link;
      const CompressionCost& cost = direction == TransferDirection::kOffload
                                        ? profile.CostsOf(word).compress
                                        : profile.CostsOf(word).decompress;
      const double codec_seconds = 1e-9 * (static_cast<double>(profile.chunk_bytes) *
                                               (cost.a + cost.b * PlainRatio(word, density)) +
                                           profile.slot_ns);
      const double simulated = direction == TransferDirection::kOffload
                                   ? SimulatedOffload(slots, link_seconds, codec_seconds, threads)
                                   : SimulatedPrefetch(slots, link_seconds, codec_seconds, threads);
      const double predicted =
          TransferSeconds(profile, bytes, word, density, direction, link, threads);
      EXPECT_NEAR(predicted, simulated, (link_seconds + codec_seconds) * (1 + 1e-9));
      EXPECT_GE(predicted, RawSeconds(bytes, link));
    }
  }
}

TEST(CompressionModel, CoreSecondsAreThoseOfBothWays) {
  CompressionProfile profile;
  profile.slot_ns = 0;
  profile.words32 = {{0.1, 0.2}, {0.3, 0.4}, 1};
  EXPECT_NEAR(CoreSeconds(profile, 1'000'000'000, ZeroValueWord::k32Bits, 0.46875),
              0.1 + 0.2 * 0.5 + 0.3 + 0.4 * 0.5, 1e-12);
}

}  // namespace
}  // namespace tidepool

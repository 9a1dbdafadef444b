// SPDX-License-Identifier: Apache-2.0
// Property test of the Chrome reader: random profiler traces, compared with a slow and simple
// reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/rounds.h"
#include "tests/trace/profiles.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using testing::Dump;
using testing::Lines;

// Random profiler traces as text, with all parts in random order.
class RandomProfile {
 public:
  explicit RandomProfile(std::uint64_t seed) : random_(seed) {}

  std::string Make() {
    Lines events;
    const int count = static_cast<int>(Below(60)) + 1;
    for (int i = 0; i < count; ++i) events.push_back(Event());
    events.push_back(Instant("[memory]", "8"));  // ensures that there is a trace
    std::shuffle(events.begin(), events.end(), random_);
    const std::string text = absl::StrCat("[", absl::StrJoin(events, Space() + "," + Space()), "]");
    return Below(3) == 0 ? text
                         : absl::StrCat("{\"a\":[{}],", Space(), "\"traceEvents\":", text, "}");
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::string Space() { return std::string(Below(3), Below(2) == 0 ? ' ' : '\n'); }
  std::string Time(std::uint64_t limit) {
    return absl::StrCat(Below(limit), Below(2) == 0 ? "" : absl::StrCat(".", Below(1000)));
  }

  std::string Object(Lines members) {
    std::shuffle(members.begin(), members.end(), random_);
    return absl::StrCat("{", Space(), absl::StrJoin(members, "," + Space()), "}");
  }

  Lines Common(const std::string& phase) {
    return {absl::StrCat("\"ph\":\"", phase, "\""), "\"pid\":5", absl::StrCat("\"tid\":", Below(3)),
            absl::StrCat("\"ts\":", Time(100))};
  }

  std::string Instant(const std::string& name, const std::string& bytes) {
    Lines args = {absl::StrCat("\"Bytes\":", bytes), absl::StrCat("\"Addr\":", Below(6)),
                  "\"Ev Idx\":1"};
    const std::uint64_t device = Below(3);
    args.push_back(absl::StrCat("\"Device Type\":", device == 0 ? 0 : 1));
    args.push_back(absl::StrCat("\"Device Id\":", device == 0 ? -1 : static_cast<int>(device)));
    if (Below(2) == 0) args.push_back(absl::StrCat("\"Total Reserved\":", Below(4) * 100));
    if (Below(2) == 0) {
      args.push_back(absl::StrCat("\"Total Allocated\":", static_cast<int>(Below(200)) - 20));
    }
    Lines members = Common("i");
    members.push_back(absl::StrCat("\"name\":\"", name, "\""));
    members.push_back("\"args\":" + Object(args));
    return Object(members);
  }

  std::string SpanEvent() {
    static constexpr const char* kCategories[] = {"cpu_op", "python_function", "user_annotation",
                                                  "kernel"};
    static constexpr const char* kNames[] = {"f", "g", "a.py(3): f", "h \\\"x\\\" \\u00e9"};
    Lines members = Common("X");
    members.push_back(absl::StrCat("\"cat\":\"", kCategories[Below(4)], "\""));
    members.push_back(absl::StrCat("\"name\":\"", kNames[Below(4)], "\""));
    members.push_back("\"dur\":" + Time(Below(2) == 0 ? 10 : 60));
    return Object(members);
  }

  std::string Event() {
    switch (Below(8)) {
      case 0:
        return Instant("[OutOfMemory]", absl::StrCat(Below(50)));
      case 1:
        return Instant("[memory]", "0");
      case 2:
        return Instant("[memory]", absl::StrCat("-", Below(50) + 1));
      case 3:
      case 4:
        return Instant("[memory]", absl::StrCat(Below(50) + 1));
      case 5:
        return Object({"\"ph\":\"M\"", "\"name\":\"thread_name\"", "\"pid\":5",
                       absl::StrCat("\"tid\":", Below(3)), "\"args\":{\"name\":\"t\"}"});
      default:
        return SpanEvent();
    }
  }

  std::mt19937_64 random_;
};

// Reference implementation: parses the whole document and scans it for each question.
class SlowReader {
 public:
  explicit SlowReader(const std::string& text) : document_(nlohmann::json::parse(text)) {
    events_ = document_.is_array() ? document_ : document_["traceEvents"];
  }

  std::set<int> Devices() const {
    std::set<int> devices;
    for (const auto& event : events_) {
      if (IsInstant(event)) devices.insert(DeviceOf(event));
    }
    return devices;
  }

  Lines Read(int device) {
    struct Item {
      std::int64_t time;
      std::string what;
      const nlohmann::json* event;
    };
    std::vector<Item> items;
    for (const auto& event : events_) {
      if (IsInstant(event) && DeviceOf(event) == device) {
        items.push_back({TimeOf(event, "ts"), "", &event});
      } else if (event.value("cat", "") == "user_annotation") {
        const std::string name = event["name"];
        items.push_back({TimeOf(event, "ts"), "m " + name, &event});
        items.push_back({TimeOf(event, "ts") + TimeOf(event, "dur"), "e " + name, &event});
      }
    }
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.time < b.time; });
    std::vector<const nlohmann::json*> instants;
    for (const Item& item : items) {
      if (item.what.empty()) instants.push_back(item.event);
    }
    if (!instants.empty()) AddEarlier(instants, items.front().time);
    for (const Item& item : items) {
      if (item.what.empty()) {
        AddInstant(*item.event);
      } else {
        Add(*item.event, item.time, item.what);
      }
    }
    return lines_;
  }

  int unmatched() const { return unmatched_; }
  int skipped() const { return skipped_; }

 private:
  using Json = nlohmann::json;

  static bool IsInstant(const Json& event) {
    const std::string name = event["name"];
    return name == "[memory]" || name == "[OutOfMemory]";
  }
  static int DeviceOf(const Json& event) {
    return event["args"]["Device Type"] == 0 ? -1 : event["args"]["Device Id"].get<int>();
  }
  static std::int64_t TimeOf(const Json& event, const char* key) {
    return std::llround(event[key].get<double>() * 1000);
  }

  void Add(const Json& event, std::int64_t time, const std::string& what) {
    std::string thread = event["tid"].dump();
    for (const auto& other : events_) {
      if (other["name"] == "thread_name" && other["tid"] == event["tid"]) thread = "t";
    }
    lines_.push_back(absl::StrCat(time, " ", thread, " ", what));
  }

  std::string Stack(const Json& event) const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> around;
    const std::int64_t time = TimeOf(event, "ts");
    for (const auto& span : events_) {
      const std::string category = span.value("cat", "kernel");
      if (category == "kernel" || span["tid"] != event["tid"]) continue;
      const std::int64_t begin = TimeOf(span, "ts");
      const std::int64_t duration = TimeOf(span, "dur");
      if (begin > time || time >= begin + duration) continue;
      const std::string name = span["name"];
      around.emplace_back(begin, -duration, name == "a.py(3): f" ? "a.py:3:f" : name);
    }
    std::stable_sort(around.begin(), around.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    return absl::StrJoin(around, "/", [](std::string* text, const auto& span) {
      absl::StrAppend(text, std::get<2>(span));
    });
  }

  static std::string IdOf(const Json& args) {
    return absl::StrCat("0x", absl::Hex(args["Addr"].get<std::uint64_t>()));
  }

  static std::int64_t BytesBefore(const std::vector<const Json*>& instants) {
    std::int64_t change = 0;
    for (const Json* event : instants) {
      const Json& args = (*event)["args"];
      if ((*event)["name"] == "[memory]") change += args["Bytes"].get<std::int64_t>();
      const std::int64_t total = args.value("Total Allocated", -1);
      if (total >= 0) return std::max<std::int64_t>(0, total - change);
    }
    return 0;
  }

  void AddEarlier(const std::vector<const Json*>& instants, std::int64_t time) {
    std::int64_t left = BytesBefore(instants);
    if (left == 0) return;
    for (const Json* event : instants) {
      if (!(*event)["args"].contains("Total Reserved")) continue;
      reserved_ = (*event)["args"]["Total Reserved"];
      if (reserved_ > 0) Add(*instants[0], time, absl::StrCat("r ", reserved_));
      break;
    }
    std::set<std::string> touched;
    Lines freed;
    for (const Json* event : instants) {
      const Json& args = (*event)["args"];
      const std::int64_t bytes = args["Bytes"];
      if ((*event)["name"] != "[memory]" || bytes == 0) continue;
      if (!touched.insert(IdOf(args)).second || bytes > 0 || -bytes > left || left == 0) continue;
      left += bytes;
      live_.insert(IdOf(args));
      freed.push_back(absl::StrCat("a ", IdOf(args), " ", -bytes, " "));
    }
    if (left > 0) Add(*instants[0], time, absl::StrCat("a before the recording ", left, " "));
    for (const std::string& line : freed) Add(*instants[0], time, line);
  }

  void AddInstant(const Json& event) {
    const Json& args = event["args"];
    const std::int64_t time = TimeOf(event, "ts");
    const std::int64_t bytes = args["Bytes"];
    const std::string id = IdOf(args);
    const std::int64_t reserved = args.value("Total Reserved", reserved_);
    const std::int64_t change = reserved - std::exchange(reserved_, reserved);
    if (change != 0) Add(event, time, absl::StrCat("r ", change));
    const std::string request = absl::StrCat(bytes, " ", Stack(event));
    if (event["name"] == "[OutOfMemory]") return Add(event, time, "o " + request);
    if (bytes == 0) {
      skipped_ += change == 0 ? 1 : 0;
    } else if (bytes < 0 && live_.erase(id) == 0) {
      ++unmatched_;
    } else if (bytes < 0 || live_.contains(id)) {
      Add(event, time, "f " + id);
      unmatched_ += bytes > 0 ? 1 : 0;
    }
    if (bytes > 0) {
      live_.insert(id);
      Add(event, time, absl::StrCat("a ", id, " ", request));
    }
  }

  Json document_;
  Json events_;
  Lines lines_;
  std::set<std::string> live_;
  std::int64_t reserved_ = 0;
  int unmatched_ = 0;
  int skipped_ = 0;
};

TEST(ChromeTrace, IsReadAsASlowReaderReadsIt) {
  int read = 0;
  for (int seed = 0; seed < testing::Rounds(2000); ++seed) {
    const std::string text = RandomProfile(seed).Make();
    const std::set<int> devices = SlowReader(text).Devices();
    for (const int device : devices) {
      SlowReader slow(text);
      const Lines expected = slow.Read(device);
      const auto trace = ParseTrace(text, "test.json", {.device = device});
      const bool is_any = std::any_of(expected.begin(), expected.end(), [](const auto& line) {
        return line.find(" a ") != std::string::npos || line.find(" o ") != std::string::npos;
      });
      ASSERT_EQ(trace.ok(), is_any) << trace.status() << " seed " << seed << "\n" << text;
      if (!is_any) continue;
      ++read;
      ASSERT_EQ(Dump(*trace), expected) << "seed " << seed << "\n" << text;
      ASSERT_EQ(trace->unmatched_frees, slow.unmatched());
      ASSERT_EQ(trace->skipped_rows, slow.skipped());
      ASSERT_THAT(trace->devices, ::testing::ElementsAreArray(devices));
    }
  }
  EXPECT_GT(read, testing::Rounds(2000));
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Trees of JSON: lines, limits, and the values of broken files. Objects by tables of fields.
#include "lib/base/io/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_events.h"
#include "lib/base/io/json_object.h"

namespace tidepool::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using enum JsonNeed;

constexpr JsonTree::Options kAnything = {"anything"};

// The tree of a text that lives as long.
class JsonTrees : public ::testing::Test {
 protected:
  const JsonTree& Read(std::string json, const JsonTree::Options& options = kAnything) {
    tree_.reset();
    json_ = std::move(json);
    tree_ = std::make_unique<JsonTree>(FromMemory(json_), "f", options);
    return *tree_;
  }
  JsonValue Root(std::string json) {
    Read(std::move(json));
    EXPECT_EQ(tree_->status(), absl::OkStatus());
    return tree_->root();
  }
  std::string ErrorOf(std::string json, const JsonTree::Options& options = kAnything) {
    return std::string(Read(std::move(json), options).status().message());
  }

 private:
  std::string json_;
  std::unique_ptr<JsonTree> tree_;
};

// Returns all values in order: "name kind text line-last_line". Ends with the error of a walk.
void Describe(const JsonValue& value, std::vector<std::string>& lines) {
  lines.push_back(absl::StrCat(std::string(value.name()), " ", static_cast<int>(value.kind()), " ",
                               std::string(value.text()), " ", value.line(), "-",
                               value.last_line()));
  const absl::Status status = value.ForEach([&](const JsonValue& below) {
    Describe(below, lines);
    return absl::OkStatus();
  });
  if (!status.ok()) lines.emplace_back(status.message());
}
std::vector<std::string> Described(const JsonTree& tree) {
  std::vector<std::string> lines;
  if (!tree.is_empty()) Describe(tree.root(), lines);
  return lines;
}

TEST_F(JsonTrees, EachValueKnowsItsLines) {
  EXPECT_THAT(
      Described(Read("\n{\"a\": [1.50,\n  \"t\\u00e9\", true\n],\n\"b\":\nnull, \"\": {}}\n")),
      ElementsAre(" 5  2-6", "a 4  2-4", " 2 1.50 2-2", " 3 té 3-3", " 1 true 3-3", "b 0 null 6-6",
                  " 5  6-6"));
}

TEST_F(JsonTrees, ErrorsHaveTheirLine) {
  const JsonValue root = Root("[1,\n{\n}]");
  EXPECT_EQ(root.Error("one, expected two").message(), "f:1: one, expected two");
  EXPECT_EQ(root.ErrorAtEnd("one, expected two").message(), "f:3: one, expected two");
}

TEST_F(JsonTrees, MembersAreFoundByName) {
  const JsonValue root = Root(R"({"a": {"b": 1}, "b": 2, "b": 3})");
  EXPECT_EQ(root.Find("b")->text(), "2");
  EXPECT_EQ(root.Find("a")->Find("b")->text(), "1");
  EXPECT_FALSE(root.Find("c").has_value());
  EXPECT_FALSE(root.Find("b")->Find("b").has_value());
}

TEST_F(JsonTrees, AVisitEndsTheWalk) {
  int visits = 0;
  const absl::Status status = Root("[1, [2, 3], 4]").ForEach([&](const JsonValue& value) {
    ++visits;
    return value.kind() == JsonKind::kArray ? value.Error("seen") : absl::OkStatus();
  });
  EXPECT_EQ(status.message(), "f:1: seen");
  EXPECT_EQ(visits, 2);
}

TEST_F(JsonTrees, NumbersKeepTheirText) {
  const auto whole = [&](const std::string& json) -> std::optional<std::int64_t> {
    std::int64_t number = 0;
    return Root(json).To(&number) ? std::optional(number) : std::nullopt;
  };
  EXPECT_EQ(whole("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(whole("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole("-0"), 0);
  for (const char* json : {"9223372036854775808", "-9223372036854775809", "1.0", "1e3", "\"1\"",
                           "true", "null", "[1]", "{}"}) {
    EXPECT_EQ(whole(json), std::nullopt) << json;
  }
  const auto number = [&](const std::string& json) {
    double real = 77;
    EXPECT_TRUE(Root(json).To(&real)) << json;
    return real;
  };
  EXPECT_EQ(number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(number("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(number("1e-999"), 0);
  EXPECT_EQ(number("18446744073709551616"), 18446744073709551616.0);
  EXPECT_THAT(ErrorOf("[1,\n1e999]"), HasSubstr("f:2: broken JSON (Number too big"));
  for (const char* json : {"NaN", "Infinity", "01", "1.", ".5", "+1", "0x1", "1e", "-"}) {
    EXPECT_NE(ErrorOf(json), "") << json;
  }
}

TEST_F(JsonTrees, ValuesAreTakenByTheirKind) {
  std::string text = "old";
  bool is = false;
  double number = 7;
  EXPECT_TRUE(Root("\"new\"").To(&text));
  EXPECT_EQ(text, "new");
  EXPECT_TRUE(Root("true").To(&is));
  EXPECT_TRUE(is);
  for (const char* json : {"1", "null", "[\"x\"]"}) {
    EXPECT_FALSE(Root(json).To(&text)) << json;
    EXPECT_FALSE(Root(json).To(&is)) << json;
  }
  EXPECT_FALSE(Root("\"1\"").To(&number));
  EXPECT_EQ(text, "new");
  EXPECT_EQ(number, 7);
}

TEST_F(JsonTrees, ValuesAreShownInErrors) {
  EXPECT_EQ(Root("[]").Shown(), "an array");
  EXPECT_EQ(Root("{}").Shown(), "an object");
  EXPECT_EQ(Root("null").Shown(), "null");
  EXPECT_EQ(Root("false").Shown(), "false");
  EXPECT_EQ(Root("1.50").Shown(), "1.50");
  EXPECT_EQ(Root(std::string(100, '1')).Shown(), std::string(40, '1'));
  EXPECT_EQ(Root("\"a\\n\"").Shown(), "the text 'a\\n'");
  EXPECT_EQ(Root("\"" + std::string(100, 'x') + "\"").Shown(),
            "the text '" + std::string(40, 'x') + "...'");
}

TEST_F(JsonTrees, NestingIsBounded) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(ErrorOf(nested(JsonTree::kDeepest)), "");
  EXPECT_EQ(ErrorOf("\n" + nested(JsonTree::kDeepest + 1)),
            "f:2: values nested more than 64 levels deep, expected anything");
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("more than 64 levels deep"));
  EXPECT_EQ(Described(Read(nested(1'000))).size(), JsonTree::kDeepest + JsonTree::kDeepest);
}

TEST_F(JsonTrees, ValuesAreBounded) {
  const JsonTree::Options options = {.expected = "three", .most_values = 3};
  EXPECT_EQ(ErrorOf("[1, 2]", options), "");
  EXPECT_EQ(ErrorOf("[1,\n2, 3]", options), "f:2: more than 3 values, expected three");
  EXPECT_EQ(ErrorOf("[[], [[]]]", options), "f:1: more than 3 values, expected three");
}

TEST_F(JsonTrees, LongTextsAreBounded) {
  const std::string text(JsonInput::kLongestToken, 'x');
  EXPECT_EQ(Root("[\"" + text + "\"]").Find("")->text(), text);
  EXPECT_THAT(ErrorOf("\"" + text + text + "\""), HasSubstr("a text or number is too long"));
}

TEST_F(JsonTrees, ManyValuesKeepTheirOrder) {
  std::string json = "[0";
  for (int i = 1; i < 20'000; ++i)
    absl::StrAppend(&json, i % 100 == 0 ? ",\n[" : ",", i, i % 100 == 0 ? "]" : "");
  std::int64_t next = 0;
  const absl::Status status = Root(json + "]").ForEach([&](const JsonValue& value) {
    std::int64_t number = -1;
    const bool is_array = value.kind() == JsonKind::kArray;
    EXPECT_TRUE((is_array ? *value.Find("") : value).To(&number));
    EXPECT_EQ(number, next++);
    EXPECT_EQ(value.line(), 1 + number / 100);
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(next, 20'000);
}

TEST_F(JsonTrees, TextsAreUtf8) {
  EXPECT_EQ(Root("[\"\\ud83c\\udf0a\"]").Find("")->text(), "\xf0\x9f\x8c\x8a");
  EXPECT_EQ(Root("\"\\u0000\"").text(), std::string(1, '\0'));
  for (const char* bytes : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("[1,\n\"", bytes, "\"]")), HasSubstr("f:2: broken JSON"))
        << bytes;
    EXPECT_THAT(ErrorOf(absl::StrCat("{\"", bytes, "\": 1}")), HasSubstr("f:1: broken JSON"))
        << bytes;
  }
  EXPECT_THAT(ErrorOf("\"\\ud83c\""), HasSubstr("broken JSON"));
  EXPECT_EQ(Root("\xef\xbb\xbf[7]").Find("")->text(), "7");
}

TEST_F(JsonTrees, OneValueIsAFile) {
  EXPECT_EQ(ErrorOf(""), "f:1: the file is cut off: its JSON ends early, expected all of it");
  EXPECT_EQ(ErrorOf("[1]\n2"),
            "f:2: broken JSON (The document root must not be followed by other values.), expected "
            "anything");
  EXPECT_THAT(ErrorOf(std::string("[1]\0", 4)), HasSubstr("a zero byte after the value"));
  EXPECT_THAT(ErrorOf("\x1f\x8b\x08 and no gzip behind it"), HasSubstr("f:1: damaged gzip"));
}

constexpr char kSmall[] = R"({"a": [1, -2.5e3, "x\n\u00e9"],
"b": {"c": [[], {}], "d": null},
"e": [true, false]})";

TEST_F(JsonTrees, BrokenFilesHaveTheValuesBeforeTheBreak) {
  Read("{\"a\": [1,\n2, x], \"b\": 3}");
  const std::string error = "f:2: broken JSON (Invalid value.), expected anything";
  std::vector<std::string> values = Described(Read("{\"a\": [1,\n2, x], \"b\": 3}"));
  EXPECT_THAT(values, ElementsAre(" 5  1-1", "a 4  1-1", " 2 1 1-1", " 2 2 2-2", error, error));
}

TEST_F(JsonTrees, FilesAreCutAnywhere) {
  const std::string whole = kSmall;
  const std::vector<std::string> all = Described(Read(whole));
  ASSERT_EQ(all.size(), 13U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const JsonTree& tree = Read(whole.substr(0, size));
    EXPECT_EQ(tree.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(tree.status().message()), HasSubstr("expected")) << size;
    const std::vector<std::string> values = Described(tree);
    EXPECT_LE(values.size(), all.size() + 3) << size;
    EXPECT_EQ(values.empty(), size == 0) << size;
    if (size > 0) {
      EXPECT_EQ(values.back(), tree.status().message()) << size;
    }
  }
}

TEST_F(JsonTrees, AnyByteMayBeAnother) {
  const std::string whole = kSmall;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[at] = static_cast<char>(byte);
      const JsonTree& tree = Read(changed);
      const std::vector<std::string> values = Described(tree);
      EXPECT_LE(values.size(), 30U) << changed;
      if (tree.status().ok()) continue;
      EXPECT_THAT(std::string(tree.status().message()), StartsWith("f:")) << changed;
      EXPECT_THAT(std::string(tree.status().message()), HasSubstr("expected")) << changed;
    }
  }
}

// Memory that says how much of it was read.
class CountedSource : public ByteSource {
 public:
  CountedSource(std::string text, std::size_t* bytes) : text_(std::move(text)), bytes_(bytes) {}
  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    const std::size_t got = text_.copy(buffer, size, *bytes_);
    *bytes_ += got;
    return got;
  }
  std::uint64_t file_bytes() const override { return *bytes_; }

 private:
  std::string text_;
  std::size_t* bytes_;
};

TEST(JsonTree, OtherFilesAreNotReadToTheirEnd) {
  constexpr JsonTree::Options kOptions = {"a file",
                                          [](std::string_view key) { return key == "a"; }};
  std::string more;
  for (int i = 0; i < 2'000'000; ++i) more += "1,\n";
  for (const char* start : {"{\"a\": 1,\n\"b\": [", "{\"b\": [", "["}) {
    std::size_t bytes = 0;
    const JsonTree tree(std::make_unique<CountedSource>(start + more, &bytes), "f", kOptions);
    EXPECT_FALSE(tree.status().ok());
    EXPECT_LT(bytes, 1'000'000);
    EXPECT_FALSE(tree.is_empty());
  }
  const std::string json = "{\"a\": {\"b\": [{\"c\": 1}]}}";
  EXPECT_EQ(JsonTree(FromMemory(json), "f", kOptions).status(), absl::OkStatus());
}

struct Point {
  std::int64_t x = 0;
  std::string label = {};
  std::vector<Point> below = {};
};
absl::Status ReadPoint(const JsonValue& value, Point& point);
constexpr JsonField<Point> kPointFields[] = {
    {"x", kRequired, "a whole number", kToMember<&Point::x>},
    {"label", kOptional, "a text", kToMember<&Point::label>},
    {"below", kOptional, "an array of objects", [](const JsonValue& value, Point& point) {
       return TakeArray(value, [&](const JsonValue& below) {
         return ReadPoint(below, point.below.emplace_back());
       });
     }}};
constexpr JsonObject<Point> kPoint = {"a point", kPointFields};
absl::Status ReadPoint(const JsonValue& value, Point& point) {
  return ReadObject(value, kPoint, point);
}

std::string PointErrorOf(const std::string& json) {
  const auto read = [](const JsonValue& root) -> absl::StatusOr<Point> {
    Point point;
    absl::Status status = ReadObject(root, kPoint, point, ", expected a point: an object");
    if (!status.ok()) return status;
    return point;
  };
  const auto point = ReadJson(FromMemory(json), "f", {"a point", Knows<kPoint>}, read);
  return std::string(point.status().message());
}

TEST(JsonObject, FieldsComeInAnyOrder) {
  const std::string json = R"({"below": [{"label": "l", "x": -3}], "x": 2})";
  const JsonTree tree(FromMemory(json), "f", {"a point"});
  Point point;
  ASSERT_EQ(ReadPoint(tree.root(), point), absl::OkStatus());
  EXPECT_EQ(point.x, 2);
  ASSERT_EQ(point.below.size(), 1U);
  EXPECT_EQ(point.below[0].x, -3);
  EXPECT_EQ(point.below[0].label, "l");
}

TEST(JsonObject, FaultsHaveTheirLine) {
  EXPECT_EQ(PointErrorOf("{\"x\": 1}"), "");
  EXPECT_EQ(PointErrorOf("{\"x\": 1,\n\"y\": 2}"),
            "f:2: the unknown key 'y' in a point, expected x, label, below");
  EXPECT_EQ(PointErrorOf("{\"x\": 1,\n\"below\": [{\"x\": 1, \"y\": 2}]}"),
            "f:2: the unknown key 'y' in a point, expected x, label, below");
  EXPECT_EQ(PointErrorOf("{\"x\": 1,\n\"x\": 2}"),
            "f:2: the key 'x' is in a point twice, expected it once");
  EXPECT_EQ(PointErrorOf("{\"label\": \"\"\n}"),
            "f:2: a point without x, expected every required key");
  EXPECT_EQ(PointErrorOf("{\"x\": \"1\"}"),
            "f:1: x of a point is the text '1', expected a whole number");
  EXPECT_EQ(PointErrorOf("{\"below\": {}}"),
            "f:1: below of a point is an object, expected an array of objects");
  EXPECT_EQ(PointErrorOf("{\"below\":\n[7]}"), "f:2: 7 in an array of objects, expected an object");
  EXPECT_EQ(PointErrorOf("[]"), "f:1: an array, expected a point: an object");
  EXPECT_EQ(PointErrorOf("7"), "f:1: 7, expected a point: an object");
}

// The first fault in the file is the error.
TEST(JsonObject, BreaksComeAfterTheFaultsBeforeThem) {
  EXPECT_THAT(PointErrorOf("{\"x\": 1.5,\n\"label\": ]"), HasSubstr("f:1: x of a point is 1.5"));
  EXPECT_THAT(PointErrorOf("{\"label\": \"\",\n\"label\" }"), HasSubstr("f:2: broken JSON"));
  EXPECT_THAT(PointErrorOf("{\"below\": [{\"label\": \"\","), HasSubstr("cut off"));
  EXPECT_THAT(PointErrorOf("{\"x\": 1}{}"), HasSubstr("broken JSON"));
}

}  // namespace
}  // namespace tidepool::io

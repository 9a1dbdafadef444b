// SPDX-License-Identifier: Apache-2.0
// Tests the report without a browser: its files and its errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/support/random_trace.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/report/columns.h"
#include "trace_replay/report/map_paths.h"
#include "trace_replay/report/markup.h"
#include "trace_replay/report/size_classes.h"

namespace tidepool {
namespace {

using nlohmann::json;
using testing::Contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// --- Columns.

// Reads columns as the page does.
class ColumnReader {
 public:
  explicit ColumnReader(std::string bytes) : bytes_(std::move(bytes)) {}

  std::vector<std::uint64_t> Numbers() {
    ColumnReader column(Text());
    std::vector<std::uint64_t> numbers;
    while (column.at_ < column.bytes_.size()) numbers.push_back(column.Varint());
    return numbers;
  }
  std::string Text() {
    const std::uint64_t size = Varint();
    EXPECT_LE(at_ + size, bytes_.size());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::vector<std::string> Texts() {
    const std::vector<std::uint64_t> lengths = Numbers();
    const std::string all = Text();
    std::vector<std::string> texts;
    std::size_t at = 0;
    for (const std::uint64_t length : lengths) {
      texts.push_back(all.substr(at, length));
      at += length;
    }
    EXPECT_EQ(at, all.size());
    return texts;
  }
  bool IsAtEnd() const { return at_ == bytes_.size(); }

 private:
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

std::vector<std::string> Strings(const StringTable& table) {
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < table.size(); ++i) strings.emplace_back(table[i]);
  return strings;
}

std::int64_t Unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Compares all of `columns` with the trace.
void ExpectColumnsOf(const Trace& trace, const tool::EventTimes& times,
                     const std::string& columns) {
  ColumnReader reader(columns);
  const auto starts = reader.Numbers();
  const auto lifetimes = reader.Numbers();
  const auto bytes = reader.Numbers();
  const auto tags = reader.Numbers();
  const auto streams = reader.Numbers();
  const auto threads = reader.Numbers();
  EXPECT_EQ(reader.Texts(), Strings(trace.allocation_ids));
  EXPECT_EQ(reader.Numbers(), times.steps);
  const auto marks = reader.Numbers();
  const auto reservations = reader.Numbers();
  const auto failures = reader.Numbers();
  const auto frames = reader.Numbers();
  EXPECT_EQ(reader.Texts(), Strings(trace.frame_texts));
  EXPECT_TRUE(reader.IsAtEnd());

  ASSERT_EQ(starts.size(), trace.allocations.size());
  std::vector<std::uint64_t> begun(trace.allocations.size());
  std::vector<std::uint64_t> freed(trace.allocations.size());
  std::vector<std::uint64_t> expected_marks;
  std::vector<std::uint64_t> expected_failures;
  std::size_t reservation = 0;
  std::uint64_t start = 0;
  std::uint64_t last_mark = 0;
  std::uint64_t last_failure = 0;
  for (std::uint64_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    switch (event.kind) {
      case TraceEvent::Kind::kAllocate:
        start += starts[event.index];
        ASSERT_EQ(start, i);
        begun[event.index] = i;
        ASSERT_EQ(streams[event.index] / 2, event.stream);
        ASSERT_EQ(threads[event.index], event.thread);
        break;
      case TraceEvent::Kind::kFree:
        freed[event.index] = i;
        break;
      case TraceEvent::Kind::kMark:
      case TraceEvent::Kind::kMarkEnd:
        expected_marks.push_back(i - last_mark);
        expected_marks.push_back(event.index * 2U + (event.kind == TraceEvent::Kind::kMarkEnd));
        last_mark = i;
        break;
      case TraceEvent::Kind::kFailure:
        expected_failures.push_back(i - last_failure);
        expected_failures.push_back(static_cast<std::uint64_t>(trace.failures[event.index].bytes));
        last_failure = i;
        break;
      case TraceEvent::Kind::kReserve:
        ASSERT_EQ(Unzigzag(reservations.at(2 * reservation + 1)),
                  trace.reservations[event.index].bytes);
        ++reservation;
        break;
      default:
        break;
    }
  }
  EXPECT_EQ(reservations.size(), 2 * reservation);
  EXPECT_EQ(marks, expected_marks);
  EXPECT_EQ(failures, expected_failures);
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    const TraceAllocation& allocation = trace.allocations[i];
    ASSERT_EQ(lifetimes[i], freed[i] == 0 ? 0 : freed[i] - begun[i]);
    ASSERT_EQ(bytes[i], static_cast<std::uint64_t>(allocation.bytes));
    ASSERT_EQ(tags[i], allocation.tag);
    ASSERT_EQ(streams[i] % 2, allocation.hint == Hint::kOffloadable ? 1U : 0U);
  }
  ASSERT_EQ(frames.size(), 4 * trace.frames.size());
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    ASSERT_THAT(std::vector<std::uint64_t>(frames.begin() + static_cast<std::ptrdiff_t>(4 * i),
                                           frames.begin() + static_cast<std::ptrdiff_t>(4 * i + 4)),
                ElementsAre(frame.caller, frame.name, frame.file, frame.line));
  }
}

std::string Inflated(const std::string& deflated, std::size_t most) {
  std::string bytes(most, '\0');
  uLongf size = most;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                       reinterpret_cast<const Bytef*>(deflated.data()), deflated.size()),
            Z_OK);
  bytes.resize(size);
  return bytes;
}

TEST(ReportColumns, HoldTheTrace) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(seed * seed));
    const tool::EventTimes times = tool::MeasureTimes(trace);
    const std::string columns = tool::TraceColumns(trace, times);
    ExpectColumnsOf(trace, times, columns);
    EXPECT_EQ(Inflated(*tool::Deflated(columns), columns.size()), columns);
  }
}

TEST(ReportColumns, HoldOffsetsInUnitsOfTheAlignment) {
  ColumnReader reader(tool::OffsetColumn({0, -1, 512, std::int64_t{1} << 52}, 512));
  EXPECT_THAT(reader.Numbers(), ElementsAre(1, 0, 2, (std::uint64_t{1} << 43) + 1));
  EXPECT_TRUE(reader.IsAtEnd());
}

Trace AtTimes(const std::vector<std::int64_t>& times) {
  TraceBuilder builder(TraceFormat::kNative);
  for (const std::int64_t time : times) builder.Mark("m", time);
  return builder.Build();
}

TEST(ReportTimes, AreStepsInTheLargestUnitThatFits) {
  const tool::EventTimes times = tool::MeasureTimes(AtTimes({7000, 10'000, 10'000, 19'000}));
  EXPECT_EQ(times.first, 7000);
  EXPECT_EQ(times.unit, 3000);
  EXPECT_THAT(times.steps, ElementsAre(0, 1, 0, 3));
}

TEST(ReportTimes, NeverFallAndNeverOverflow) {
  const tool::EventTimes falling = tool::MeasureTimes(AtTimes({5, 9, 2, 10}));
  EXPECT_EQ(falling.unit, 1);
  EXPECT_THAT(falling.steps, ElementsAre(0, 4, 0, 1));
  const tool::EventTimes extreme = tool::MeasureTimes(AtTimes({INT64_MIN, INT64_MAX}));
  EXPECT_EQ(extreme.unit, UINT64_MAX);
  EXPECT_THAT(extreme.steps, ElementsAre(0, 1));
}

TEST(ReportTimes, AreNoneWhenAllAreEqual) {
  EXPECT_EQ(tool::MeasureTimes(AtTimes({3, 3})).unit, 0);
  EXPECT_THAT(tool::MeasureTimes(AtTimes({3, 3})).steps, IsEmpty());
  EXPECT_THAT(tool::MeasureTimes(AtTimes({})).steps, IsEmpty());
}

// --- Text.

TEST(ReportMarkup, EscapesWhatIsMarkupAndShowsWhatIsHidden) {
  EXPECT_EQ(tool::MarkupText("a<b>&\"c'"), "a&#x3c;b&#x3e;&#x26;&#x22;c&#x27;");
  EXPECT_EQ(tool::MarkupText("\x1b[31m\n\x7f\t"), "\\x1b[31m\\x0a\\x7f\\x09");
  EXPECT_EQ(tool::MarkupText("\xc2\x9b\xe2\x80\xae\xef\xbb\xbf\xef\xbf\xbe"),
            "\\x9b\\u202e\\ufeff\\ufffe");
  EXPECT_EQ(tool::MarkupText("\xc3\xa9\xf0\x9f\x8c\x8a"), "&#xe9;&#x1f30a;");
  EXPECT_EQ(tool::MarkupText("\xff|\xed\xa0\x80"), "&#xfffd;|&#xfffd;&#xfffd;&#xfffd;");
  EXPECT_EQ(tool::MarkupText("back\\slash"), "back\\slash");
  EXPECT_EQ(tool::MarkupText(""), "");
}

TEST(ReportMarkup, IsPlainAsciiWhateverTheBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 20, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string markup = tool::MarkupText(bytes);
    const std::string script = tool::ScriptJson({{"x", bytes}});
    for (const char c : markup) ASSERT_TRUE(c >= 0x20 && c < 0x7F && c != '<' && c != '"') << i;
    for (const char c : script) ASSERT_TRUE(c >= 0x20 && c < 0x7F && c != '<' && c != '>') << i;
    ASSERT_TRUE(json::accept(script));
  }
}

TEST(ReportMarkup, KeepsJsonTheSame) {
  const nlohmann::ordered_json value = {{"</script>", "<!-- & --> \xe2\x80\xa8"}};
  EXPECT_EQ(nlohmann::ordered_json::parse(tool::ScriptJson(value)), value);
}

// --- The map in a drawing.

TEST(ReportSizeClasses, HoldEverySizeInOrder) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<tool::SizeClasses::Use> uses(1 + random() % 50);
    for (auto& use : uses) {
      use = {static_cast<std::int64_t>(random() >> (14 + random() % 50)) + 1,
             static_cast<std::int64_t>(1 + random() % 1000)};
    }
    const tool::SizeClasses classes(uses);
    ASSERT_GE(classes.size(), 1U);
    ASSERT_LE(classes.size(), tool::SizeClasses::kMost);
    std::sort(uses.begin(), uses.end(),
              [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    std::vector<bool> used(classes.size());
    std::size_t last = 0;
    for (const auto& use : uses) {
      const std::size_t number = classes.ClassOf(use.bytes);
      ASSERT_GE(number, last);
      ASSERT_LT(number, classes.size());
      used[number] = true;
      last = number;
    }
    ASSERT_THAT(used, ::testing::Each(true));
  }
}

TEST(ReportSizeClasses, AreNamedByTheirPowers) {
  EXPECT_EQ(tool::SizeClasses({{700, 1}}).Name(0), "512 B \xE2\x80\x93 1 KiB");
  EXPECT_EQ(tool::SizeClasses({{std::int64_t{3} << 40, 1}}).Name(0), "2 TiB \xE2\x80\x93 4 TiB");
  EXPECT_EQ(tool::SizeClasses({}).size(), 0U);
}

struct Rectangle {
  double left, top, right, bottom;
};

// Parses "Mx yhwvhh-wz".
std::vector<Rectangle> Rectangles(const std::string& path) {
  std::vector<Rectangle> rectangles;
  const char* at = path.c_str();
  while (*at != '\0') {
    double x = 0, y = 0, width = 0, height = 0, back = 0;
    int length = 0;
    EXPECT_EQ(std::sscanf(at, "M%lf %lfh%lfv%lfh-%lfz%n", &x, &y, &width, &height, &back, &length),
              5)
        << at;
    EXPECT_EQ(width, back);
    if (length == 0) break;
    rectangles.push_back({x, y, x + width, y + height});
    at += length;
  }
  return rectangles;
}

// Divides a rectangle at random into boxes that do not overlap, and leaves some of them out.
void Divide(std::mt19937_64& random, tool::MapBox box, double least,
            std::vector<tool::MapBox>& boxes) {
  const double share = 0.1 + 0.8 * static_cast<double>(random() % 1000) / 1000;
  const double width = box.right - box.left;
  const double height = box.bottom - box.top;
  if (std::max(width, height) < least || random() % 16 == 0) {
    box.number = random() % 3;
    if (random() % 4 > 0) boxes.push_back(box);
    return;
  }
  tool::MapBox second = box;
  if (width > height) {
    box.right = second.left = box.left + share * width;
  } else {
    box.bottom = second.top = box.top + share * height;
  }
  Divide(random, box, least, boxes);
  Divide(random, second, least, boxes);
}

double Area(const std::vector<std::string>& paths) {
  double area = 0;
  for (const std::string& path : paths) {
    for (const Rectangle& box : Rectangles(path)) {
      area += (box.right - box.left) * (box.bottom - box.top);
    }
  }
  return area;
}

TEST(ReportMapPaths, ShowEachBoxWhereItIs) {
  const tool::MapPaths paths =
      tool::DrawMap({{0, 0, 10, 20, 1}, {10.5, 0, 20, 2, 0}, {-5, 30, 4, 50, 0}}, 2, 20, 40);
  EXPECT_EQ(paths.boxes[1], "M0 0h10v20h-10z");
  EXPECT_EQ(paths.cells[0], "M10.5 0h9.5v2h-9.5z");
  EXPECT_EQ(paths.boxes[0], "M0 30h4v10h-4z");
  EXPECT_EQ(paths.skyline[5], 0);
  EXPECT_EQ(paths.skyline[19], 0);
}

TEST(ReportMapPaths, KeepTheAreaAndStayShort) {
  std::mt19937_64 random(3);
  for (const double least : {60.0, 10.0, 2.0, 0.5}) {
    std::vector<tool::MapBox> boxes;
    Divide(random, {0, 0, 600, 250, 0}, least, boxes);
    double area = 0;
    for (const tool::MapBox& box : boxes) area += (box.right - box.left) * (box.bottom - box.top);
    const tool::MapPaths paths = tool::DrawMap(boxes, 3, 600, 250);
    EXPECT_NEAR(Area(paths.boxes) + Area(paths.cells), area, 0.03 * 600 * 250) << least;
    std::size_t length = 0;
    for (std::size_t i = 0; i < 3; ++i) length += paths.boxes[i].size() + paths.cells[i].size();
    EXPECT_LT(length, 600'000U) << boxes.size();
  }
}

// --- The command line.

std::string Between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t begin = text.find(before);
  EXPECT_NE(begin, std::string::npos) << before;
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + before.size();
  return text.substr(from, text.find(after, from) - from);
}

class Report : public CommandLine {
 protected:
  json JsonOf(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"report", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = Run(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::string Output(const std::string& name) { return folder_ / name; }

  // Three stacks, reservations, marks, a failure.
  std::string TaggedTrace() {
    TraceBuilder builder(TraceFormat::kNative);
    EXPECT_TRUE(builder.Reserve({0, 8192}, "", 0).ok());
    builder.Mark("step", 1);
    builder.SetTag(*builder.Frame(*builder.Frame(0, "main", "m.py", 1), "f;g", "", 0));
    EXPECT_TRUE(builder.Allocate("a", 1000, Hint::kResident, "s", 2).ok());
    builder.SetTag(0);
    EXPECT_TRUE(builder.Allocate("b", 512, Hint::kOffloadable, "s", 3).ok());
    EXPECT_TRUE(builder.Failure(1 << 20, Hint::kResident, "s", 4).ok());
    EXPECT_TRUE(builder.Free("a", "s", 5));
    EXPECT_TRUE(builder.Reserve({0, -4096}, "", 6).ok());
    const std::string path = Output("tagged.tide");
    EXPECT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
    return path;
  }
};

TEST_F(Report, HoldsTheTraceAndItsLayouts) {
  const std::string path = TaggedTrace();
  const std::string page = Output("x.html");
  const json answer = JsonOf({path, "-o", page, "--policy", "first-fit", "--policy", "best-fit"});
  EXPECT_EQ(answer["output"], page);
  const std::string html = Contents(page);
  const json facts = json::parse(Between(html, "id=\"facts\">", "</script>"));
  EXPECT_EQ(facts["policies"].size(), 2);
  EXPECT_EQ(facts["policies"][0]["policy"], "first-fit");
  EXPECT_EQ(facts["trace"], answer["trace"]);
  std::string columns;
  ASSERT_TRUE(absl::Base64Unescape(Between(html, "id=\"data-trace\">", "</script>"), &columns));
  const Trace trace = *ReadTrace(path);
  ExpectColumnsOf(trace, tool::MeasureTimes(trace), Inflated(columns, 1 << 16));
  std::string offsets;
  ASSERT_TRUE(absl::Base64Unescape(Between(html, "id=\"data-layout-1\">", "</script>"), &offsets));
  EXPECT_THAT(ColumnReader(Inflated(offsets, 100)).Numbers(), ElementsAre(1, 3));
}

TEST_F(Report, GivesTheFiguresOfSize) {
  const std::string trace = testing::ExampleTraces() / "vgg16-b4-sgd.rmm.csv.gz";
  const json sizes = json::parse(Run({"size", trace, "--json"}).out);
  json answer = JsonOf({trace, "-o", Output("x.html")});
  EXPECT_EQ(answer["trace"], sizes["trace"]);
  for (json& policy : answer["policies"]) {
    EXPECT_EQ(policy["at_most"], false);
    policy.erase("at_most");
  }
  EXPECT_EQ(answer["policies"], sizes["policies"]);
  EXPECT_EQ(answer["headline"],
            "801.4 MiB are live at the peak. planned needs 801.4 MiB, best-fit 866.2 MiB, "
            "high-end-offload 866.2 MiB, exact-fit-first 891.0 MiB, first-fit 964.2 MiB.");
}

// A trace with more events than the limit of unbounded searches.
TEST_F(Report, BoundsTheSearchInLongTracesAndSaysSo) {
  std::mt19937_64 random(4);
  std::string rows = "op,id,size,hint\n";
  std::vector<int> live;
  for (int id = 0; id < 101'000; ++id) {
    absl::StrAppend(&rows, "a,", id, ",", 512 + random() % (1 << 20), ",\n");
    live.push_back(id);
    if (live.size() < 200) continue;
    std::swap(live[random() % live.size()], live.back());
    absl::StrAppend(&rows, "f,", live.back(), ",,\n");
    live.pop_back();
  }
  const std::string trace = File("long.csv", rows);
  const json answer = JsonOf({trace, "-o", Output("x.folded")});
  int bounded = 0;
  for (const json& policy : answer["policies"]) {
    if (policy["at_most"]) ++bounded;
    if (policy["policy"] == "planned") continue;  // the tool plans again
    const Outcome replay = Run({"replay", trace, "--pool", policy["pool_bytes"].dump(), "--policy",
                                policy["policy"].get<std::string>()});
    EXPECT_EQ(replay.status, 0) << policy;
  }
  EXPECT_GT(bounded, 0);
  Run({"report", trace, "-o", Output("x.html"), "--policy", "best-fit"});
  const json facts = json::parse(Between(Contents(Output("x.html")), "id=\"facts\">", "</script>"));
  EXPECT_THAT(facts["table"][1][1].get<std::string>(), StartsWith("at most "));
}

TEST_F(Report, SaysWhetherTheBudgetSuffices) {
  // Peak live 4,608 bytes; a pool of 4,608 suffices.
  const std::string paper = File("paper.csv", kPaper);
  const auto headline = [&](const std::string& trace, const std::string& budget) {
    const json answer =
        JsonOf({trace, "--pool", budget, "-o", Output("x.html"), "--policy", "best-fit"});
    EXPECT_EQ(answer["budget_bytes"].dump(), budget);
    return answer["headline"].get<std::string>();
  };
  EXPECT_EQ(
      headline(paper, "5632"),
      "4.5 KiB are live at the peak. best-fit needs 4.5 KiB. The budget of 5.5 KiB suffices, with "
      "1.0 KiB to spare.");
  EXPECT_THAT(headline(paper, "4608"), HasSubstr("with 0 B to spare"));
  EXPECT_THAT(headline(paper, "0"),
              HasSubstr("No placement fits the budget of 0 B: 4.5 KiB must be off the device"));
  // x and z are live around a hole that is too small for w.
  const std::string holes = File("holes.csv",
                                 "op,id,size,hint\na,x,512,\na,y,512,\na,z,512,\nf,x,,\nf,z,,\n"
                                 "a,w,1024,\n");
  EXPECT_THAT(headline(holes, "1536"),
              HasSubstr("The live bytes fit the budget of 1.5 KiB, but no policy's smallest pool "
                        "does: 512 B more are needed."));
  EXPECT_THAT(headline(holes, "2048"),
              HasSubstr("1.5 KiB are live at the peak. best-fit needs 2.0 KiB."));
}

TEST_F(Report, SaysWhatTheRecordedAllocatorReserved) {
  const json answer = JsonOf({TaggedTrace(), "-o", Output("x.html")});
  EXPECT_EQ(answer["reserved_peak_bytes"], 8192);
  EXPECT_THAT(answer["headline"].get<std::string>(),
              HasSubstr("The recorded allocator reserved 8.0 KiB, 5.333x."));
  EXPECT_EQ(JsonOf({File("p.csv", kPaper), "-o", Output("y.html")})["reserved_peak_bytes"],
            nullptr);
}

TEST_F(Report, WritesCollapsedStacksOfThePeak) {
  const json answer = JsonOf({TaggedTrace(), "-o", Output("x.folded")});
  EXPECT_EQ(Contents(Output("x.folded")), "[no stack] 512\nmain (m.py:1);f,g 1024\n");
  EXPECT_EQ(answer["trace"]["peak_live_bytes"], 1536);
}

TEST_F(Report, WritesDrawings) {
  const Outcome outcome = Run({"report", TaggedTrace(), "-o", Output("x.svg"), "--pool", "1MiB"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("x.svg"));
  const std::string svg = Contents(Output("x.svg"));
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("best-fit 1.0 MiB"));
  EXPECT_THAT(svg, HasSubstr("budget 1.0 MiB"));
  EXPECT_THAT(svg, HasSubstr("reserved 8.0 KiB"));
  EXPECT_THAT(svg, HasSubstr("@media(prefers-color-scheme:dark)"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
}

TEST_F(Report, OfAnExampleIsADrawingOfModestSize) {
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".gz")) {
    EXPECT_EQ(Run({"report", path, "-o", Output("x.svg"), "--policy", "first-fit"}).status, 0);
    EXPECT_LT(std::filesystem::file_size(Output("x.svg")), 150'000U) << path;
  }
}

TEST_F(Report, OfATraceWithoutAllocationsSaysSo) {
  const std::string trace = File("m.csv", "op,id,size,hint\nm,only,,\n");
  for (const char* name : {"x.html", "x.svg", "x.folded"}) {
    const json answer = JsonOf({trace, "-o", Output(name)});
    EXPECT_THAT(answer["headline"].get<std::string>(), HasSubstr("nothing to place"));
    EXPECT_TRUE(std::filesystem::exists(Output(name)));
  }
}

TEST_F(Report, ShowsHostileNamesAsText) {
  const std::string evil = "</script><script>alert(1)</script>\x1b[31m\xff{{script}}'\"&";
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetThread(evil);
  builder.SetTag(*builder.Frame(0, evil, evil, 1));
  builder.Mark(evil, 0);
  ASSERT_TRUE(builder.Allocate(evil, 100, Hint::kResident, evil, 1).ok());
  const std::string path = Output("<b>&'.tide");
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
  for (const char* name : {"x.html", "x.svg"}) {
    ASSERT_EQ(Run({"report", path, "-o", Output(name)}).status, 0);
    const std::string text = Contents(Output(name));
    EXPECT_THAT(text, Not(HasSubstr("alert(1)</script>")));
    EXPECT_THAT(text, Not(HasSubstr("<b>&")));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\xff")));
    EXPECT_THAT(text, HasSubstr("&#x3c;b&#x3e;&#x26;&#x27;.tide"));
  }
  const Outcome outcome = Run({"report", path, "-o", Output("x.html")});
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

// Shows traces of extreme values, or refuses them with an error.
TEST_F(Report, SurvivesAnyTrace) {
  int shown = 0;
  const auto seeds = static_cast<std::uint64_t>(testing::Rounds(24));
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const std::string path = Output("random.tide");
    Trace trace = testing::RandomTrace(seed).Make(static_cast<int>(240 * seed / seeds));
    for (TraceFailure& failure : trace.failures) failure.bytes >>= 20;
    ASSERT_TRUE(WriteTrace(trace, TraceFormat::kNative, path).ok());
    const std::string output = Output(absl::StrCat("x", seed, seed % 2 == 0 ? ".html" : ".svg"));
    const Outcome outcome = Run({"report", path, "-o", output, "--align", "512"});
    EXPECT_EQ(std::filesystem::exists(output), outcome.status == 0);
    if (outcome.status == 0) {
      ++shown;
    } else {
      EXPECT_EQ(outcome.status, 1) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("expected"));
    }
  }
  EXPECT_GT(shown, testing::Rounds(10));
}

TEST_F(Report, RefusesBadArguments) {
  const std::string trace = File("paper.csv", kPaper);
  EXPECT_THAT(ErrorOf({"report", trace, "-o", Output("x.pdf")}),
              HasSubstr(".html, .svg or .folded"));
  EXPECT_THAT(ErrorOf({"report", trace, "-o", "/dev/stdout"}), HasSubstr(".html, .svg or .folded"));
  EXPECT_THAT(ErrorOf({"report", trace, "-o", Output("x.html"), "--policy", "none"}),
              HasSubstr("best-fit"));
  EXPECT_THAT(ErrorOf({"report", trace, "-o", Output("x.html"), "--pool", "-1"}),
              HasSubstr("--pool: '-1' is negative"));
  EXPECT_THAT(ErrorOf({"report", trace, "-o", Output("x.html"), "--align", "3"}),
              HasSubstr("power of two"));
  EXPECT_THAT(ErrorOf({"report", Output("none"), "-o", Output("x.html")}), HasSubstr("none: "));
  EXPECT_THAT(ErrorOf({"report", trace, "-o", Output("none/x.html")}), HasSubstr("x.html: "));
  EXPECT_FALSE(std::filesystem::exists(Output("x.html")));
}

TEST_F(Report, DoesNotReplaceTheTrace) {
  const std::string trace = File("trace.html", kPaper);
  EXPECT_THAT(ErrorOf({"report", trace, "-o", trace}), HasSubstr("is the trace itself"));
  EXPECT_EQ(Contents(trace), kPaper);
}

}  // namespace
}  // namespace tidepool

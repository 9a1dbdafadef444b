// SPDX-License-Identifier: Apache-2.0
// Tests of the native format: it holds any trace, loses only the part that was cut off, and rejects
// damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "lib/trace/files/formats.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/native/native_encoder.h"
#include "lib/trace/native/native_trace.h"
#include "tests/support/random_trace.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using native::NativeEncoder;
using ::testing::AllOf;
using testing::ExpectSame;
using ::testing::HasSubstr;
using testing::RandomTrace;
using ::testing::StartsWith;

constexpr NativeEncoder::Context kNowhere;

std::string Native(const Trace& trace) {
  std::ostringstream bytes;
  EXPECT_TRUE(native::WriteNative(trace, bytes).ok());
  return bytes.str();
}

std::string InFormat(const Trace& trace, TraceFormat format) {
  for (const trace_files::Format& known : trace_files::Formats()) {
    if (known.format != format) continue;
    std::ostringstream bytes;
    EXPECT_TRUE(known.write(trace, bytes).ok());
    return bytes.str();
  }
  return "";
}

std::string NativeErrorOf(const std::string& contents) {
  const auto trace = ParseTrace(contents, "test.tide");
  EXPECT_FALSE(trace.ok());
  const std::string message(trace.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::string Header() { return std::string(NativeEncoder(512, TraceFormat::kNative).output()); }

std::string Number(std::uint32_t value) {
  std::string bytes(4, '\0');
  native::Store32(value, bytes.data());
  return bytes;
}

// Returns a block with correct checksums.
std::string NativeBlock(const std::string& contents) {
  const std::string sizes =
      Number(static_cast<std::uint32_t>(contents.size())) + Number(native::Checksum(contents));
  return sizes + Number(native::Checksum(sizes)) + contents;
}

// Returns a file with one block of these bytes, after names for stream 0 and thread 0.
std::string FileWith(const std::vector<unsigned>& items) {
  std::string contents("\0\x05\0\x06\0", 5);
  for (const unsigned byte : items) contents.push_back(static_cast<char>(byte));
  return Header() + NativeBlock(contents);
}

// Several blocks, and the length of the file after each.
struct Recording {
  std::string bytes;
  std::vector<std::size_t> ends;
  std::vector<std::size_t> events;
};

Recording RecordInBlocks(int blocks) {
  NativeEncoder encoder(512, TraceFormat::kNative);
  Recording recording;
  const auto end_block = [&](std::size_t events) {
    encoder.EndBlock();
    recording.ends.push_back(encoder.output().size());
    recording.events.push_back(events);
  };
  end_block(0);
  encoder.StreamName("7");
  encoder.ThreadName("42");
  encoder.MarkName("step");
  end_block(0);
  std::size_t events = 0;
  for (int block = 0; block < blocks; ++block) {
    encoder.SetAddressShift(block % 2 == 0 ? 9 : 0);
    for (std::uint64_t i = 0; i < 3; ++i) {
      const NativeEncoder::Context context{block * 1000};
      encoder.Allocate(context, 0x7f0000000000 + i * 512, {1000, Hint::kOffloadable});
      encoder.Free(context, encoder.allocations() - 1);
    }
    encoder.Mark(kNowhere, 0);
    events += 7;
    end_block(events);
  }
  encoder.End(false);
  recording.bytes = encoder.output();
  return recording;
}

TEST(AddressText, IsHexadecimalWithoutLeadingZeros) {
  std::mt19937_64 random(1);
  for (int bits = 0; bits < 64; ++bits) {
    const std::uint64_t address = random() >> bits;
    std::uint64_t parsed = 0;
    const trace::AddressText text(address);
    EXPECT_EQ(text.text(), absl::StrCat("0x", absl::Hex(address)));
    ASSERT_TRUE(trace::ParseAddress(text.text(), &parsed)) << text.text();
    EXPECT_EQ(parsed, address);
  }
  EXPECT_EQ(trace::AddressText(0).text(), "0x0");
  for (const std::string text :
       {"", "0x", "7f", "0x00", "0x07f", "0xA", "0Xa", "0x-1", "0x7f ", "0x11112222333344445"}) {
    std::uint64_t parsed = 0;
    EXPECT_FALSE(trace::ParseAddress(text, &parsed)) << text;
  }
}

TEST(Native, HoldsAnyTrace) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Trace trace = RandomTrace(seed).Make(static_cast<int>(seed * 3));
    const auto again = ParseTrace(Native(trace), "test");
    ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << again.status();
    EXPECT_EQ(again->format, TraceFormat::kNative);
    ExpectSame(*again, trace);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(Native, HoldsATraceOfManyBlocks) {
  const Trace trace = RandomTrace(1).Make(100'000);
  const std::string bytes = Native(trace);
  ASSERT_GT(bytes.size(), 5 * native::kBlockBytes);
  const auto again = ParseTrace(bytes, "test");
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(*again, trace);
}

TEST(Native, HoldsATraceWithoutEvents) {
  const auto trace = ParseTrace(Native(Trace()), "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(trace->events.empty());
  EXPECT_FALSE(trace->ended_early);
}

TEST(Native, RefusesToWriteWhatItCannotRead) {
  std::ostringstream bytes;
  Trace trace;
  trace.default_alignment = 3;
  EXPECT_THAT(std::string(native::WriteNative(trace, bytes).message()),
              HasSubstr("alignment 3, expected"));
  trace = Trace();
  trace.mark_names.Add(std::string(native::kLongestText, 'x'));
  EXPECT_TRUE(native::WriteNative(trace, bytes).ok());
  EXPECT_TRUE(ParseTrace(bytes.str(), "test").ok());
  trace.mark_names.Add(std::string(native::kLongestText + 1, 'x'));
  EXPECT_THAT(std::string(native::WriteNative(trace, bytes).message()),
              HasSubstr("a name of 1048577 bytes, expected"));
}

// Converting other formats to native and back loses only the order of rows.
TEST(Native, LosesNothingOnTheWayBetweenOtherFormats) {
  std::vector<std::string> files = {
      "op,id,size,hint\na,x,100,\na,0x10,200,high\nm,forward,,\nf,x,0,\na,x,300,\nm,forward,,\n",
      "op,id,size,hint,stream,time_ns\na,x,100,,s1,-5\na,y,1,high,s2,9\nm,,,,,4\nf,x,,,,7\n",
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,00:00:01:000002,allocate,0x10,1024,0x0\n2,01:02:03:000004,allocate,0x20,2048,0x7\n"
      "1,01:02:03:000005,free,0x10,1024,0x0\n2,01:02:03:000006,allocate failure,0x0,4096,0x0\n"
      "1,01:02:03:000007,free,0x99,1024,0x0\n",
      "id,lower,upper,size\nlate,5,9,10\nfirst,0,5,20\nlong,0,9,30\n"};
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".gz")) {
    files.push_back(InFormat(*ReadTrace(path), ReadTrace(path)->format));
  }
  for (const std::string& file : files) {
    Trace direct = *ParseTrace(file, "test");
    const auto detour = ParseTrace(Native(direct), "test");
    ASSERT_TRUE(detour.ok()) << detour.status();
    direct.row_order.clear();
    ExpectSame(*detour, direct);
    for (const trace_files::Format& format : trace_files::Formats()) {
      if (direct.events.front().time < 0 && format.format == TraceFormat::kRmmCsv) continue;
      if (format.format == TraceFormat::kPyTorchSnapshot && !HasAddresses(direct)) continue;
      EXPECT_EQ(InFormat(*detour, format.format), InFormat(direct, format.format)) << format.name;
    }
  }
}

TEST(Native, IsCompact) {
  int traces = 0;
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".rmm.csv.gz")) {
    const Trace trace = *ReadTrace(path);
    EXPECT_LE(Native(trace).size(), 8 * trace.events.size()) << path;
    ++traces;
  }
  EXPECT_GE(traces, 3);
}

TEST(Native, IsReadUpToWhereItWasCut) {
  const Recording recording = RecordInBlocks(4);
  const auto whole = ParseTrace(recording.bytes, "test");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->events.size(), recording.events.back());
  EXPECT_FALSE(whole->ended_early);
  std::size_t block = 0;
  for (std::size_t length = native::kHeaderBytes; length < recording.bytes.size(); ++length) {
    while (block + 1 < recording.ends.size() && recording.ends[block + 1] <= length) ++block;
    const auto cut = ParseTrace(recording.bytes.substr(0, length), "test");
    ASSERT_TRUE(cut.ok()) << length << ": " << cut.status();
    EXPECT_EQ(cut->events.size(), recording.events[block]) << length;
    EXPECT_TRUE(cut->ended_early) << length;
  }
  for (std::size_t length = 0; length < native::kHeaderBytes; ++length) {
    NativeErrorOf(recording.bytes.substr(0, length));
  }
}

TEST(Native, RefusesEveryFlippedBit) {
  const Recording recording = RecordInBlocks(3);
  for (std::size_t i = 0; i < recording.bytes.size() * 8; ++i) {
    std::string flipped = recording.bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ 1 << i % 8);
    EXPECT_FALSE(ParseTrace(flipped, "test").ok()) << "bit " << i;
  }
}

TEST(Native, NamesTheBlockThatIsDamaged) {
  const Recording recording = RecordInBlocks(2);
  std::string damaged = recording.bytes;
  damaged[recording.ends[2] - 1] ^= 1;
  EXPECT_THAT(NativeErrorOf(damaged),
              AllOf(StartsWith("test.tide: block at byte " + std::to_string(recording.ends[1]) +
                               ": checksum 0x"),
                    HasSubstr(", expected 0x")));
  EXPECT_THAT(NativeErrorOf(recording.bytes + "x"),
              StartsWith("test.tide: bytes after the end of the trace"));
}

TEST(Native, RefusesHeadersOfOthers) {
  const auto header = [](std::uint32_t version, std::uint32_t alignment, std::uint32_t format) {
    const std::string fields =
        std::string(native::kMagic) + Number(version) + Number(alignment) + Number(format);
    return fields + Number(native::Checksum(fields));
  };
  EXPECT_TRUE(ParseTrace(header(1, 512, 0), "test").ok());
  EXPECT_TRUE(ParseTrace(header(2, 512, 5), "test").ok());
  EXPECT_TRUE(ParseTrace(header(3, 512, 5), "test").ok());
  EXPECT_TRUE(ParseTrace(header(4, 512, 5), "test").ok());
  for (const std::uint32_t version : {0, 5}) {
    EXPECT_THAT(NativeErrorOf(header(version, 512, 0)),
                StartsWith(absl::StrCat("test.tide: a native trace of version ", version,
                                        ", expected version 1 to 4")));
  }
  EXPECT_THAT(NativeErrorOf(header(1, 3, 0)), StartsWith("test.tide: alignment 3 and"));
  EXPECT_THAT(NativeErrorOf(header(1, 512, 9)), HasSubstr("original format 9"));
  EXPECT_THAT(NativeErrorOf(header(1, 512, 0).substr(0, 20)),
              StartsWith("test.tide: the file is cut off: 20 bytes, expected a header of 24"));
  EXPECT_THAT(NativeErrorOf(header(1, 512, 0).substr(0, 23) + "?"),
              StartsWith("test.tide: a damaged header: checksum"));
}

TEST(Native, ReadsRegionsAndTheirPauses) {
  const std::vector<unsigned> items = {
      0x17, 1, 'k',  0x17, 1,    'w',     // regions "k" and "w"
      0x1e, 2, 0x00, 2,    1,    1,       // an allocation in "w"
      0x14, 2, 1,    4,    0x03, 2,   9,  // a pause of "w" to disk, a failure in it
      0x01, 2, 0,                         // a free while it sleeps
      0x14, 2, 1,    0,                   // the resume
      0x1e, 0, 0x00, 2,    1,    1,       // an allocation in no region
      0x14, 2, 0,    2,    0x14, 2,   0, 0, 0x14, 2, 1, 5};
  const auto trace = ParseTrace(FileWith(items), "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->region_names.size(), 2);
  EXPECT_EQ(trace->region_names[1], "w");
  EXPECT_EQ(trace->allocations[0].region, 2);
  EXPECT_EQ(trace->allocations[1].region, 0);
  EXPECT_EQ(trace->failures[0].region, 2);
  ASSERT_EQ(trace->pauses.size(), 3);
  EXPECT_EQ(trace->pauses[0].region, 2);
  EXPECT_EQ(trace->pauses[0].mode, SleepMode::kDisk);
  EXPECT_EQ(trace->pauses[1].region, 1);
  EXPECT_EQ(trace->pauses[1].mode, SleepMode::kDiscard);
  EXPECT_EQ(trace->pauses[2].mode, SleepMode::kStore);
  std::vector<std::uint32_t> sleeps;
  for (const TraceEvent& event : trace->events) {
    if (event.kind == TraceEvent::Kind::kPause) sleeps.push_back(10 + event.index);
    if (event.kind == TraceEvent::Kind::kResume) sleeps.push_back(20 + event.index);
  }
  EXPECT_EQ(sleeps, (std::vector<std::uint32_t>{10, 20, 11, 21, 12}));
}

// The encoder ends blocks anywhere, and each block begins without a region.
TEST(Native, KeepsRegionsAcrossBlocks) {
  TraceBuilder builder(TraceFormat::kNative);
  for (int i = 0; i < 60'000; ++i) {
    ASSERT_TRUE(builder.SetRegion(i / 9 % 3 == 0 ? "" : absl::StrCat("r", i / 9 % 3)).ok());
    ASSERT_TRUE(builder.Allocate(absl::StrCat("0x", absl::Hex(i * 512)), 100, {}, "", i).ok());
  }
  const Trace trace = builder.Build();
  const std::string bytes = Native(trace);
  ASSERT_GT(bytes.size(), 3 * native::kBlockBytes);
  const auto again = ParseTrace(bytes, "test");
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(*again, trace);
}

// A trace that ends in the block of a pause is read up to the block before.
TEST(Native, IsReadUpToAPauseThatWasCut) {
  NativeEncoder encoder(512, TraceFormat::kNative);
  encoder.StreamName("7");
  encoder.ThreadName("42");
  encoder.RegionName("weights");
  encoder.Allocate(kNowhere, 0x7f0000000000, {1000, Hint::kResident, 1});
  encoder.EndBlock();
  const std::size_t before = encoder.output().size();
  encoder.Pause(kNowhere, {1, SleepMode::kCompressed});
  encoder.EndBlock();
  const std::string bytes(encoder.output());
  for (std::size_t length = before; length <= bytes.size(); ++length) {
    const auto cut = ParseTrace(bytes.substr(0, length), "test");
    ASSERT_TRUE(cut.ok()) << length << ": " << cut.status();
    EXPECT_EQ(cut->pauses.size(), length == bytes.size() ? 1 : 0) << length;
    EXPECT_EQ(cut->allocations.size(), 1) << length;
    EXPECT_TRUE(cut->ended_early) << length;
  }
}

TEST(Native, RefusesNamesOfRegionsThatItCannotRead) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{256}, native::kLongestText}) {
    Trace trace;
    trace.region_names.Add(std::string(size, 'x'));
    std::ostringstream bytes;
    EXPECT_THAT(std::string(native::WriteNative(trace, bytes).message()),
                HasSubstr(absl::StrCat("a region with a name of ", size, " bytes, expected 1 to")));
    NativeEncoder encoder(512, TraceFormat::kNative);
    encoder.RegionName(std::string(size, 'x'));
    encoder.EndBlock();
    EXPECT_THAT(NativeErrorOf(std::string(encoder.output())),
                HasSubstr(absl::StrCat("a region with a name of ", size, " bytes, expected 1 to")));
  }
}

TEST(Native, RefusesMoreRegionsThanItCanNumber) {
  NativeEncoder encoder(512, TraceFormat::kNative);
  TraceBuilder builder(TraceFormat::kNative);
  for (std::size_t i = 0; i < kMostTraceRegions; ++i) {
    encoder.RegionName(absl::StrCat(i));
    ASSERT_TRUE(builder.SetRegion(absl::StrCat(i)).ok());
  }
  encoder.EndBlock();
  EXPECT_TRUE(ParseTrace(encoder.output(), "test").ok());
  EXPECT_TRUE(builder.SetRegion("7").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(builder.SetRegion("x")));
  encoder.RegionName("x");
  encoder.EndBlock();
  EXPECT_THAT(NativeErrorOf(std::string(encoder.output())), HasSubstr("more regions than a trace"));
}

TEST(Native, RefusesItemsThatMakeNoTrace) {
  EXPECT_TRUE(ParseTrace(FileWith({0x00, 2, 1, 1, 0x01, 2, 0}), "test").ok());
  const std::vector<std::pair<std::vector<unsigned>, std::string>> cases = {
      {{0x0b, 2}, "a number is cut off by the end of its block"},
      {{0x0d, 1}, "unknown calling frame 1: the file has defined 1 so far"},
      {{0x0d, 0, 0}, "unknown text of a frame 0: "},
      {{0x0c, 1, 'x', 0x0d, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f}, "line 8589934591"},
      {{0x0e, 1}, "unknown tag 1: "},
      {{0x0f, 3}, "device -2, expected -1"},
      {{0x0f, 2, 0x0f, 2}, "device 1, expected -1 to 2^31 - 1, ascending"},
      {{0x1f, 0xfe, 0xff, 0xff, 0xff, 0x1f}, "device 4294967295"},
      {{0x81, 0, 0}, "an item with unknown flags: its first byte is 129"},
      {{0x00}, "a number is cut off by the end of its block"},
      {{0x00, 2, 1, 0}, "size 0, expected 1 to"},
      {{0x00, 2, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x04}, "size 2251799813685248"},
      {{0x00, 2, 2, 1, 0x00, 2, 0, 1}, "id '0x1' is allocated again while it is live"},
      {{0x80, 2, 1, 1, 'x', 0x80, 2, 1, 1, 'x'}, "id 'x' is allocated again while it is live"},
      {{0x80, 2, 1, 3, '0', 'x', '1'}, "id '0x1' as text"},
      {{0x01, 2, 0}, "a free of the allocation before the last 0, which is not live"},
      {{0x00, 2, 1, 1, 0x01, 2, 0, 0x01, 2, 0}, "a free of the allocation before the last 0,"},
      {{0x02, 2, 0}, "unknown mark 0: "},
      {{0x04, 2, 1}, "unknown stream 1: "},
      {{0x20, 1, 2, 1, 1}, "unknown stream 1: "},
      {{0x40, 1, 2, 1, 1}, "unknown thread 1: "},
      {{0x07, 9, 'x'}, "a text of 9 bytes, expected at most 1"},
      {{0x03, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "size 1844674407"},
      {{0x03, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
       "a number of more than 64 bits"},
      {{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x08, 1}, "a count beyond"},
      {{0x0a, 0x02, 0, 0}, "items after the end"},
      {{0x1c, 1, 'x'}, "allocator setting 'x', expected NAME=VALUE"},
      {{0x1e, 1}, "unknown region 1: the file has defined 1 so far"},
      {{0x14, 2, 0, 1}, "unknown region 0: the file has defined 0 so far"},
      {{0x17, 1, 'k', 0x17, 1, 'k'}, "region 'k' is named again"},
      {{0x17, 1, 'k', 0x14, 2, 0, 6}, "a pause of mode 6, expected 0 to 5"},
      {{0x17, 1, 'k', 0x14, 2, 0, 0}, "a resume of region 'k', which does not sleep"},
      {{0x17, 1, 'k', 0x14, 2, 0, 1, 0x14, 2, 0, 1}, "region 'k' sleeps, expected its resume"},
      {{0x17, 1, 'k', 0x14, 2, 0, 1, 0x1e, 1, 0x00, 2, 1, 1}, "region 'k' sleeps, expected its"},
      {{0x94, 2, 0, 1}, "an item with unknown flags: its first byte is 148"},
      {{0x19, 1, 0x0a}, "1 allocations from before the recording, expected at most the 0"},
      {{0x83, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
       "18446744073709551615 free bytes of the device, expected less than 2^63"},
  };
  for (const auto& [items, error] : cases) {
    EXPECT_THAT(NativeErrorOf(FileWith(items)),
                StartsWith("test.tide: block at byte 24: " + error));
  }
  EXPECT_THAT(NativeErrorOf(Header() + NativeBlock("")), HasSubstr("no valid address shift"));
  EXPECT_THAT(NativeErrorOf(Header() + NativeBlock("\x40")), HasSubstr("no valid address shift"));
  EXPECT_THAT(NativeErrorOf(Header() + NativeBlock(std::string("\0\0\2\1\1", 5))),
              HasSubstr("an event before the name of its stream or thread"));
}

// Sizes claimed in a short file must not reserve memory.
TEST(Native, AllocatesNoMoreThanAFileHolds) {
  const auto peak = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  const std::vector<unsigned> huge = {0xff, 0xff, 0xff, 0xff, 0x0f};
  for (const unsigned item :
       {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e, 0x80}) {
    std::vector<unsigned> items = {item};
    for (int i = 0; i < 4; ++i) items.insert(items.end(), huge.begin(), huge.end());
    EXPECT_FALSE(ParseTrace(FileWith(items), "test").ok()) << item;
  }
  for (const std::uint32_t size : {native::kMostBlockBytes, std::size_t{UINT32_MAX}}) {
    const std::string sizes = Number(size) + Number(0);
    const auto trace = ParseTrace(Header() + sizes + Number(native::Checksum(sizes)), "test");
    EXPECT_EQ(trace.ok(), size == native::kMostBlockBytes) << size;
  }
  EXPECT_LT(peak() - before, 64 << 10);
}

TEST(Native, IsWrittenAndReadByPath) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tidepool-native-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Trace trace = RandomTrace(7).Make(5000);
  for (const std::string name : {"x.tide", "x.tide.gz"}) {
    ASSERT_TRUE(WriteTrace(trace, TraceFormat::kNative, folder / name).ok());
    const auto again = ReadTrace(folder / name);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*again, trace);
  }
  EXPECT_LT(std::filesystem::file_size(folder / "x.tide.gz"),
            std::filesystem::file_size(folder / "x.tide"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tidepool

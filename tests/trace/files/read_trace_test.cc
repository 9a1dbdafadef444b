// SPDX-License-Identifier: Apache-2.0
// Tests of all readers: the meaning of each format, and errors of one line with file and line
// number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "lib/base/io/byte_source.h"
#include "tests/support/shared_files.h"
#include "tests/support/temporary_files.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Gzip(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns all events in one line: kind, id, and for allocations bytes and hint.
std::string DumpOf(const Trace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark) {
      text += "m " + std::string(trace.mark_names[event.index]);
    } else if (event.kind == TraceEvent::Kind::kFailure) {
      text += absl::StrCat("o ", trace.failures[event.index].bytes);
    } else {
      text += event.kind == TraceEvent::Kind::kAllocate ? "a " : "f ";
      text += std::string(trace.allocation_ids[event.index]);
    }
    if (event.kind == TraceEvent::Kind::kAllocate) {
      const TraceAllocation& allocation = trace.allocations[event.index];
      text += " " + std::to_string(allocation.bytes) +
              (allocation.hint == Hint::kOffloadable ? "!" : "");
    }
    text += "; ";
  }
  return text;
}

// Blank lines. A stop is requested when the 10th piece of them is read.
class StoppingSource : public io::ByteSource {
 public:
  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    std::memset(buffer, '\n', size);
    if (++reads_ == 10) stop_.request_stop();
    return size;
  }
  std::uint64_t file_bytes() const override { return 0; }
  std::stop_token token() const { return stop_.get_token(); }
  int reads() const { return reads_; }

 private:
  std::stop_source stop_;
  int reads_ = 0;
};

TEST(StoppableTest, ReadsUntilTheStop) {
  auto endless = std::make_unique<StoppingSource>();
  const StoppingSource& source = *endless;
  const auto stoppable = io::Stoppable(std::move(endless), source.token());
  std::string buffer(100, ' ');
  absl::StatusOr<std::size_t> read = 0;
  while (read.ok()) read = stoppable->Read(buffer.data(), buffer.size());
  EXPECT_TRUE(absl::IsCancelled(read.status()));
  EXPECT_EQ(source.reads(), 10);
}

TEST(ReadTraceTest, AStopEndsReadingInEveryFormat) {
  std::stop_source stopped;
  stopped.request_stop();
  const std::stop_source running;
  ReadOptions runs;
  runs.stop = running.get_token();
  ReadOptions stops;
  stops.stop = stopped.get_token();
  const Trace trace = *ParseTrace("op,id,size,hint\na,1,1000,\nf,1,,\n", "test");
  for (const char* name : {"native", "rmm-csv", "operation-csv", "lifetime-csv", "chrome-trace"}) {
    const std::string path = TemporaryFile("stopped_trace");
    ASSERT_TRUE(WriteTrace(trace, *TraceFormatFromName(name), path).ok());
    EXPECT_TRUE(ReadTrace(path, runs).ok()) << name;
    EXPECT_EQ(ReadTrace(path, stops).status(), absl::CancelledError("interrupted")) << name;
  }
}

std::string OneLine(const std::string& contents) {
  const auto trace = ParseTrace(contents, "test");
  return trace.ok() ? DumpOf(*trace) : std::string(trace.status().message());
}

std::string ErrorOfRows(const std::string& contents) {
  const auto trace = ParseTrace(contents, "test.csv");
  EXPECT_FALSE(trace.ok()) << contents;
  const std::string message(trace.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

const char kOperations[] =
    "op,id,size,hint\n"
    "a,x,100,\n"
    "a,y,200,high\n"
    "m,forward,,\n"
    "f,x,0,\n"
    "a,x,300,\n";
const char kOperationsDump[] = "a x 100; a y 200!; m forward; f x; a x 300; ";

const char kRmm[] =
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "1,00:00:01:000002,allocate,0x10,1024,0x0\n"
    "2,01:02:03:000004,allocate,0x20,2048,0x7\n"
    "1,01:02:03:000005,free,0x10,1024,0x0\n"
    "1,01:02:03:000006,allocate failure,0x0,4096,0x0\n"
    "1,01:02:03:000007,free,0x99,1024,0x0\n"
    "1,01:02:03:000008,allocate,0x0,0,0x0\n";

const char kLifetimes[] =
    "id,lower,upper,size\n"
    "late,5,9,10\n"
    "first,0,5,20\n"
    "long,0,9,30\n";

TEST(OperationCsv, IsReadInOrder) {
  const auto trace = ParseTrace(kOperations, "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kOperationCsv);
  EXPECT_EQ(DumpOf(*trace), kOperationsDump);
  EXPECT_EQ(trace->allocations.size(), 3);
  EXPECT_EQ(trace->default_alignment, 512);
}

// The log may begin after an allocation.
TEST(OperationCsv, CountsFreesWithoutAnAllocation) {
  const auto trace = ParseTrace("op,id,size,hint\nf,y,,\na,x,1,\nf,x,,\nf,x,,\n", "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(DumpOf(*trace), "a x 1; f x; ");
  EXPECT_EQ(trace->unmatched_frees, 2);
}

// Fields are split eight bytes at a time.
TEST(OperationCsv, HasFieldsOfAnyLength) {
  std::string text = "op,id,size,hint\n";
  std::vector<std::string> ids;
  for (int length = 1; length < 40; ++length) {
    ids.push_back(std::string(static_cast<std::size_t>(length), '-'));  // the byte after a comma's
    text += "a," + ids.back() + ",8," + (length % 2 == 0 ? "high" : "") + "\n";
  }
  const absl::StatusOr<Trace> trace = ParseTrace(text, "x.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(trace->allocation_ids[i], ids[i]);
    EXPECT_EQ(trace->allocations[i].hint, i % 2 == 1 ? Hint::kOffloadable : Hint::kResident);
  }
}

TEST(OperationCsv, HasOptionalStreamsAndTimes) {
  const auto trace = ParseTrace(
      "time_ns,op,stream,id,hint,size\n"
      "10,a,s1,x,,100\n"
      "20,a,s2,y,high,200\n"
      ",f,s1,x,,\n",
      "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(DumpOf(*trace), "a x 100; a y 200!; f x; ");
  EXPECT_EQ(trace->events[1].time, 20);
  EXPECT_EQ(trace->stream_names[trace->events[1].stream], "s2");
  EXPECT_EQ(trace->stream_names[trace->events[2].stream], "s1");
}

TEST(OperationCsv, RefusesWhatIsNoWholeRun) {
  const std::string header = "op,id,size,hint\n";
  EXPECT_THAT(ErrorOfRows(header + "a,x,1,\na,x,1,\n"),
              StartsWith("test.csv:3: id 'x' is allocated again while it is live"));
  EXPECT_THAT(ErrorOfRows(header + "x,x,1,\n"),
              StartsWith("test.csv:2: op 'x', expected a, f or m"));
  EXPECT_THAT(ErrorOfRows(header + "a,x,1,low\n"), StartsWith("test.csv:2: hint 'low'"));
  EXPECT_THAT(ErrorOfRows("op,id,size,hint,time_ns\na,x,1,,1.5\n"),
              StartsWith("test.csv:2: time_ns '1.5'"));
}

TEST(AnyFormat, RefusesSizesThatNoAllocatorIsAskedFor) {
  for (const std::string size :
       {"-1", "0", "", "1.5", "12x", " 1", "0x10", "9223372036854775808", "9223372036854775807",
        "1125899906842625", "99999999999999999999999999"}) {
    EXPECT_THAT(ErrorOfRows("op,id,size,hint\na,x," + size + ",\n"),
                StartsWith("test.csv:2: size '" + size + "'"));
    EXPECT_THAT(ErrorOfRows("id,lower,upper,size\nx,0,1," + size + "\n"),
                StartsWith("test.csv:2: size"));
    if (size != "0") {
      EXPECT_THAT(
          ErrorOfRows("Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00:000000,allocate,0x1," +
                      size + ",0\n"),
          StartsWith("test.csv:2: size"));
    }
  }
  EXPECT_EQ(OneLine("op,id,size,hint\na,x,1125899906842624,\n"), "a x 1125899906842624; ");
}

TEST(RmmCsv, CountsWhatALogMayHold) {
  const auto trace = ParseTrace(kRmm, "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kRmmCsv);
  EXPECT_EQ(DumpOf(*trace), "a 0x10 1024; a 0x20 2048; f 0x10; o 4096; ");
  EXPECT_EQ(trace->unmatched_frees, 1);
  EXPECT_EQ(trace->skipped_rows, 1);
  EXPECT_EQ(trace->events[0].time, 1'000'002'000);
  EXPECT_EQ(trace->events[1].time, 3'723'000'004'000);
  EXPECT_EQ(trace->stream_names[trace->events[1].stream], "0x7");
  EXPECT_EQ(trace->thread_names[trace->events[1].thread], "2");
  EXPECT_EQ(trace->thread_names[trace->events[2].thread], "1");
  ASSERT_EQ(trace->failures.size(), 1);
  EXPECT_EQ(trace->failures[0].bytes, 4096);
}

TEST(RmmCsv, TakesAFreeByItsPointerWhateverItsSize) {
  const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_EQ(
      OneLine(header + "1,00:00:00:000001,allocate,0x1,5,0\n1,00:00:00:000002,free,0x1,0,0\n"),
      "a 0x1 5; f 0x1; ");
  EXPECT_THAT(ErrorOfRows(header + "1,00:00:00:000001,grow,0x1,0,0\n"),
              HasSubstr(":2: Action 'grow'"));
}

TEST(RmmCsv, FindsColumnsByName) {
  EXPECT_EQ(OneLine("Size,Action,Stream,Pointer,Time,Thread,Extra\n"
                    "512,allocate,0,0x1,00:00:00.000001,1,more\n"),
            "a 0x1 512; ");
}

TEST(RmmCsv, RefusesWhatRmmDoesNotWrite) {
  const std::string header = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_THAT(ErrorOfRows(header + "1,noon,allocate,0x1,1,0\n"),
              StartsWith("test.csv:2: Time 'noon'"));
  EXPECT_THAT(ErrorOfRows(header + "1,00:61:00:000000,allocate,0x1,1,0\n"),
              StartsWith("test.csv:2: Time"));
  EXPECT_THAT(ErrorOfRows(header + "1,00:00:00:000000,realloc,0x1,1,0\n"),
              StartsWith("test.csv:2: Action 'realloc'"));
  EXPECT_THAT(
      ErrorOfRows(header +
                  "1,00:00:00:000000,allocate,0x1,1,0\n1,00:00:00:000000,allocate,0x1,1,0\n"),
      StartsWith("test.csv:3: id '0x1' is allocated again while it is live"));
}

TEST(LifetimeCsv, BecomesEventsByTimeWithFreesFirst) {
  const auto trace = ParseTrace(kLifetimes, "test");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, TraceFormat::kLifetimeCsv);
  EXPECT_EQ(DumpOf(*trace), "a first 20; a long 30; f first; a late 10; f long; f late; ");
  EXPECT_EQ(trace->events[3].time, 5);
  EXPECT_EQ(trace->default_alignment, 1);
}

TEST(LifetimeCsv, RefusesLifetimesThatAreNone) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_THAT(ErrorOfRows(header + "x,5,5,1\n"), StartsWith("test.csv:2: upper 5 after lower 5"));
  EXPECT_THAT(ErrorOfRows(header + "x,5,4,1\n"), StartsWith("test.csv:2: upper 4"));
  EXPECT_THAT(ErrorOfRows(header + "x,a,4,1\n"), StartsWith("test.csv:2: lower 'a'"));
  EXPECT_THAT(ErrorOfRows(header + "x,1,4,1\ny,2,3,1\nx,3,5,1\n"),
              StartsWith("test.csv:4: id 'x' is allocated again while"));
  EXPECT_THAT(ErrorOfRows(header + "10,1,4,1\n9,2,3,1\n10,3,5,1\n"),
              StartsWith("test.csv:4: id '10' is allocated again while"));
  EXPECT_EQ(OneLine(header + "x,1,3,1\nx,3,5,2\n"), "a x 1; f x; a x 2; f x; ");
  EXPECT_EQ(OneLine(header + "x,-9223372036854775808,9223372036854775807,1\n"), "a x 1; f x; ");
}

TEST(AnyFormat, TakesQuotesAndWindowsLineEndings) {
  EXPECT_EQ(OneLine("\"op\",id,\"size\",hint\r\n\"a\",\"x,\"\"1\"\"\",100,\"\"\r\n\r\nf,\"x,"
                    "\"\"1\"\"\",,\r\n"),
            "a x,\"1\" 100; f x,\"1\"; ");
  EXPECT_EQ(OneLine("\xEF\xBB\xBFop,id,size,hint\na,x,1,"), "a x 1; ");  // no newline at the end
}

TEST(AnyFormat, RefusesCsvThatIsBroken) {
  const std::string header = "op,id,size,hint\n";
  EXPECT_THAT(ErrorOfRows(header + "a,\"x,1,\n"),
              StartsWith("test.csv:2: a quoted field without a closing quote"));
  EXPECT_THAT(ErrorOfRows(header + "a,x\"y,1,\n"),
              StartsWith("test.csv:2: a quote inside an unquoted field"));
  EXPECT_THAT(ErrorOfRows(header + "a,\"x\"y,1,\n"),
              StartsWith("test.csv:2: text after a closing quote"));
  EXPECT_THAT(ErrorOfRows(header + "a,x,1\n"), StartsWith("test.csv:2: 3 fields, expected 4"));
  EXPECT_THAT(ErrorOfRows(header + "a,x,1,,\n"), StartsWith("test.csv:2: 5 fields, expected 4"));
  EXPECT_THAT(ErrorOfRows("op,id,hint\n"), StartsWith("test.csv:1: no column 'size'"));
  EXPECT_THAT(ErrorOfRows("op,id,size,size,hint\n"),
              StartsWith("test.csv:1: more than one column 'size'"));
  EXPECT_THAT(ErrorOfRows("lower,upper,size\n"), StartsWith("test.csv:1: no column 'id'"));
  EXPECT_THAT(ErrorOfRows("Action,Pointer\n"), StartsWith("test.csv:1: no column 'Thread'"));
  EXPECT_THAT(ErrorOfRows(header + std::string(2 << 20, 'a')),
              StartsWith("test.csv:2: a line of more than 1 MiB"));
}

TEST(AnyFormat, RefusesWhatHoldsNoEvents) {
  EXPECT_THAT(ErrorOfRows(""), StartsWith("test.csv:1: an empty file"));
  EXPECT_THAT(ErrorOfRows("\n\n"), HasSubstr("an empty file"));
  EXPECT_THAT(ErrorOfRows("op,id,size,hint\n"), StartsWith("test.csv:2: no events"));
  EXPECT_THAT(ErrorOfRows("id,lower,upper,size\n"), StartsWith("test.csv:2: no events"));
  EXPECT_THAT(ErrorOfRows("Thread,Time,Action,Pointer,Size,Stream"),
              StartsWith("test.csv:2: no events"));
  EXPECT_THAT(ErrorOfRows(std::string("\x7f"
                                      "ELF\0\0\0\n\xff\xfe,,,",
                                      13)),
              StartsWith("test.csv:1: not a trace"));
  EXPECT_THAT(ErrorOfRows("a,b,c\n1,2,3\n"), StartsWith("test.csv:1: not a trace"));
}

TEST(Gzip, IsTransparent) {
  EXPECT_EQ(OneLine(Gzip(kOperations)), kOperationsDump);
  // Two gzip members, as `cat a.gz b.gz` makes.
  const std::string text = kOperations;
  EXPECT_EQ(OneLine(Gzip(text.substr(0, 30)) + Gzip(text.substr(30))), kOperationsDump);
}

TEST(Gzip, RefusesDataThatAreDamaged) {
  const std::string whole = Gzip(kOperations);
  for (std::size_t length = 2; length < whole.size(); ++length) {
    EXPECT_THAT(ErrorOfRows(whole.substr(0, length)), HasSubstr("gzip")) << length;
  }
  std::string flipped = whole;
  flipped[whole.size() - 5] ^= 1;  // a byte of the checksum
  EXPECT_THAT(ErrorOfRows(flipped), HasSubstr("damaged gzip data"));
  EXPECT_THAT(ErrorOfRows(whole + "garbage"), HasSubstr("damaged gzip data"));
}

// A file cut off anywhere is a shorter trace or an error, never a crash or a wrong event.
TEST(AnyFormat, SurvivesACutAtEveryByte) {
  for (const std::string contents : {kOperations, kRmm, kLifetimes}) {
    const auto whole = ParseTrace(contents, "test");
    ASSERT_TRUE(whole.ok());
    int read = 0;
    for (std::size_t length = 0; length < contents.size(); ++length) {
      const auto cut = ParseTrace(contents.substr(0, length), "test");
      if (!cut.ok()) {
        continue;
      }
      ++read;
      EXPECT_LE(cut->events.size(), whole->events.size());
    }
    EXPECT_GT(read, 0);
  }
}

// Changes each byte of a file once.
TEST(AnyFormat, SurvivesAnyChangedByte) {
  const std::vector<std::string> files = {kOperations, kRmm, kLifetimes, Gzip(kRmm)};
  for (const std::string& contents : files) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      for (const char byte : {'\0', '\n', ',', '"', '-', '9', '\xff'}) {
        std::string changed = contents;
        changed[i] = byte;
        const auto trace = ParseTrace(changed, "test");
        if (!trace.ok()) {
          EXPECT_EQ(std::string(trace.status().message()).find('\n'), std::string::npos);
        }
      }
    }
  }
}

// Returns one byte at a time, and fails on request.
class SlowSource final : public io::ByteSource {
 public:
  explicit SlowSource(std::string text) : text_(std::move(text)) {}
  absl::StatusOr<std::size_t> Read(char* buffer, std::size_t size) override {
    if (at_ == text_.size() || size == 0) return std::size_t{0};
    *buffer = text_[at_++];
    return std::size_t{1};
  }
  std::uint64_t file_bytes() const override { return at_; }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

TEST(ByteSource, UncompressesWhateverThePieces) {
  auto source = io::Uncompressed(std::make_unique<SlowSource>(Gzip(kRmm)));
  ASSERT_TRUE(source.ok());
  std::string text;
  char buffer[7];
  for (;;) {
    const auto got = (*source)->Read(buffer, sizeof(buffer));
    ASSERT_TRUE(got.ok()) << got.status();
    if (*got == 0) break;
    text.append(buffer, *got);
  }
  EXPECT_EQ(text, kRmm);
  EXPECT_EQ((*source)->file_bytes(), Gzip(kRmm).size());
}

class Files : public ::testing::Test {
 protected:
  Files()
      : folder_(std::filesystem::temp_directory_path() / ("tidepool-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string ErrorOfFile(const std::string& path) {
    const auto trace = ReadTrace(path);
    EXPECT_FALSE(trace.ok());
    return std::string(trace.status().message());
  }

  std::filesystem::path folder_;
};

TEST_F(Files, ThatAreNoneAreRefusedWithoutWaiting) {
  EXPECT_THAT(ErrorOfFile(folder_), HasSubstr(": a directory, expected a regular file"));
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOfFile(fifo), HasSubstr(": a FIFO, expected a regular file"));
  EXPECT_THAT(ErrorOfFile("/dev/null"), HasSubstr("not a regular file"));
  const std::string missing = folder_ / "mis\nsing";
  EXPECT_EQ(ReadTrace(missing).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorOfFile(missing).find('\n'), std::string::npos);
}

TEST_F(Files, AreWrittenInEveryFormatAndReadBack) {
  const Trace trace = *ParseTrace(kOperations, "test");
  for (const std::string ending : {"", ".gz"}) {
    const std::string path = folder_ / ("trace.csv" + ending);
    ASSERT_TRUE(WriteTrace(trace, TraceFormat::kOperationCsv, path).ok());
    EXPECT_EQ(DumpOf(*ReadTrace(path)), kOperationsDump);
    ASSERT_TRUE(WriteTrace(trace, TraceFormat::kRmmCsv, path).ok());
    const auto rmm = ReadTrace(path);
    ASSERT_TRUE(rmm.ok()) << rmm.status();
    EXPECT_EQ(rmm->format, TraceFormat::kRmmCsv);
    EXPECT_EQ(DumpOf(*rmm), "a 0x200 100; a 0x400 200; f 0x200; a 0x600 300; ");
    ASSERT_TRUE(WriteTrace(trace, TraceFormat::kLifetimeCsv, path).ok());
    const auto lifetimes = ReadTrace(path);
    ASSERT_TRUE(lifetimes.ok()) << lifetimes.status();
    EXPECT_EQ(DumpOf(*lifetimes), "a x 100; a y 200; f x; a x 300; f y; f x; ");
  }
}

TEST_F(Files, KeepWhatAFormatCanSay) {
  const std::string path = folder_ / "trace.csv";
  const std::string again = folder_ / "again.csv";
  for (const auto& [contents, format] :
       {std::pair{kOperations, TraceFormat::kOperationCsv}, std::pair{kRmm, TraceFormat::kRmmCsv},
        std::pair{kLifetimes, TraceFormat::kLifetimeCsv}}) {
    ASSERT_TRUE(WriteTrace(*ParseTrace(contents, "test"), format, path).ok());
    ASSERT_TRUE(WriteTrace(*ReadTrace(path), format, again).ok());
    EXPECT_EQ(testing::Contents(path), testing::Contents(again));
    EXPECT_EQ(DumpOf(*ReadTrace(path)), OneLine(contents));
  }
  const Trace quoted = *ParseTrace("op,id,size,hint\na,\"x,\"\"1\",1,\n", "test");
  ASSERT_TRUE(WriteTrace(quoted, TraceFormat::kOperationCsv, path).ok());
  EXPECT_EQ(DumpOf(*ReadTrace(path)), DumpOf(quoted));
}

TEST_F(Files, AreNotWrittenWhenTheyCouldNotBeReadAgain) {
  const std::string path = folder_ / "trace.rmm.csv";
  const Trace marks = *ParseTrace("op,id,size,hint\nm,step,,\n", "test");
  EXPECT_FALSE(WriteTrace(marks, TraceFormat::kRmmCsv, path).ok());
  EXPECT_FALSE(WriteTrace(marks, TraceFormat::kLifetimeCsv, path).ok());
  for (const std::string time : {"-5", "3600000000000000000"}) {
    const Trace odd = *ParseTrace("op,id,size,hint,time_ns\na,x,1,," + time + "\n", "test");
    EXPECT_FALSE(WriteTrace(odd, TraceFormat::kRmmCsv, path).ok()) << time;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Files, KeepOfTheOtherEventsWhatAFormatCanSay) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetThread("12");
  ASSERT_TRUE(builder.Allocate("0x200", 100, Hint::kResident, "1", 1000).ok());
  builder.SetThread("34");
  ASSERT_TRUE(builder.Failure(5000, Hint::kOffloadable, "2", 2000).ok());
  builder.Wait("2", "1", 3000);
  ASSERT_TRUE(builder.Free("0x200", "2", 4000));
  const Trace trace = builder.Build();
  const std::string path = folder_ / "trace.csv";
  ASSERT_TRUE(WriteTrace(trace, TraceFormat::kRmmCsv, path).ok());
  EXPECT_EQ(testing::Contents(path),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "12,00:00:00:000001,allocate,0x200,100,1\n"
            "34,00:00:00:000002,allocate failure,0x0,5000,2\n"
            "34,00:00:00:000004,free,0x200,100,2\n");
  EXPECT_EQ(ReadTrace(path)->failures.size(), 1);
  ASSERT_TRUE(WriteTrace(trace, TraceFormat::kOperationCsv, path).ok());
  EXPECT_EQ(testing::Contents(path),
            "op,id,size,hint,stream,time_ns\na,0x200,100,,1,1000\nf,0x200,,,2,4000\n");
  ASSERT_TRUE(WriteTrace(trace, TraceFormat::kLifetimeCsv, path).ok());
  EXPECT_EQ(testing::Contents(path), "id,lower,upper,size\n0x200,0,3,100\n");
}

TEST_F(Files, KeepTimesWithoutStreams) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("x", 100, Hint::kResident, "", 7).ok());
  const std::string path = folder_ / "trace.csv";
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kOperationCsv, path).ok());
  EXPECT_EQ(testing::Contents(path), "op,id,size,hint,stream,time_ns\na,x,100,,,7\n");
}

TEST_F(Files, AreNotWrittenWithoutARow) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Failure(1, Hint::kResident, "", 0).ok());
  const Trace trace = builder.Build();
  for (const TraceFormat format :
       {TraceFormat::kOperationCsv, TraceFormat::kRmmCsv, TraceFormat::kLifetimeCsv}) {
    EXPECT_FALSE(WriteTrace(trace, format, folder_ / "trace.csv").ok());
  }
  EXPECT_TRUE(WriteTrace(trace, TraceFormat::kNative, folder_ / "trace.tide").ok());
}

TEST_F(Files, AppearWholeOrNotAtAll) {
  const Trace trace = *ParseTrace(kOperations, "test");
  const std::string path = folder_ / "trace.csv";
  std::ofstream(path) << "old";
  TraceBuilder builder(TraceFormat::kOperationCsv);
  ASSERT_TRUE(builder.Allocate("good", 1, Hint::kResident, "", 0).ok());
  ASSERT_TRUE(builder.Allocate("two\nlines", 1, Hint::kResident, "", 0).ok());
  EXPECT_FALSE(WriteTrace(builder.Build(), TraceFormat::kOperationCsv, path).ok());
  EXPECT_EQ(testing::Contents(path), "old");
  EXPECT_EQ(testing::FilesIn(folder_, "").size(), 1);
  const std::string nowhere = folder_ / "no" / "where.csv";
  EXPECT_THAT(std::string(WriteTrace(trace, TraceFormat::kOperationCsv, nowhere).message()),
              HasSubstr("where.csv: "));
  EXPECT_FALSE(WriteTrace(trace, TraceFormat::kOperationCsv, folder_).ok());
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_FALSE(WriteTrace(trace, TraceFormat::kOperationCsv, "/dev/full").ok());
  }
  std::filesystem::create_symlink(path, folder_ / "link.csv");
  EXPECT_TRUE(WriteTrace(trace, TraceFormat::kOperationCsv, folder_ / "link.csv").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.csv"));
  EXPECT_EQ(DumpOf(*ReadTrace(path)), kOperationsDump);
}

TEST(ShippedTraces, AreRealTrainingSteps) {
  int traces = 0;
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".rmm.csv.gz")) {
    const auto trace = ReadTrace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->format, TraceFormat::kRmmCsv);
    EXPECT_GT(trace->events.size(), 1000);
    ++traces;
  }
  EXPECT_GE(traces, 3);
}

TEST(SharedTraces, AreAllRead) {
  TIDEPOOL_SKIP_WITHOUT(testing::SharedFile("traces"));
  int traces = 0;
  for (const std::string folder : {"recorded", "vdnnpp", "lifetimes"}) {
    for (const auto& path : testing::FilesIn(testing::SharedFile("traces/" + folder), "")) {
      if (path.extension() == ".json") continue;
      const auto trace = ReadTrace(path);
      ASSERT_TRUE(trace.ok()) << trace.status();
      ++traces;
    }
  }
  EXPECT_GT(traces, 70);
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Traces that no program would record: every kind of event, all forms of ids, times that jump.
#ifndef TIDEPOOL_TESTS_SUPPORT_RANDOM_TRACE_H_
#define TIDEPOOL_TESTS_SUPPORT_RANDOM_TRACE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace.h"

namespace tidepool::testing {

class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {}

  Trace Make(int events) {
    for (int i = 0; i < events; ++i) AddEvent();
    Trace trace = builder_.Build();
    trace.original_format = static_cast<TraceFormat>(Below(6));
    trace.default_alignment = std::int64_t{1} << Below(31);
    trace.ended_early = Below(2) == 0;
    trace.has_history = Below(4) != 0;
    trace.earlier_allocations = static_cast<std::int64_t>(Below(trace.allocations.size() + 1));
    if (Below(2) == 0) {
      trace.allocator_settings = {{"", "a=b"}, {"roundup", std::string("1:0,\0", 5)}};
    }
    if (Below(2) == 0) {
      trace.devices = {-1, 0, 7};
      trace.device = trace.devices[Below(3)];
    }
    return trace;
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  Hint AnyHint() { return Below(2) == 0 ? Hint::kResident : Hint::kOffloadable; }
  // Draws a number with a random count of bits, so that small and large numbers are equally likely.
  std::int64_t AnySize(int most_bits) {
    return static_cast<std::int64_t>(random_() >> (64 - 1 - Below(most_bits)));
  }
  std::string AnyStream() { return absl::StrCat("s", Below(3) == 0 ? Below(5) : 0); }
  std::int64_t AnyTime() {
    if (Below(50) == 0) return time_ = static_cast<std::int64_t>(random_());
    return time_ += static_cast<std::int64_t>(Below(100'000) - 10'000);
  }
  std::string AnyId() {
    switch (Below(6)) {
      case 0:
        return absl::StrCat("t", Below(1000));
      case 1:
        return absl::StrCat("0x0", absl::Hex(random_()));  // not an address: a leading zero
      case 2:
        return absl::StrCat("0X", Below(1000), std::string("\n,\"\0", 4));
      case 3:
        return absl::StrCat("0x", absl::Hex(random_()));
      default:
        return absl::StrCat("0x7f", absl::Hex(Below(1 << 20) * 512, absl::kZeroPad10));
    }
  }

  TraceTag AnyTag() {
    if (Below(8) == 0) return 0;
    const auto tag = builder_.Frame(static_cast<TraceTag>(Below(tags_ + 1)),
                                    absl::StrCat("f", Below(20)), absl::StrCat(Below(3), ".py"),
                                    static_cast<std::uint32_t>(random_() >> (32 + Below(32))));
    EXPECT_TRUE(tag.ok());
    tags_ = std::max(tags_, *tag);
    return *tag;
  }

  void AddEvent() {
    if (Below(4) == 0) builder_.SetThread(absl::StrCat(Below(3)));
    if (Below(4) == 0) builder_.SetTag(AnyTag());
    if (Below(16) == 0) {
      EXPECT_TRUE(builder_.SetRegion(AnyRegion()).ok());
    }
    switch (Below(15)) {
      case 14:
        PauseOrResumeAny();
        break;
      case 0:
        builder_.Mark(absl::StrCat("step ", Below(10)), AnyTime());
        break;
      case 1:
        RefuseAny();
        break;
      case 2:
        builder_.Wait(AnyStream(), AnyStream(), AnyTime());
        break;
      case 3:
        builder_.CountUnmatchedFree();
        break;
      case 4:
        builder_.CountSkippedRow();
        break;
      case 5:
        builder_.MarkEnd(absl::StrCat("step ", Below(10)), AnyTime());
        break;
      case 6:
        EXPECT_TRUE(
            builder_
                .Reserve({random_() >> Below(64), Below(2) == 0 ? AnySize(63) : -AnySize(63)},
                         AnyStream(), AnyTime())
                .ok());
        break;
      case 7:
      case 8:
      case 9:
        FreeAny();
        break;
      default:
        AllocateAny();
    }
  }

  void AllocateAny() {
    const std::string id = AnyId();
    // Refused if the id is live or the region sleeps.
    if (builder_.Allocate(id, AnySize(50) + 1, AnyHint(), AnyStream(), AnyTime()).ok()) {
      live_.push_back(id);
    }
  }

  std::string AnyRegion() {
    static const std::string kNames[] = {"", "weights", std::string("kv\n\0cache", 9),
                                         std::string(255, 'x')};
    return kNames[Below(4)];
  }

  void PauseOrResumeAny() {
    const std::string region = AnyRegion();
    const auto mode = static_cast<SleepMode>(Below(5));
    if (builder_.Pause(region, mode, AnyStream(), AnyTime()).ok()) return;
    EXPECT_EQ(builder_.Resume(region, AnyStream(), AnyTime()).ok(), !region.empty());
  }

  void RefuseAny() {
    const std::int64_t free = AnySize(63);
    EXPECT_TRUE(builder_
                    .Failure(AnySize(63), AnyHint(), AnyStream(), AnyTime(),
                             Below(2) == 0 ? std::optional(free) : std::nullopt)
                    .ok());
  }

  void FreeAny() {
    if (live_.empty()) return;
    std::swap(live_[Below(live_.size())], live_.back());
    EXPECT_TRUE(builder_.Free(live_.back(), AnyStream(), AnyTime()));
    live_.pop_back();
  }

  std::mt19937_64 random_;
  TraceBuilder builder_{TraceFormat::kNative};
  std::vector<std::string> live_;
  TraceTag tags_ = 0;
  std::int64_t time_ = 0;
};

inline void ExpectSame(const StringTable& a, const StringTable& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << i;
}

inline void ExpectSame(const std::vector<TraceAllocation>& a,
                       const std::vector<TraceAllocation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes, b[i].bytes) << i;
    ASSERT_EQ(a[i].hint, b[i].hint) << i;
    ASSERT_EQ(a[i].tag, b[i].tag) << i;
    ASSERT_EQ(a[i].region, b[i].region) << i;
  }
}

inline void ExpectSame(const std::vector<TraceFailure>& a, const std::vector<TraceFailure>& b) {
  ExpectSame(std::vector<TraceAllocation>(a.begin(), a.end()),
             std::vector<TraceAllocation>(b.begin(), b.end()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].device_free_bytes, b[i].device_free_bytes) << i;
  }
}

// Compares all of a trace except the format of its file.
inline void ExpectSame(const Trace& a, const Trace& b) {
  EXPECT_EQ(a.original_format, b.original_format);
  EXPECT_EQ(a.default_alignment, b.default_alignment);
  EXPECT_EQ(a.unmatched_frees, b.unmatched_frees);
  EXPECT_EQ(a.skipped_rows, b.skipped_rows);
  EXPECT_EQ(a.ended_early, b.ended_early);
  EXPECT_EQ(a.has_history, b.has_history);
  EXPECT_EQ(a.earlier_allocations, b.earlier_allocations);
  EXPECT_EQ(a.allocator_settings, b.allocator_settings);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    const TraceEvent& x = a.events[i];
    const TraceEvent& y = b.events[i];
    ASSERT_TRUE(x.time == y.time && x.index == y.index && x.stream == y.stream &&
                x.thread == y.thread && x.kind == y.kind)
        << "event " << i;
  }
  ExpectSame(a.allocations, b.allocations);
  ExpectSame(a.failures, b.failures);
  ASSERT_EQ(a.reservations.size(), b.reservations.size());
  for (std::size_t i = 0; i < a.reservations.size(); ++i) {
    ASSERT_EQ(a.reservations[i].address, b.reservations[i].address) << i;
    ASSERT_EQ(a.reservations[i].bytes, b.reservations[i].bytes) << i;
  }
  ASSERT_EQ(a.pauses.size(), b.pauses.size());
  for (std::size_t i = 0; i < a.pauses.size(); ++i) {
    ASSERT_EQ(a.pauses[i].region, b.pauses[i].region) << i;
    ASSERT_EQ(a.pauses[i].mode, b.pauses[i].mode) << i;
  }
  ASSERT_EQ(a.frames.size(), b.frames.size());
  for (std::size_t i = 0; i < a.frames.size(); ++i) {
    const TraceFrame& x = a.frames[i];
    const TraceFrame& y = b.frames[i];
    ASSERT_TRUE(x.caller == y.caller && x.name == y.name && x.file == y.file && x.line == y.line)
        << "frame " << i;
  }
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.devices, b.devices);
  ExpectSame(a.frame_texts, b.frame_texts);
  ExpectSame(a.region_names, b.region_names);
  ExpectSame(a.allocation_ids, b.allocation_ids);
  ExpectSame(a.mark_names, b.mark_names);
  ExpectSame(a.stream_names, b.stream_names);
  ExpectSame(a.thread_names, b.thread_names);
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_RANDOM_TRACE_H_

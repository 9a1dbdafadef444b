// SPDX-License-Identifier: Apache-2.0
// Enclosing spans: finds the nested spans of named work that a thread was in at a time.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_
#define TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"

namespace tidepool::chrome {

// Spans of [begin, begin + duration), 24 bytes each. The spans of a thread that contain a time form
// its stack. They are nested by their start; with equal start the longer span is outside; of equal
// spans the first added is outside.
class EnclosingSpans {
 public:
  // Returns the tag of a span directly inside a span with tag `outer`, which is 0 for an outermost
  // span.
  using Frame = std::function<absl::StatusOr<TraceTag>(TraceTag outer, std::uint32_t name)>;

  // Adds a span. `duration` is positive, and the end fits into 64 bits.
  void Add(std::uint32_t thread, std::uint32_t name, std::int64_t begin, std::int64_t duration) {
    spans_.push_back({begin, duration, thread, name});
  }

  // Sorts the spans; call it once, between the last Add() and the first TagAt(). Drops the spans of
  // threads with `is_wanted` false; that vector has an element for each thread. O(n log n).
  void Sort(const std::vector<bool>& is_wanted);

  // Returns the tag of the innermost span around `time`, or 0. Times of a thread must ascend. All
  // calls together take O(spans) and call `frame` once for each span, and again for spans that
  // overlap without being nested. Returns InvalidArgument if that happens so often that the spans
  // cannot be calls.
  absl::StatusOr<TraceTag> TagAt(std::uint32_t thread, std::int64_t time, const Frame& frame);

 private:
  struct Span {
    std::int64_t begin;
    std::int64_t duration;
    std::uint32_t thread;
    std::uint32_t name;
    std::int64_t end() const { return begin + duration; }
  };
  static_assert(sizeof(Span) == 24);

  struct Open {
    std::int64_t end;
    std::int64_t first_end;  // earliest end of this span and all outside it
    std::uint32_t name;
    TraceTag tag;  // 0 before it is made
  };

  struct Thread {
    std::size_t next = 0;  // index of the next span
    std::size_t end = 0;
    std::vector<Open> open;
  };

  static void Push(const Span& span, std::vector<Open>& open);
  static void CloseBefore(std::int64_t time, std::vector<Open>& open);

  static constexpr std::size_t kMostRemade = 16;  // most tags for each span, on average
  static constexpr std::size_t kFewestAllowed = 65'536;

  std::vector<Span> spans_;
  std::vector<Thread> threads_;
  std::size_t made_ = 0;  // tags made so far
};

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_

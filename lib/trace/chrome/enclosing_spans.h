// What a thread was doing at a time: spans of named work that lie in each other.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_
#define TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"

namespace tidepool::chrome {

// A span holds the times from `begin` up to `begin + duration` and not that itself; it takes 24
// bytes. Around a time lie the spans of its thread that hold it, in the order of their begin, the
// longer one outside, and the one that was added first outside of its equals.
class EnclosingSpans {
 public:
  // Makes the tag of a span that lies directly in one with the tag `outer`, 0 for none.
  using Frame = std::function<absl::StatusOr<TraceTag>(TraceTag outer, std::uint32_t name)>;

  // `duration` is positive, and the end fits into 64 bits.
  void Add(std::uint32_t thread, std::uint32_t name, std::int64_t begin, std::int64_t duration) {
    spans_.push_back({begin, duration, thread, name});
  }

  // Call it once, between the last Add() and the first TagAt(). Spans of threads for which
  // `is_wanted` is false are forgotten; it is as long as there are threads. O(n log n).
  void Sort(const std::vector<bool>& is_wanted);

  // The tag of the innermost span around `time`, 0 for none. Times ascend. All calls together take
  // O(spans) and call `frame` once a span, or, where spans overlap without lying in each other,
  // again. InvalidArgument when that happens so often that the spans are no calls.
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
    std::int64_t first_end;  // the earliest end of this one and those outside
    std::uint32_t name;
    TraceTag tag;  // 0: not made yet
  };

  struct Thread {
    std::size_t next = 0;  // span
    std::size_t end = 0;
    std::vector<Open> open;
  };

  static void Push(const Span& span, std::vector<Open>& open);
  static void CloseBefore(std::int64_t time, std::vector<Open>& open);

  static constexpr std::size_t kMostRemade = 16;  // tags a span, on average
  static constexpr std::size_t kFewestAllowed = 65'536;

  std::vector<Span> spans_;
  std::vector<Thread> threads_;
  std::size_t made_ = 0;  // tags
};

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_ENCLOSING_SPANS_H_

// SPDX-License-Identifier: Apache-2.0
// Enclosing spans: one pass over the spans of each thread, with a stack of open spans.
#include "lib/trace/chrome/enclosing_spans.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tidepool::chrome {

void EnclosingSpans::Sort(const std::vector<bool>& is_wanted) {
  std::erase_if(spans_, [&](const Span& span) { return !is_wanted[span.thread]; });
  const auto order = [](const Span& a, const Span& b) {
    return std::tuple(a.thread, a.begin, -a.duration) < std::tuple(b.thread, b.begin, -b.duration);
  };
  if (!std::is_sorted(spans_.begin(), spans_.end(), order)) {
    std::stable_sort(spans_.begin(), spans_.end(), order);
  }
  threads_.resize(is_wanted.size());
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    Thread& thread = threads_[spans_[i].thread];
    if (thread.end == 0) thread.next = i;
    thread.end = i + 1;
  }
}

void EnclosingSpans::Push(const Span& span, std::vector<Open>& open) {
  const std::int64_t first_end =
      open.empty() ? span.end() : std::min(open.back().first_end, span.end());
  open.push_back({span.end(), first_end, span.name, 0});
}

void EnclosingSpans::CloseBefore(std::int64_t time, std::vector<Open>& open) {
  while (!open.empty() && open.back().end <= time) open.pop_back();
  if (open.empty() || open.back().first_end > time) return;
  // A span has ended before a span that began inside it.
  std::vector<Open> still_open;
  for (const Open& span : open) {
    if (span.end <= time) continue;
    Push({0, span.end, 0, span.name}, still_open);
  }
  open = std::move(still_open);
}

absl::StatusOr<TraceTag> EnclosingSpans::TagAt(std::uint32_t thread, std::int64_t time,
                                               const Frame& frame) {
  Thread& at = threads_[thread];
  for (; at.next < at.end && spans_[at.next].begin <= time; ++at.next) {
    if (spans_[at.next].end() > time) Push(spans_[at.next], at.open);
  }
  CloseBefore(time, at.open);
  std::size_t tagged = at.open.size();
  while (tagged > 0 && at.open[tagged - 1].tag == 0) --tagged;
  TraceTag tag = tagged == 0 ? 0 : at.open[tagged - 1].tag;
  made_ += at.open.size() - tagged;
  if (made_ > kFewestAllowed + kMostRemade * spans_.size()) {
    return absl::InvalidArgumentError(
        "spans of a thread overlap too often without being nested, as calls are");
  }
  for (; tagged < at.open.size(); ++tagged) {
    absl::StatusOr<TraceTag> made = frame(tag, at.open[tagged].name);
    if (!made.ok()) return made;
    tag = at.open[tagged].tag = *made;
  }
  return tag;
}

}  // namespace tidepool::chrome

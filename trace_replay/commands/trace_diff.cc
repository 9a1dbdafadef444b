// SPDX-License-Identifier: Apache-2.0
// Joins the parts of two recordings by their names.
#include "trace_replay/commands/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "tidepool/trace/composition.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kListedChanges = 20;

// Returns the number of changes to list: the largest ones, without parts that stayed as they were.
template <typename Change>
std::size_t CountListed(const std::vector<Change>& changes) {
  const auto changed = std::count_if(changes.begin(), changes.end(),
                                     [](const Change& change) { return change.change() != 0; });
  return std::min(kListedChanges, static_cast<std::size_t>(changed));
}

template <typename Change>
void SortByChange(std::vector<Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::abs(a.change()) > std::abs(b.change());
  });
}

std::vector<PartChange> Join(const std::vector<NamedBytes>& before,
                             const std::vector<NamedBytes>& after) {
  std::map<std::string, PartChange> parts;
  for (const NamedBytes& part : before) parts[part.name].before += part.bytes;
  for (const NamedBytes& part : after) parts[part.name].after += part.bytes;
  std::vector<PartChange> changes;
  for (auto& [name, change] : parts) {
    change.name = name;
    changes.push_back(change);
  }
  SortByChange(changes);
  return changes;
}

// Counts the allocations that are live at an event by their aligned size.
absl::StatusOr<std::map<std::int64_t, std::int64_t>> CountsBySize(const MeasuredTrace& measured,
                                                                  std::int64_t event) {
  std::map<std::int64_t, std::int64_t> counts;
  if (event < 0) return counts;
  const absl::StatusOr<std::vector<std::uint32_t>> live = LiveAfter(*measured.trace, event);
  if (!live.ok()) return live.status();
  for (const std::uint32_t number : *live) {
    const std::int64_t bytes = measured.trace->allocations[number].bytes;
    ++counts[AlignUp(bytes, measured.alignment)];
  }
  return counts;
}

std::vector<SizeChange> JoinSizes(const std::map<std::int64_t, std::int64_t>& before,
                                  const std::map<std::int64_t, std::int64_t>& after) {
  std::map<std::int64_t, SizeChange> sizes;
  for (const auto& [bytes, count] : before) sizes[bytes].before = count;
  for (const auto& [bytes, count] : after) sizes[bytes].after = count;
  std::vector<SizeChange> changes;
  for (auto& [bytes, change] : sizes) {
    change.bytes = bytes;
    changes.push_back(change);
  }
  SortByChange(changes);
  return changes;
}

nlohmann::ordered_json ChangesJson(const std::vector<PartChange>& parts, const char* name) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PartChange& part : parts) {
    list.push_back({{name, part.name}, {"before", part.before}, {"after", part.after}});
  }
  return list;
}

std::string ChangeText(std::int64_t bytes) {
  return absl::StrCat(bytes > 0 ? "+" : bytes < 0 ? "-" : "", SizeText(std::abs(bytes)));
}

std::string MoreText(std::size_t count, std::size_t listed) {
  return count > listed ? absl::StrCat("  and ", count - listed, " more, with --json\n") : "";
}

std::vector<std::vector<std::string>> ChangeRows(const std::string& title,
                                                 const std::vector<PartChange>& parts) {
  std::vector<std::vector<std::string>> rows = {{title, "before", "after", "change"}};
  for (std::size_t i = 0; i < CountListed(parts); ++i) {
    rows.push_back({parts[i].name, SizeText(parts[i].before), SizeText(parts[i].after),
                    ChangeText(parts[i].change())});
  }
  return rows;
}

// Returns the table of the rows, with control characters of their first cells escaped.
std::string ChangesText(std::vector<std::vector<std::string>> rows, std::size_t count) {
  const std::size_t listed = rows.size() - 1;
  for (std::vector<std::string>& row : rows) row[0] = absl::CHexEscape(row[0]);
  return absl::StrCat(TableText(rows), MoreText(count, listed));
}

// Returns null for a recording without history.
nlohmann::ordered_json PeakOf(const DeviceAnswer& answer) {
  if (!answer.has_history) return nullptr;
  return answer.load.peak_live_bytes;
}

nlohmann::ordered_json ReservedOf(const DeviceAnswer& answer) {
  if (!answer.reserved_bytes.has_value()) return nullptr;
  return *answer.reserved_bytes;
}

}  // namespace

absl::StatusOr<TraceDiff> Compare(const MeasuredTrace& before, const MeasuredTrace& after,
                                  const std::vector<CategoryRule>& rules) {
  TraceDiff diff;
  std::array<std::map<std::int64_t, std::int64_t>, 2> counts;
  const std::array<const MeasuredTrace*, 2> traces = {&before, &after};
  for (std::size_t i = 0; i < 2; ++i) {
    absl::StatusOr<DeviceAnswer> answer = AnswerFor(*traces[i], rules);
    if (!answer.ok()) return answer.status();
    diff.answers[i] = *std::move(answer);
    auto counted = CountsBySize(*traces[i], diff.answers[i].event);
    if (!counted.ok()) return counted.status();
    counts[i] = *std::move(counted);
  }
  diff.by_frame = Join(diff.answers[0].by_frame, diff.answers[1].by_frame);
  diff.by_category = Join(diff.answers[0].by_category, diff.answers[1].by_category);
  diff.by_size = JoinSizes(counts[0], counts[1]);
  return diff;
}

double BatchLine::bytes_per_sample() const {
  return (static_cast<double>(needs_bytes[1]) - static_cast<double>(needs_bytes[0])) /
         (static_cast<double>(batch[1]) - static_cast<double>(batch[0]));
}

// Exact: a batch that was recorded fits in the bytes that it needed.
std::int64_t BatchLine::LargestBatch(std::int64_t bytes) const {
  constexpr absl::int128 kMost = 1'000'000'000'000'000;
  const std::size_t small = batch[0] < batch[1] ? 0 : 1;
  const absl::int128 samples = batch[1 - small] - batch[small];
  const absl::int128 line = absl::int128{needs_bytes[1 - small]} - needs_bytes[small];
  const absl::int128 more = (absl::int128{bytes} - needs_bytes[small]) * samples;
  const absl::int128 rounded_down = more / line - (more % line < 0 ? 1 : 0);
  return static_cast<std::int64_t>(std::clamp<absl::int128>(batch[small] + rounded_down, 0, kMost));
}

absl::StatusOr<BatchLine> LineOf(const TraceDiff& diff, const std::vector<std::int64_t>& batch) {
  const BatchLine line = {{batch[0], batch[1]},
                          {diff.answers[0].demand.needs_bytes, diff.answers[1].demand.needs_bytes}};
  if (batch[0] < 1 || batch[1] < 1 || batch[0] == batch[1]) {
    return absl::InvalidArgumentError(absl::StrCat("--batch: ", batch[0], ",", batch[1],
                                                   ", expected two different sizes from 1 on"));
  }
  if (line.bytes_per_sample() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--batch: ", SizeText(line.needs_bytes[0]), " at batch ", batch[0], " and ",
                     SizeText(line.needs_bytes[1]), " at batch ", batch[1],
                     ": the larger batch does not need more, so nothing follows for others"));
  }
  return line;
}

nlohmann::ordered_json DiffJson(const TraceDiff& diff) {
  const auto both = [&](auto value) {
    return nlohmann::ordered_json{value(diff.answers[0]), value(diff.answers[1])};
  };
  nlohmann::ordered_json json = {
      {"peak_live_bytes", both(PeakOf)},
      {"needs_bytes", both([](const DeviceAnswer& a) { return a.demand.needs_bytes; })},
      {"live_bytes", both([](const DeviceAnswer& a) { return a.live_bytes; })},
      {"reserved_bytes", both(ReservedOf)},
      {"refused", both([](const DeviceAnswer& a) { return a.demand.refused.size(); })},
      {"by_frame", ChangesJson(diff.by_frame, "frame")},
      {"by_category", ChangesJson(diff.by_category, "category")},
      {"by_size", nlohmann::ordered_json::array()}};
  for (const SizeChange& size : diff.by_size) {
    json["by_size"].push_back(
        {{"bytes", size.bytes}, {"before", size.before}, {"after", size.after}});
  }
  return json;
}

std::vector<std::vector<std::string>> FrameRows(const TraceDiff& diff) {
  return ChangeRows("by line", diff.by_frame);
}

std::vector<std::vector<std::string>> CategoryRows(const TraceDiff& diff) {
  return ChangeRows("by category", diff.by_category);
}

std::vector<std::vector<std::string>> SizeRows(const TraceDiff& diff) {
  std::vector<std::vector<std::string>> rows = {{"by size", "before", "after", "change"}};
  for (std::size_t i = 0; i < CountListed(diff.by_size); ++i) {
    const SizeChange& size = diff.by_size[i];
    rows.push_back({absl::StrCat(SizeText(size.bytes), " each"), CountText(size.before),
                    CountText(size.after), ChangeText(size.change())});
  }
  return rows;
}

std::string DiffText(const TraceDiff& diff) {
  return absl::StrCat(ChangesText(FrameRows(diff), diff.by_frame.size()), "\n",
                      ChangesText(CategoryRows(diff), diff.by_category.size()), "\n",
                      ChangesText(SizeRows(diff), diff.by_size.size()));
}

}  // namespace tidepool::tool

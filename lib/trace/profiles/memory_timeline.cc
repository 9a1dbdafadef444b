// SPDX-License-Identifier: Apache-2.0
// Memory timeline: rows [nanoseconds, action, bytes, category] of torch.profiler's
// export_memory_timeline("FILE.raw.json.gz"). Rows have no addresses, so a free ends the last
// allocation of its size and category.
#include <rapidjson/reader.h>

#include <array>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/json_events.h"
#include "lib/base/io/json_number.h"
#include "lib/base/text/quote.h"
#include "lib/trace/profiles/profiles.h"

namespace tidepool::profiles {
namespace {

// Purposes by PyTorch's number of the category, in the words of tidepool.
constexpr auto kPurposes =
    std::to_array<std::string_view>({"weights", "optimizer state", "input", "temporary",
                                     "activations", "gradients", "autograd detail", "unknown"});

// Time of memory from before the profile.
constexpr std::int64_t kBefore = -1;

class Timeline {
 public:
  // Takes a row. Errors do not name the file.
  absl::Status Take(const std::array<std::int64_t, 4>& row) {
    const auto [time, action, bytes, category] = row;
    if (category < 0 || category >= static_cast<std::int64_t>(kPurposes.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("category ", category, ", expected 0 to ", kPurposes.size() - 1));
    }
    if (bytes > kMaxRequestBytes || bytes < -kMaxRequestBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(bytes, " bytes, expected at most ", kMaxRequestBytes));
    }
    const auto purpose = static_cast<std::size_t>(category);
    if (time != kBefore) EndEarlier();
    if (bytes == 0) {
      builder_.CountSkippedRow();
      return absl::OkStatus();
    }
    return bytes > 0 ? Allocate(time, bytes, purpose) : Free(time, -bytes, purpose);
  }

  Trace Build() {
    EndEarlier();
    Trace trace = builder_.Build();
    trace.default_alignment = 1;  // the sizes are PyTorch's own sums
    return trace;
  }

 private:
  void EndEarlier() {
    if (!is_recording_) builder_.BeginRecording();
    is_recording_ = true;
  }

  absl::Status Allocate(std::int64_t time, std::int64_t bytes, std::size_t purpose) {
    const absl::StatusOr<TraceTag> tag = builder_.Frame(0, kPurposes[purpose], kPurposeFile, 0);
    if (!tag.ok()) return tag.status();
    builder_.SetTag(*tag);
    const std::uint64_t number = next_++;
    live_[{bytes, purpose}].push_back(number);
    return builder_.Allocate(absl::StrCat(number), bytes, Hint::kResident, "",
                             time == kBefore ? 0 : time);
  }

  absl::Status Free(std::int64_t time, std::int64_t bytes, std::size_t purpose) {
    std::vector<std::uint64_t>& numbers = live_[{bytes, purpose}];
    if (numbers.empty()) {
      builder_.CountUnmatchedFree();
      return absl::OkStatus();
    }
    builder_.Free(absl::StrCat(numbers.back()), "", time);
    numbers.pop_back();
    return absl::OkStatus();
  }

  TraceBuilder builder_{TraceFormat::kMemoryTimeline};
  absl::flat_hash_map<std::pair<std::int64_t, std::size_t>, std::vector<std::uint64_t>> live_;
  std::uint64_t next_ = 0;
  bool is_recording_ = false;
};

// Receives the events of RapidJSON's reader: an array of arrays of four whole numbers.
class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  explicit Handler(io::JsonInput& input) : input_(input) {}

  bool Default() { return Fail("not a row, expected [nanoseconds, action, bytes, category]"); }
  bool StartArray() {
    input_.SawToken();
    count_ = 0;
    return ++depth_ <= 2 || Default();
  }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    input_.SawToken();
    if (depth_ != 2 || count_ >= row_.size()) return Default();
    if (io::ParseWholeNumber({text, size}, &row_[count_++])) return true;
    return Fail(absl::StrCat(text::Quoted({text, size}), ", expected a whole number"));
  }
  bool EndArray(rapidjson::SizeType /*elements*/) {
    input_.SawToken();
    if (depth_-- < 2) return true;
    if (count_ != row_.size()) return Default();
    const absl::Status status = timeline_.Take(row_);
    return status.ok() || Fail(status.message());
  }

  std::int64_t line() const { return line_; }
  const absl::Status& status() const { return status_; }
  Timeline& timeline() { return timeline_; }

 private:
  bool Fail(absl::string_view what) {
    line_ = input_.line();
    status_ = absl::InvalidArgumentError(what);
    return false;
  }

  io::JsonInput& input_;
  Timeline timeline_;
  std::array<std::int64_t, 4> row_ = {};
  std::size_t count_ = 0;
  int depth_ = 0;
  std::int64_t line_ = 1;
  absl::Status status_;
};

}  // namespace

bool IsMemoryTimeline(std::string_view beginning) {
  if (beginning.substr(0, 1) != "[") return false;
  const std::size_t second = beginning.find_first_not_of(" \t\r\n", 1);
  return second != std::string_view::npos && beginning[second] == '[';
}

absl::StatusOr<Trace> ReadMemoryTimeline(io::ByteSource& source, const std::string& name,
                                         const ReadOptions& /*options*/) {
  io::JsonInput input(source);
  Handler handler(input);
  absl::Status status = io::ReadJsonEvents(input, handler, name, "a memory timeline of PyTorch");
  if (!status.ok()) return status;
  Trace trace = handler.timeline().Build();
  if (!trace.allocations.empty()) return trace;
  return text::AboutFile(name, absl::InvalidArgumentError(
                                   "no allocation, expected a memory timeline with at least one"));
}

}  // namespace tidepool::profiles

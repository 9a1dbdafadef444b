// The trace's strings, and the builder that numbers allocations and knows what is live.
#include "tidepool/trace.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "lib/trace/quote.h"

namespace tidepool {

void StringTable::Add(std::string_view text) {
  text_.append(text);
  ends_.push_back(static_cast<std::uint32_t>(text_.size()));
}

void StringTable::RemoveLast() {
  ends_.pop_back();
  text_.resize(ends_.empty() ? 0 : ends_.back());
}

// The live allocations by id, whose numbers alone are stored: the ids are in the trace already. And
// the streams by name.
class TraceBuilder::Lookup {
 public:
  explicit Lookup(const StringTable& ids) : live_(0, Hash{&ids}, Equal{&ids}) {}

  bool Insert(std::uint32_t allocation) { return live_.insert(allocation).second; }

  // Removes `id` and returns its number, or returns nothing.
  bool Remove(std::string_view id, std::uint32_t* allocation) {
    const auto found = live_.find(id);
    if (found == live_.end()) return false;
    *allocation = *found;
    live_.erase(found);
    return true;
  }

  absl::flat_hash_map<std::string, std::uint32_t>& streams() { return streams_; }

 private:
  struct Hash {
    using is_transparent = void;
    const StringTable* ids;
    std::size_t operator()(std::uint32_t allocation) const { return (*this)((*ids)[allocation]); }
    std::size_t operator()(std::string_view id) const {
      return absl::Hash<absl::string_view>()({id.data(), id.size()});
    }
  };
  struct Equal {
    using is_transparent = void;
    const StringTable* ids;
    bool operator()(std::uint32_t a, std::uint32_t b) const { return (*ids)[a] == (*ids)[b]; }
    bool operator()(std::uint32_t a, std::string_view b) const { return (*ids)[a] == b; }
  };

  absl::flat_hash_set<std::uint32_t, Hash, Equal> live_;
  absl::flat_hash_map<std::string, std::uint32_t> streams_;
};

TraceBuilder::TraceBuilder(TraceFormat format)
    : lookup_(std::make_unique<Lookup>(trace_.allocation_ids)) {
  trace_.format = format;
}

TraceBuilder::~TraceBuilder() = default;

absl::Status TraceBuilder::Allocate(std::string_view id, std::int64_t bytes, Hint hint,
                                    std::string_view stream, std::int64_t time) {
  if (bytes < 1 || bytes > kMaxRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("size ", bytes, ", expected 1 to ", kMaxRequestBytes, " bytes"));
  }
  if (trace_.allocations.size() >= UINT32_MAX - 1 || trace_.allocation_ids.IsFullFor(id.size())) {
    return absl::ResourceExhaustedError("more allocations than a trace can number");
  }
  const auto allocation = static_cast<std::uint32_t>(trace_.allocations.size());
  trace_.allocation_ids.Add(id);
  if (!lookup_->Insert(allocation)) {
    trace_.allocation_ids.RemoveLast();
    return absl::InvalidArgumentError(internal::AllocatedLive(id));
  }
  trace_.allocations.push_back({bytes, hint});
  trace_.events.push_back(
      {time, allocation,
       StreamIndex(stream) << 2 | static_cast<std::uint32_t>(TraceEvent::Kind::kAllocate)});
  return absl::OkStatus();
}

bool TraceBuilder::Free(std::string_view id, std::string_view stream, std::int64_t time) {
  std::uint32_t allocation = 0;
  if (!lookup_->Remove(id, &allocation)) return false;
  trace_.events.push_back(
      {time, allocation,
       StreamIndex(stream) << 2 | static_cast<std::uint32_t>(TraceEvent::Kind::kFree)});
  return true;
}

void TraceBuilder::Mark(std::string_view name, std::int64_t time) {
  const auto mark = static_cast<std::uint32_t>(trace_.mark_names.size());
  trace_.mark_names.Add(name);
  trace_.events.push_back({time, mark, static_cast<std::uint32_t>(TraceEvent::Kind::kMark)});
}

Trace TraceBuilder::Build() {
  Trace trace = std::move(trace_);
  trace_ = Trace();
  trace_.format = trace.format;
  lookup_ = std::make_unique<Lookup>(trace_.allocation_ids);
  last_stream_ = 0;
  return trace;
}

// Most events are on the stream of the one before.
std::uint32_t TraceBuilder::StreamIndex(std::string_view stream) {
  StringTable& names = trace_.stream_names;
  if (last_stream_ < names.size() && names[last_stream_] == stream) return last_stream_;
  const auto [found, is_new] =
      lookup_->streams().try_emplace(std::string(stream), static_cast<std::uint32_t>(names.size()));
  if (is_new) names.Add(stream);
  last_stream_ = found->second;
  return last_stream_;
}

}  // namespace tidepool

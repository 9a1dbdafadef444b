// SPDX-License-Identifier: Apache-2.0
// The history of requests that torch.cuda.memory._record_memory_history asks for.
#ifndef TIDEPOOL_BINDINGS_TORCH_HISTORY_H_
#define TIDEPOOL_BINDINGS_TORCH_HISTORY_H_

#include <c10/cuda/CUDACachingAllocator.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tidepool::torch_binding {

using c10::CachingDeviceAllocator::AllocatorTraceTracker;
using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;
using Context = std::shared_ptr<c10::GatheredContext>;

// The last entries of each device, as many as the caller asked for. Not thread-safe.
class History {
 public:
  void Configure(bool enabled, CreateContextFn make_context, std::size_t most, RecordContext when,
                 bool clear, const std::vector<std::string>& skipped) {
    is_enabled_ = enabled;
    make_context_ = make_context;
    when_ = enabled ? when : RecordContext::NEVER;
    most_ = std::max<std::size_t>(most, 1);
    skipped_.clear();
    for (const std::string& action : skipped) {
      skipped_.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
    }
    if (clear || !enabled) entries_.clear();
  }

  bool is_enabled() const { return is_enabled_; }
  bool is_watched() const { return is_enabled_ || !trackers_.empty(); }
  void AddTracker(AllocatorTraceTracker tracker) { trackers_.push_back(std::move(tracker)); }

  // Returns the caller's stack, if the level of detail asks for it.
  Context MakeContext(RecordContext least) const {
    return make_context_ != nullptr && when_ >= least ? make_context_() : nullptr;
  }

  void Add(TraceEntry entry, Context context) {
    if (when_ >= RecordContext::ALLOC) entry.context_ = std::move(context);
    for (const AllocatorTraceTracker& tracker : trackers_) tracker(entry);
    if (!is_enabled_ || skipped_.count(entry.action_) != 0) return;
    std::deque<TraceEntry>& entries = entries_[entry.device_];
    entries.push_back(std::move(entry));
    while (entries.size() > most_) entries.pop_front();
  }

  // Returns the entries of a device with the times of the calendar.
  std::vector<TraceEntry> EntriesOf(c10::DeviceIndex device) const {
    const auto found = entries_.find(device);
    if (found == entries_.end()) return {};
    const auto to_time = clock_.makeConverter();
    std::vector<TraceEntry> entries(found->second.begin(), found->second.end());
    for (TraceEntry& entry : entries) entry.time_.t_ = to_time(entry.time_.approx_t_) / 1000;
    return entries;
  }

 private:
  bool is_enabled_ = false;
  CreateContextFn make_context_ = nullptr;
  RecordContext when_ = RecordContext::NEVER;
  std::size_t most_ = 1;
  std::unordered_set<int> skipped_;
  std::map<c10::DeviceIndex, std::deque<TraceEntry>> entries_;
  std::vector<AllocatorTraceTracker> trackers_;
  mutable c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace tidepool::torch_binding

#endif  // TIDEPOOL_BINDINGS_TORCH_HISTORY_H_

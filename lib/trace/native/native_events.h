// SPDX-License-Identifier: Apache-2.0
// Native events: the decoder for blocks of a native trace.
#ifndef TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_EVENTS_H_
#define TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_EVENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "lib/trace/model/sleepers.h"
#include "lib/trace/native/native_format.h"
#include "tidepool/trace/trace.h"

namespace tidepool::native {

// Decodes blocks in order and checks that they make a trace: each freed allocation is live, and no
// two live allocations have the same id.
class NativeEvents {
 public:
  NativeEvents(TraceFormat original_format, std::int64_t default_alignment);

  // Decodes a block without its header. Errors do not name the block.
  absl::Status Add(std::string_view block);
  bool is_at_end() const { return is_at_end_; }

  // Returns the trace so far. It counts as ended early unless its end was decoded.
  Trace Build();

 private:
  enum class Live : std::uint8_t { kNo, kByAddress, kByText };

  bool AddItem();
  bool AddAllocation(unsigned flags, TraceEvent event);
  bool AddFree(TraceEvent event);
  bool AddFailure(unsigned flags, TraceEvent event);
  bool AddReference(const StringTable& names, std::string_view what, TraceEvent event);
  bool AddName(StringTable& names);
  bool AddCount(std::int64_t& count);
  bool AddSetting();
  bool AddEnd(unsigned flags);
  bool AddReservation(TraceEvent event);
  bool AddFrame();
  bool AddTag(unsigned flags);
  bool AddRegionName();
  bool AddSleep(TraceEvent event);
  bool AddPause(TraceRegion region, std::uint64_t mode, TraceEvent event);
  bool AddDevice(unsigned flags);

  bool TakeContext(unsigned tag, bool has_stream, TraceEvent* event);
  bool TakeNumber(std::uint64_t* value) {
    constexpr unsigned char kLargestOneByte = 0x7f;
    if (at_ == end_ || static_cast<unsigned char>(*at_) > kLargestOneByte) {
      return TakeLongNumber(value);
    }
    *value = static_cast<unsigned char>(*at_++);
    return true;
  }
  bool TakeLongNumber(std::uint64_t* value);
  bool TakeIndex(std::size_t size, std::string_view what, std::uint32_t* index);
  bool TakeText(std::string_view* text);
  bool Fail(std::string_view what);

  Trace trace_;
  // Data of each allocation. Addresses are kept although the trace has them as text: parsing the
  // text again would be a third of the work.
  std::vector<Live> live_;
  std::vector<std::uint64_t> addresses_;
  absl::flat_hash_set<std::uint64_t> live_addresses_;
  absl::flat_hash_set<std::string> live_texts_;
  absl::flat_hash_set<std::string> regions_;
  trace::Sleepers sleepers_;
  bool is_at_end_ = false;
  absl::Status status_;

  // State of the current block.
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int address_shift_ = 0;
  TraceEvent last_;
  std::uint64_t last_address_ = 0;
  TraceTag last_tag_ = 0;
  TraceRegion last_region_ = 0;
};

}  // namespace tidepool::native

#endif  // TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_EVENTS_H_

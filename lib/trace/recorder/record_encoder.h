// SPDX-License-Identifier: Apache-2.0
// Record encoder: turns records into blocks of a native trace. Numbers streams and threads in the
// order of their first record, and tracks the live allocation at each address.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_RECORD_ENCODER_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_RECORD_ENCODER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "lib/trace/model/sleepers.h"
#include "lib/trace/native/native_encoder.h"
#include "lib/trace/recorder/record.h"
#include "lib/trace/recorder/tick_clock.h"

namespace tidepool::recorder {

class RecordEncoder {
 public:
  explicit RecordEncoder(std::int64_t alignment);

  // Names of marks and of regions, in the order of their numbers.
  struct Names {
    std::vector<std::string> marks;
    std::vector<std::string> regions;
  };
  // Encodes records in whole blocks, with times from `clock` and the new names among the records.
  void Encode(absl::Span<const Record> records, const Names& new_names, const TickClock& clock);
  // Encodes the end of the trace.
  void End() { encoder_.End(false); }

  std::string_view output() const { return encoder_.output(); }
  void Clear() { encoder_.Clear(); }

 private:
  // Numbers keys 0, 1, 2, ... in the order of their first use. Remembers the last key, because most
  // calls repeat it.
  class KeyNumbers {
   public:
    std::uint32_t NumberOf(std::uint64_t key, bool* is_new);

   private:
    absl::flat_hash_map<std::uint64_t, std::uint32_t> numbers_;
    std::uint64_t last_key_ = 0;
    std::uint32_t last_ = UINT32_MAX;
  };

  std::uint32_t StreamNumber(std::uint64_t stream);
  std::uint32_t ThreadNumber(std::uint64_t thread);
  void EncodeRecord(const Record& record, std::int64_t time);
  void EncodeSleep(const native::NativeEncoder::Context& context, const Record& record);
  void EncodeFree(const native::NativeEncoder::Context& context, std::uint64_t address);

  native::NativeEncoder encoder_;
  KeyNumbers streams_;
  KeyNumbers threads_;
  std::size_t regions_ = 0;  // with a name
  trace::Sleepers sleepers_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> live_;  // allocation by address
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_RECORD_ENCODER_H_

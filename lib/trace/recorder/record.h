// SPDX-License-Identifier: Apache-2.0
// Record: the arguments of one recording call, in a struct of fixed size. The writer thread encodes
// it later.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_RECORD_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_RECORD_H_

#include <cstdint>

#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"

namespace tidepool::recorder {

struct Record {
  std::uint64_t ticks = 0;    // time stamp of the tick clock
  std::uint64_t subject = 0;  // an address, the number of a mark's name, or the awaited stream
  std::uint64_t stream = 0;
  std::int64_t bytes = 0;  // of a pause: its mode
  std::uint32_t thread = 0;
  TraceEvent::Kind kind = TraceEvent::Kind::kAllocate;
  Hint hint = Hint::kResident;
  TraceRegion region = 0;
};
static_assert(sizeof(Record) == 40);

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_RECORD_H_

// SPDX-License-Identifier: Apache-2.0
// Lowers the steps of a schedule one by one, with the state of each datum between them.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_LOWERING_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_LOWERING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/training/schedule/lower/data_parts.h"
#include "lib/training/schedule/lower/memory_users.h"
#include "lib/training/schedule/lower/operation_queue.h"
#include "lib/training/schedule/lower/page_ranges.h"
#include "lib/training/schedule/lower/program_streams.h"
#include "tidepool/training/program.h"

namespace tidepool::schedule {

// Not thread-safe. The arguments by reference outlive the lowering. Steps have valid numbers.
class Lowering {
 public:
  Lowering(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
           const LowerOptions& options, Program& program);

  // Sets the graph of the next steps; it differs in sizes and times.
  void SetGraph(const TaskGraph& graph) { graph_ = &graph; }
  absl::Status AddStep(std::size_t step, std::uint32_t repetition);
  // Ends an iteration, of which another one follows: data that the next one makes again goes.
  void EndIteration();
  // Ends the program.
  absl::Status Finish();

 private:
  using Reason = ProgramWait::Reason;

  enum class Use : std::uint8_t { kRead, kWrite };

  struct Memory {
    std::int64_t offset = -1;  // its addresses; those of data in pages follow from its other bytes
    PageRanges pages = {};
    StreamEnds users = {};  // before
  };

  absl::Status Allocate(const ScheduleStep& step);
  void Free(const ScheduleStep& step);
  absl::Status Drop(const ScheduleStep& step);
  absl::Status Run(const ScheduleStep& step);
  absl::Status RunOnDevice(const ScheduleStep& step);
  void RunOnHost(const ScheduleStep& step);
  absl::Status Offload(const ScheduleStep& step);
  absl::Status Prefetch(const ScheduleStep& step);
  absl::Status Exchange(const ScheduleStep& step);
  absl::StatusOr<Memory> TakeBuffer(const ScheduleStep& step, std::int64_t bytes);
  void GiveBuffer(const ScheduleStep& step, Memory buffer, std::int64_t bytes, StreamEnd at);
  double ExchangeSeconds(const ScheduleStep& step) const;

  // Waits of the next operation, `at`.
  void UsePart(DataPart& part, Use use, StreamEnd at);
  void UseData(std::size_t device, const std::vector<std::size_t>& data, Use use, StreamEnd at);
  void WriteHost(std::size_t instance, std::int64_t begin, std::int64_t end, double density,
                 StreamEnd at);

  // Memory of devices.
  absl::StatusOr<Memory> TakeMemory(const ScheduleStep& step, std::int64_t begin, std::int64_t end);
  void GiveMemory(std::size_t device, Memory memory, std::int64_t begin, std::int64_t end);
  void GivePart(std::size_t device, std::size_t data, DataPart& part);
  void ShareUsers(DataParts& parts) const;
  absl::Status AddPart(const ScheduleStep& step, std::int64_t begin, std::int64_t end);
  absl::Status BeginHome(const ScheduleStep& step, const Memory& memory, DataPart& part);
  std::int64_t Rounded(std::int64_t bytes) const;
  std::int64_t RoundedSize(std::int64_t begin, std::int64_t end) const {
    return Rounded(end) - Rounded(begin);
  }

  // Addresses of pages.
  std::int64_t NewAddresses(std::size_t device, std::int64_t bytes);
  void AddMapping(std::size_t device, std::int64_t offset, ByteRange pages);
  std::int64_t MapData(const ScheduleStep& step, std::int64_t begin, const PageRanges& pages);
  void CountUsedPages();
  void AddMoves(std::size_t instance);
  void CloseMoves(std::size_t device);

  // Counts bytes that the program takes or moves, for sums that must not overflow.
  void Count(std::int64_t bytes);

  // Spans of the program.
  std::uint32_t AddSpan(const ProgramMemory& span);
  void EndSpan(DataPart& part, std::int64_t bytes);
  void EndHostSpans(std::size_t device, std::size_t data);

  void AddOperation(ProgramOperation operation, StreamEnd at);
  void AddOffsets(const ScheduleStep& step, std::int64_t workspace_offset);
  double CopySeconds(const ScheduleStep& step, DataParts& copies) const;
  double HostCopySeconds(const ScheduleStep& step, double density) const;
  std::int64_t HostBytes(std::size_t data, const DataPart& copy) const;
  double AddUpOnHost(std::size_t data, StreamEnd at);
  std::int64_t EndOf(const ScheduleStep& step) const;
  bool IsFixed() const { return schedule_.memory == ScheduleMemory::kFixed; }
  bool HasOffsets() const { return IsFixed() || maps_pages_; }
  bool IsShared(std::size_t data) const;

  DataParts& OnDevice(std::size_t device, std::size_t data) {
    return on_device_[device * data_count_ + data];
  }
  // Returns the number of the host's copy of a device's data; kHostDevice has copies too.
  std::size_t HostInstance(std::size_t device, std::size_t data) const;

  template <typename... Parts>
  absl::Status OutOfMemory(const Parts&... parts) const;
  absl::Status Wrong(const char* text) const;
  absl::Status CheckParts(const DataParts& parts) const;

  const TaskGraph* graph_;
  const Schedule& schedule_;
  const Machine& machine_;
  const HostCompression* const host_compression_;  // null: devices compress
  const bool maps_pages_;
  Program& program_;
  const std::size_t data_count_;
  StreamNumbers streams_;
  OperationQueue queue_;
  std::vector<AddressUsers> addresses_;  // by device
  std::vector<PageUsers> pages_;         // by device
  std::vector<DataParts> on_device_;     // by device and data
  std::vector<DataPages> mapped_;        // by device and data; empty unless pages are mapped
  std::vector<PageRanges> homes_;        // like mapped_: the first pages of data at home
  std::vector<bool> has_begun_;          // by device and data: has had memory of its home
  std::vector<DataParts> on_host_;       // by device and data, the host's own at the end
  std::size_t at_ = 0;                   // the current step
  std::uint32_t repetition_ = 0;
  bool is_first_iteration_ = true;
  std::int64_t counted_bytes_ = 0;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_LOWERING_H_

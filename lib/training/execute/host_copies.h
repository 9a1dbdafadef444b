// SPDX-License-Identifier: Apache-2.0
// The places of all copies of data on the host, in one area. A copy keeps its place while the
// schedule runs, so that nothing is pinned meanwhile.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_HOST_COPIES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_HOST_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// Weights and the state of their optimizer have one copy for all devices. Of other data each device
// has a copy, and the tasks of the host have one more, for the data that they write.
class HostCopies {
 public:
  // Places the copies that the program uses, and those of data at home on the host. Where the host
  // compresses copies, these get no place.
  HostCopies(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Program& program,
             bool host_compresses);

  std::size_t count() const { return offsets_.size(); }
  std::int64_t bytes() const { return bytes_; }
  // Returns the number of the copy of a device's data; kHostDevice: that of the host's tasks.
  std::size_t Of(std::size_t device, std::size_t data) const;
  // Returns the numbers of all copies of a datum, in the order of devices.
  std::vector<std::size_t> AllOf(std::size_t data) const;
  // Returns the position in the area, or -1 for a copy without a place.
  std::int64_t OffsetOf(std::size_t copy) const { return offsets_[copy]; }
  // Copies of data at home on the host come first in the area: these bytes. They stay from one
  // iteration to the next.
  std::int64_t home_bytes() const { return home_bytes_; }
  // Returns whether copies of data at home have the same places in both areas.
  bool HasHomesOf(const HostCopies& other) const;

 private:
  void NeedTask(const GraphTask& task);
  bool IsHome(std::size_t copy) const;
  void Place(std::size_t copy);

  const absl::Span<const TaskGraph> graphs_;
  const std::size_t devices_;
  std::vector<std::int64_t> offsets_;
  std::int64_t bytes_ = 0;
  std::int64_t home_bytes_ = 0;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_HOST_COPIES_H_

// SPDX-License-Identifier: Apache-2.0
// The instances of data while a program is walked through: one on each device, and the copies on
// the host. Knows which exist, which were written in an earlier round, and which wait for the
// contents that they have before an iteration.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_DATA_INSTANCES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_DATA_INSTANCES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lib/training/execute/host_copies.h"
#include "tidepool/training/graph.h"

namespace tidepool::execute {

// The uses of an instance since it was filled. Operations are numbers in a QueuePlan.
struct HomeUses {
  static constexpr std::uint32_t kNoFill = UINT32_MAX;

  bool awaits_fill = false;
  std::uint32_t fill = kNoFill;
  absl::InlinedVector<std::pair<std::uint32_t, std::uint32_t>, 2> users;  // stream, its last use

  bool IsUsedBy(std::uint32_t stream) const;
  void NoteUser(std::uint32_t stream, std::uint32_t operation);
};

class DataInstances {
 public:
  // The arguments outlive the object.
  DataInstances(const TaskGraph& graph, std::size_t devices, const HostCopies& copies);

  // Return the number of an instance.
  std::size_t OnDevice(std::size_t device, std::size_t data) const {
    return device * data_count() + data;
  }
  std::size_t OnHost(std::size_t copy) const { return devices_ * data_count() + copy; }

  std::size_t DataOf(std::size_t instance) const { return instance % data_count(); }
  bool IsOnHost(std::size_t instance) const { return instance >= devices_ * data_count(); }
  // Returns the device that has the instance, or that sends this copy; kHostDevice for a copy of
  // all devices and of the host's tasks.
  std::size_t OwnerOf(std::size_t instance) const;

  // Begins a repetition of a round, with new inputs on the host.
  void StartRound();
  void Allocate(std::size_t device, std::size_t data);
  void Free(std::size_t device, std::size_t data);
  // Notes that a task writes the instance in a repetition. Returns whether it was written in an
  // earlier one, and not freed since.
  bool Write(std::size_t instance, std::int64_t repetition);
  void SetExists(std::size_t instance) { instances_[instance].exists = true; }
  bool Exists(std::size_t instance) const { return instances_[instance].exists; }
  HomeUses& UsesOf(std::size_t instance) { return instances_[instance].uses; }

 private:
  static constexpr std::int64_t kNever = -1;

  struct Instance {
    bool exists = false;
    std::int64_t written_in = kNever;
    HomeUses uses;
  };

  std::size_t data_count() const { return graph_.data.size(); }

  const TaskGraph& graph_;
  const std::size_t devices_;
  const HostCopies& copies_;
  std::vector<Instance> instances_;
  bool has_started_ = false;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_DATA_INSTANCES_H_

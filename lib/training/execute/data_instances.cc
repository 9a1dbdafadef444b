// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/data_instances.h"

#include <algorithm>

#include "tidepool/training/schedule.h"

namespace tidepool::execute {

bool HomeUses::IsUsedBy(std::uint32_t stream) const {
  return std::any_of(users.begin(), users.end(),
                     [&](const auto& user) { return user.first == stream; });
}

void HomeUses::NoteUser(std::uint32_t stream, std::uint32_t operation) {
  const auto own = std::find_if(users.begin(), users.end(),
                                [&](const auto& user) { return user.first == stream; });
  if (own == users.end()) {
    users.emplace_back(stream, operation);
  } else {
    own->second = operation;
  }
}

DataInstances::DataInstances(const TaskGraph& graph, std::size_t devices, const HostCopies& copies)
    : graph_(graph),
      devices_(devices),
      copies_(copies),
      instances_(devices * graph.data.size() + copies.count()) {}

std::size_t DataInstances::OwnerOf(std::size_t instance) const {
  const std::size_t owner = instance / data_count();
  if (owner < devices_) return owner;
  return owner == 2 * devices_ ? kHostDevice : owner - devices_;
}

void DataInstances::StartRound() {
  for (std::size_t copy = 0; copy < copies_.count(); ++copy) {
    const GraphData& data = graph_.data[copy % data_count()];
    const bool begins = !has_started_ || data.kind == DataKind::kInput;
    if (!begins || data.before != DataHome::kHost || copies_.OffsetOf(copy) < 0) continue;
    Instance& instance = instances_[OnHost(copy)];
    instance.exists = instance.uses.awaits_fill = true;
  }
  has_started_ = true;
}

void DataInstances::Allocate(std::size_t device, std::size_t data) {
  Instance& instance = instances_[OnDevice(device, data)];
  if (graph_.data[data].before == DataHome::kDevice) {
    // Data at home stays from one iteration to the next.
    instance.uses.awaits_fill |= !instance.exists;
  } else {
    instance.written_in = kNever;
  }
  instance.exists = true;
}

void DataInstances::Free(std::size_t device, std::size_t data) {
  const std::size_t copy = copies_.Of(device, data);
  instances_[OnDevice(device, data)].exists = false;
  instances_[OnDevice(device, data)].written_in = kNever;
  const bool is_own = copy != copies_.Of(kHostDevice, data);
  if (is_own && graph_.data[data].before != DataHome::kHost)
    instances_[OnHost(copy)].exists = false;
}

bool DataInstances::Write(std::size_t instance, std::int64_t repetition) {
  const std::int64_t before = std::exchange(instances_[instance].written_in, repetition);
  return before != kNever && before != repetition;
}

}  // namespace tidepool::execute

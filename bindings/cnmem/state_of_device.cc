// SPDX-License-Identifier: Apache-2.0
// Assigns each used block to the stream of its owner.
#include "bindings/cnmem/state_of_device.h"

#include <algorithm>

namespace tidepool::cnmem {

std::size_t StateOfDevice::IndexOf(Stream owner) const {
  const auto found =
      std::find_if(managers_.begin(), managers_.end(),
                   [&](const StreamManager* manager) { return manager->WasNamed(owner); });
  return static_cast<std::size_t>(found - managers_.begin());
}

void StateOfDevice::AddPool(const std::vector<PoolBlock>& blocks) {
  for (const PoolBlock& block : blocks) {
    pool_bytes_ += block.bytes;
    MemoryBlock& added = state_.blocks.emplace_back();
    added.address = block.address;
    added.bytes = block.bytes;
    added.is_used = block.used;
    if (!block.used) continue;
    const std::size_t owner = IndexOf(block.stream);
    live_bytes_[owner] += block.bytes;
    if (owner < managers_.size()) added.stream = managers_[owner]->native();
  }
}

void StateOfDevice::AddReserve(const StreamManager& manager, const std::vector<PoolBlock>& blocks) {
  for (const PoolBlock& block : blocks) {
    state_.blocks.push_back(
        {block.address, block.bytes, block.used, manager.native(), /*is_reserved=*/true});
  }
}

MemoryState StateOfDevice::StateFor(const StreamManager& asked, std::int64_t pool_bytes,
                                    std::int64_t budget_bytes) const {
  std::vector<StreamUse> uses(managers_.size());
  for (std::size_t i = 0; i < managers_.size(); ++i) {
    uses[i].live_bytes = live_bytes_[i];
    if (managers_[i]->reserve == nullptr) uses[i].reserved_bytes = managers_[i]->reserved_bytes;
  }
  const Shares shares = ShareOut({pool_bytes, budget_bytes, live_bytes_.back()}, uses);

  MemoryState state = state_;
  state.stream = asked.native();
  state.device_free_bytes = shares.free_bytes;
  state.device_total_bytes = shares.total_bytes;
  std::int64_t own_bytes = 0;
  std::int64_t own_free_bytes = 0;
  for (const MemoryBlock& block : state.blocks) {
    if (!block.is_reserved) continue;
    state.device_total_bytes += block.bytes;
    if (block.stream != asked.native()) continue;
    own_bytes += block.bytes;
    if (!block.is_used) own_free_bytes += block.bytes;
  }
  const auto index = static_cast<std::size_t>(
      std::find(managers_.begin(), managers_.end(), &asked) - managers_.begin());
  const bool is_default = index == managers_.size();
  state.free_bytes =
      is_default ? shares.free_bytes : shares.stream_free_bytes[index] + own_free_bytes;
  state.total_bytes = is_default ? state.device_total_bytes
                                 : shares.stream_free_bytes[index] + live_bytes_[index] + own_bytes;
  return state;
}

}  // namespace tidepool::cnmem

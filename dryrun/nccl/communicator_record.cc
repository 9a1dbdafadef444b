// SPDX-License-Identifier: Apache-2.0
#include "dryrun/nccl/communicator_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "dryrun/runtime/cudart/control.h"

namespace tidepool::cudart_host {
namespace {

// Returns the least bytes of the buffers of a communicator, as `communicator` of
// dryrun/program/tidepool_dryrun/outside.py does.
std::int64_t LeastBytes(const CommunicatorEntry& entry) {
  const char* const text = std::getenv("NCCL_HOST_MEMORY");
  long long pair = 0;
  long long ring = 0;
  int others = 0;
  if (text == nullptr || std::sscanf(text, "%lld,%lld,%d", &pair, &ring, &others) != 3) return 0;
  if (entry.ranks == 1) return 0;
  const std::int64_t of_collective = entry.ranks > 2 ? ring : pair;
  return (entry.has_collective != 0 ? of_collective : 0) + std::min(entry.peers, others) * pair;
}

}  // namespace

// Is never destroyed: communicators live until the end of the process.
CommunicatorRecord& CommunicatorRecord::Get() {
  static auto* const record = new CommunicatorRecord();
  return *record;
}

std::size_t CommunicatorRecord::Add(int ranks, int device) {
  const std::unique_lock<std::mutex> lock(mutex_);
  const char* const folder = std::getenv("NCCL_HOST_FOLDER");
  if (process_ != getpid() && folder != nullptr && *folder != 0) {
    process_ = getpid();
    slots_.clear();
    const std::string path = std::string(folder) + "/communicators-" + std::to_string(process_);
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  const CommunicatorEntry own = {
      .ranks = ranks, .device = device, .peers = 0, .has_collective = 0, .is_live = 1};
  auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& one) {
    return one.noted.is_live == 0 && one.noted.ranks == ranks && one.noted.device == device;
  });
  if (slot == slots_.end()) slot = slots_.insert(slot, {own, own});
  slot->own = own;
  slot->noted.is_live = 1;
  const auto number = static_cast<std::size_t>(slot - slots_.begin());
  Write(number);
  return number;
}

bool CommunicatorRecord::SetPeers(std::size_t number, int peers) {
  return Use(number, peers, false);
}

bool CommunicatorRecord::SetCollective(std::size_t number) { return Use(number, 0, true); }

bool CommunicatorRecord::Use(std::size_t number, int peers, bool has_collective) {
  const std::unique_lock<std::mutex> lock(mutex_);
  if (number >= slots_.size()) return true;
  Slot& slot = slots_[number];
  CommunicatorEntry own = slot.own;
  own.peers = std::max(own.peers, peers);
  if (has_collective) own.has_collective = 1;
  if (own == slot.own) return true;
  const std::int64_t bytes = LeastBytes(own) - LeastBytes(slot.own);
  if (bytes > 0 && cudartHostTakeForLibrary(own.device, bytes) == 0) return false;
  slot.own = own;
  slot.noted.peers = std::max(slot.noted.peers, own.peers);
  slot.noted.has_collective |= own.has_collective;
  Write(number);
  return true;
}

void CommunicatorRecord::Remove(std::size_t number) {
  const std::unique_lock<std::mutex> lock(mutex_);
  if (number >= slots_.size()) return;
  Slot& slot = slots_[number];
  const std::int64_t bytes = LeastBytes(slot.own);
  if (bytes > 0) cudartHostTakeForLibrary(slot.own.device, -bytes);
  slot.noted.is_live = 0;
  Write(number);
}

void CommunicatorRecord::Write(std::size_t number) const {
  if (file_ < 0 || process_ != getpid()) return;
  const auto place = static_cast<off_t>(number * sizeof(CommunicatorEntry));
  // A note that cannot be written is missing from the answer; the program goes on.
  static_cast<void>(!pwrite(file_, &slots_[number].noted, sizeof(CommunicatorEntry), place));
}

}  // namespace tidepool::cudart_host

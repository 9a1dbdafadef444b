// SPDX-License-Identifier: Apache-2.0
#include "dryrun/nccl/communicator_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tidepool::cudart_host {

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
    entries_.clear();
    const std::string path = std::string(folder) + "/communicators-" + std::to_string(process_);
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const CommunicatorEntry& one) {
    return one.is_live == 0 && one.ranks == ranks && one.device == device;
  });
  if (entry == entries_.end()) {
    entry = entries_.insert(
        entry, {.ranks = ranks, .device = device, .peers = 0, .has_collective = 0, .is_live = 0});
  }
  entry->is_live = 1;
  const auto number = static_cast<std::size_t>(entry - entries_.begin());
  Write(number);
  return number;
}

void CommunicatorRecord::SetPeers(std::size_t number, int peers) {
  const std::unique_lock<std::mutex> lock(mutex_);
  if (number >= entries_.size()) return;
  entries_[number].peers = std::max(entries_[number].peers, peers);
  Write(number);
}

void CommunicatorRecord::SetCollective(std::size_t number) {
  const std::unique_lock<std::mutex> lock(mutex_);
  if (number >= entries_.size() || entries_[number].has_collective != 0) return;
  entries_[number].has_collective = 1;
  Write(number);
}

void CommunicatorRecord::Remove(std::size_t number) {
  const std::unique_lock<std::mutex> lock(mutex_);
  if (number >= entries_.size()) return;
  entries_[number].is_live = 0;
  Write(number);
}

void CommunicatorRecord::Write(std::size_t number) const {
  if (file_ < 0 || process_ != getpid()) return;
  const auto place = static_cast<off_t>(number * sizeof(CommunicatorEntry));
  // A note that cannot be written is missing from the answer; the program goes on.
  static_cast<void>(!pwrite(file_, &entries_[number], sizeof(CommunicatorEntry), place));
}

}  // namespace tidepool::cudart_host

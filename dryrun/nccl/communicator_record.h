// SPDX-License-Identifier: Apache-2.0
// Notes the communicators of this process in a file, for answers about the memory that NCCL itself
// would take: communicators-PROCESS in the folder that NCCL_HOST_FOLDER names. Without it nothing
// is noted.
#ifndef TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_RECORD_H_
#define TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tidepool::cudart_host {

// The file is an array of these. A communicator takes the entry of one that has gone, if it has as
// many ranks, so the entries are those that were there at once.
struct CommunicatorEntry {
  std::int32_t ranks;
  std::int32_t device;
  std::int32_t peers;  // ranks with which messages were exchanged, the most at any time
  std::int32_t has_collective;
  std::int32_t is_live;
};

// Thread-safe.
class CommunicatorRecord {
 public:
  static CommunicatorRecord& Get();

  // Returns the number of the entry.
  std::size_t Add(int ranks, int device);
  void SetPeers(std::size_t number, int peers);
  void SetCollective(std::size_t number);
  void Remove(std::size_t number);

 private:
  void Write(std::size_t number) const;

  std::mutex mutex_;
  int file_ = -1;
  int process_ = 0;  // of the file: a forked child has one of its own
  std::vector<CommunicatorEntry> entries_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_RECORD_H_

// SPDX-License-Identifier: Apache-2.0
// Notes the communicators of this process in a file, for answers about the memory that NCCL itself
// would take: communicators-PROCESS in the folder that NCCL_HOST_FOLDER names. Without it nothing
// is noted. The least of that memory is taken from the device, where NCCL_HOST_MEMORY says how
// much: bytes for a pair of ranks, bytes for a ring of more, and the number of other GPUs of the
// node.
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
  bool operator==(const CommunicatorEntry&) const = default;
};

// Thread-safe.
class CommunicatorRecord {
 public:
  static CommunicatorRecord& Get();

  // Returns the number of the entry.
  std::size_t Add(int ranks, int device);
  // Return false and note nothing where the device has no room for the buffers.
  [[nodiscard]] bool SetPeers(std::size_t number, int peers);
  [[nodiscard]] bool SetCollective(std::size_t number);
  void Remove(std::size_t number);

 private:
  struct Slot {
    CommunicatorEntry own;    // of the communicator that has it, or of the last one
    CommunicatorEntry noted;  // of all that had it
  };

  bool Use(std::size_t number, int peers, bool has_collective);
  void Write(std::size_t number) const;

  std::mutex mutex_;
  int file_ = -1;
  int process_ = 0;  // of the file: a forked child has one of its own
  std::vector<Slot> slots_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_RECORD_H_

// SPDX-License-Identifier: Apache-2.0
// A thread with buffers of an offloader. It writes and checks them on its streams, offloads and
// prefetches them, and knows their expected contents whichever call failed.
#ifndef TIDEPOOL_TESTS_STRESS_OFFLOADER_USER_H_
#define TIDEPOOL_TESTS_STRESS_OFFLOADER_USER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "tests/stress/offloader_rig.h"
#include "tests/stress/stress.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::stress {

// The names of buffers, by which threads use each other's buffers.
using BufferNames = std::array<std::atomic<std::uint64_t>, 32>;

class OffloaderUser {
 public:
  OffloaderUser(Worker& worker, OffloaderRig& rig, BufferNames& names);
  OffloaderUser(const OffloaderUser&) = delete;
  OffloaderUser& operator=(const OffloaderUser&) = delete;

  void Step();
  // Checks and frees all buffers. Other threads do so too, since memory may have to become free.
  void End();
  // Waits for its streams, and leaves the buffers to the offloader.
  void Leave();

 private:
  struct Owned {
    BufferId buffer;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;
    Stream stream;  // its work so far comes after all writes of the buffer
    bool was_sent = false;
  };
  static constexpr std::size_t kMostBuffers = 12;

  Dice& dice() { return worker_.dice(); }
  bool Ended(const absl::Status& status);
  BufferState StateOf(const Owned& owned);
  absl::Time AnyDeadline();
  Stream AnyStream() { return dice().Pick(streams_); }
  void Order(Stream stream, Stream before);
  void Queue(Stream stream, std::function<void()> work);
  void Dawdle();
  void WaitFor(Stream stream);
  // Whether the buffer is on the device after the work queued on `stream`. False if its prefetch
  // failed, and with it the work queued after Use.
  bool IsThereAfter(const Owned& owned, Stream stream);

  void Add();
  void Send(Owned& owned);
  void Fetch(Owned& owned);
  absl::Status Prefetch(Owned& owned);
  bool MayUse(Owned& owned);
  void Await(Owned& owned);
  void Write(Owned& owned);
  void Check(Owned& owned);
  void Free(std::size_t at);
  void MakeRoom();
  void Meddle();
  void Synchronize();

  Worker& worker_;
  OffloaderRig& rig_;
  Offloader& offloader_;
  BufferNames& names_;
  std::array<Stream, 2> streams_;
  Event event_;
  std::vector<Owned> owned_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_OFFLOADER_USER_H_

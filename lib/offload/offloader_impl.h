// The offloader puts its parts together: buffers and their states, copies and their ends, and
// requests that wait for memory.
//
// A copy is queued under the mutex and *finished* without: a thread that wants its end waits for
// it, and then *settles* what it changes, under the mutex again. Any number of threads may finish
// the same copy; the first settles it. So threads that give memory back as soon as they can, and
// those that give it back when they need it, do the same.
//
// No thread pins memory, waits for the device, or waits for a change while it holds the mutex.
#ifndef TIDEPOOL_LIB_OFFLOAD_OFFLOADER_IMPL_H_
#define TIDEPOOL_LIB_OFFLOAD_OFFLOADER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/offload/buffer_memory.h"
#include "lib/offload/buffers.h"
#include "lib/offload/ended_copies.h"
#include "lib/offload/event_pool.h"
#include "tidepool/schedule/offloader.h"

namespace tidepool::offload {

class OffloaderImpl final : public Offloader {
 public:
  OffloaderImpl(Device& device, Pool& pool, PinnedPool& host, const OffloaderOptions& options)
      : device_(device), pool_(pool), host_(host), options_(options), events_(device) {}
  ~OffloaderImpl() override;

  absl::Status Start();

  absl::StatusOr<BufferId> Allocate(std::size_t bytes, Stream stream, Hint hint,
                                    std::string_view name, absl::Time deadline) override;
  absl::StatusOr<void*> Use(BufferId id, Stream stream) override;
  absl::Status Offload(BufferId id, Event after, std::optional<ZeroValueWord> word,
                       CopyWatch watch) override;
  absl::Status Await(BufferId id) override;
  absl::Status Prefetch(BufferId id, Stream stream, Hint hint, absl::Time deadline,
                        CopyWatch watch) override;
  absl::Status Free(BufferId id) override;
  absl::Status Synchronize() override;
  absl::StatusOr<BufferState> State(BufferId id) const override;
  OffloaderStats Stats() const override;
  Stream out_stream() const override { return out_; }
  Stream in_stream() const override { return in_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using CopyPointer = std::shared_ptr<BufferCopy>;
  using Copies = std::list<CopyPointer>;

  absl::Status StartThread(bool is_compressed);
  Lock Enter() const;
  absl::StatusOr<Buffer*> Find(BufferId id) const;
  absl::StatusOr<Buffer*> FindToOffload(BufferId id);
  void EndPromises(const Buffer& buffer);
  absl::Status CannotLeave(const Buffer& buffer, const absl::Status& error);
  absl::Status CheckIsOnDevice(Buffer& buffer);
  absl::Status TellFailure(Buffer& buffer);
  void EndPromise(BufferCopy& copy) const;

  // Copies: copies.cc.
  CopyPointer NewCopy(const Buffer& buffer, bool is_out);
  absl::StatusOr<std::shared_ptr<HostMemory>> TakeHostMemory(Lock& lock, std::int64_t bytes);
  absl::Status CopyRawOut(const Buffer& buffer, Event after, const CopyWatch& watch,
                          BufferCopy& copy);
  absl::Status CompressOut(const Buffer& buffer, Event after, ZeroValueWord word,
                           const CopyWatch& watch, const CopyPointer& copy);
  absl::Status CopyRawIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                         const CopyWatch& watch, BufferCopy& copy);
  absl::Status DecompressIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                            const CopyWatch& watch, const CopyPointer& copy);
  void Tell(Stream stream, const std::function<void()>& function);
  absl::Status WaitBehind(Stream stream, Event after, const CopyPointer& arrival);
  absl::Status WaitForArrival(BufferCopy& copy, Stream stream);
  void PutHomeBehind(BufferCopy& copy);
  absl::Status Mark(BufferCopy& copy) const;
  void Stay(Buffer& buffer);
  void GiveUp(const CopyPointer& copy) const;

  // Ends: copy_ends.cc.
  void CollectEnded() const;
  bool AwaitChange(Lock& lock, std::uint64_t seen, absl::Time deadline) const;
  // By value: others may drop what they know of the copy meanwhile.
  void Finish(Lock& lock, CopyPointer copy) const;
  bool FinishBy(Lock& lock, const CopyPointer& copy, absl::Time deadline) const;
  bool IsOver(BufferCopy& copy) const;
  void Settle(const CopyPointer& copy, const absl::Status& result) const;
  void Forget(Buffer& buffer) const;
  void NoteLost(const CopyPointer& copy) const;
  static void SettleOut(Buffer& buffer, const CopyPointer& copy);
  void SettleIn(Buffer& buffer, const CopyPointer& copy) const;
  void CountEnd(const BufferCopy& copy) const;
  void SettleArrivals() const;
  void DropUnwanted() const;
  absl::Status WaitOnHost(const BufferCopy& copy, bool is_marked) const;
  void GiveBackWhenOut(bool is_compressed);

  // Room: room.cc.
  absl::StatusOr<std::shared_ptr<DeviceMemory>> TakeMemory(Lock& lock, std::size_t bytes,
                                                           Stream stream, Hint hint,
                                                           std::string_view name,
                                                           absl::Time deadline);
  absl::StatusOr<void*> TakeInTurn(Lock& lock, std::size_t bytes, Stream stream, Hint hint,
                                   std::string_view name, absl::Time deadline, bool& has_waited);
  bool WaitForTurn(Lock& lock, std::uint64_t ticket, absl::Time deadline);
  CopyPointer FirstLeaving() const;
  absl::Status NoRoom(std::size_t bytes, std::string_view name, const absl::Status& refusal) const;
  std::int64_t PromisedBytes() const;
  absl::Status TooLate(std::size_t bytes, std::string_view name) const;
  void Changed() const;

  Device& device_;
  Pool& pool_;
  PinnedPool& host_;
  const OffloaderOptions options_;
  EventPool events_;
  Stream out_;
  Stream in_;
  Stream gate_;     // on which the pipeline is made to wait before it copies out
  Stream in_gate_;  // and in
  // They give memory back as soon as copies out are over: raw ones, and compressed ones.
  std::thread raw_thread_;
  std::thread compressed_thread_;
  mutable EndedCopies ended_;

  // What a look at a copy finds to be over is settled, whoever looks: so all that follows changes
  // in const functions too.
  mutable std::mutex mutex_;  // of all that follows
  mutable Holdings holdings_;
  mutable OffloaderStats stats_;
  // Not settled, in the order in which they were asked for.
  mutable Copies outs_;
  mutable Copies ins_;
  // Copies out by which nothing leaves any more, and that nobody may be waiting for.
  mutable Copies unwanted_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Buffer>> buffers_;
  // Copies in that failed, of buffers that do not say so any more, in the order in which they were
  // asked for: see NoteLost.
  mutable Copies lost_;
  std::int64_t last_sequence_ = 0;
  std::list<std::uint64_t> line_;  // tickets of those who want memory
  std::uint64_t last_ticket_ = 0;
  bool is_ending_ = false;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_OFFLOADER_IMPL_H_

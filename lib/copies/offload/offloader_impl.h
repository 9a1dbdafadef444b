// SPDX-License-Identifier: Apache-2.0
// The offloader: checks the state of a buffer, and begins or awaits its copies.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_OFFLOADER_IMPL_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_OFFLOADER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/copies/offload/buffer_memory.h"
#include "lib/copies/offload/memory_queue.h"
#include "lib/copies/offload/release_threads.h"
#include "lib/copies/offload/state.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::offload {

class OffloaderImpl final : public Offloader {
 public:
  OffloaderImpl(Device& device, Pool& pool, PinnedPool& host, const OffloaderOptions& options);
  ~OffloaderImpl() override;

  // Creates the streams and starts the threads.
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
  absl::StatusOr<DensityEstimate> ProbeDensity(BufferId id,
                                               const DensityProbeOptions& options) const override;
  OffloaderStats Stats() const override;
  Stream out_stream() const override { return state_->copies.raw().out(); }
  Stream in_stream() const override { return state_->copies.raw().in(); }

 private:
  // Releases the mutex meanwhile: the pool may pin memory, which takes long.
  absl::StatusOr<std::shared_ptr<HostMemory>> TakeHostMemory(std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status RefuseOffload(const Buffer& buffer, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status AwaitOffload(BufferId id, CopyPointer copy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status BeginPrefetch(Buffer& buffer, std::shared_ptr<DeviceMemory> memory, Stream stream,
                             const CopyWatch& watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  PinnedPool& host_;
  const OffloaderOptions options_;
  // A pointer, so const queries can settle copies that have finished.
  const std::unique_ptr<OffloaderState> state_;
  MemoryQueue queue_ ABSL_GUARDED_BY(state_->mutex);
  ReleaseThreads threads_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_OFFLOADER_IMPL_H_

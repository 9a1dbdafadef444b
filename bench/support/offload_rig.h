// SPDX-License-Identifier: Apache-2.0
// A pipeline on the host device, and transfers that wait for their end.
#ifndef TIDEPOOL_BENCH_SUPPORT_OFFLOAD_RIG_H_
#define TIDEPOOL_BENCH_SUPPORT_OFFLOAD_RIG_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool::bench {

template <typename T>
T Take(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}
inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct RigOptions {
  std::int64_t device_bytes = 0;
  std::int64_t host_bytes = 0;       // for compressed bytes
  double link_bytes_per_second = 0;  // 0: as fast as the host copies
  bool is_pinned = false;            // the memory for compressed bytes
  CompressionPipelineOptions pipeline = {};
};

class OffloadRig {
 public:
  using Stored = std::shared_ptr<const StoredBuffer>;

  explicit OffloadRig(const RigOptions& options) {
    device_ =
        Take(HostDevice::Create({.memory_bytes = options.device_bytes + (std::int64_t{1} << 20),
                                 .copy_bytes_per_second = options.link_bytes_per_second}));
    const std::int64_t ring = 2 * options.pipeline.ring.slots * options.pipeline.ring.slot_bytes;
    PinnedPoolOptions staging;
    staging.max_bytes = ring + (std::int64_t{64} << 10);
    staging_ = Take(PinnedPool::Create(device_.get(), staging));
    PagePoolOptions pages;
    pages.max_bytes = options.host_bytes;
    pages.initial_bytes = options.is_pinned ? 0 : options.host_bytes;
    pages_ = Take(PagePool::Create(pages));
    PinnedPoolOptions pinned;
    pinned.max_bytes = options.is_pinned ? options.host_bytes : std::int64_t{1} << 20;
    pinned_ = Take(PinnedPool::Create(device_.get(), pinned));
    const CompressedMemory memory =
        options.is_pinned ? CompressedMemory(pinned_.get()) : CompressedMemory(pages_.get());
    pipeline_ =
        Take(CompressionPipeline::Create(device_.get(), staging_.get(), memory, options.pipeline));
    memory_ = static_cast<std::byte*>(Take(device_->AllocateMemory(options.device_bytes)));
    stream_ = Take(device_->CreateStream());
  }
  ~OffloadRig() {
    pipeline_.reset();
    Check(device_->FreeMemory(memory_));
  }
  OffloadRig(const OffloadRig&) = delete;
  OffloadRig& operator=(const OffloadRig&) = delete;

  // Returns memory of the device; the host may write it, because the device is the host.
  std::byte* memory() { return memory_; }
  Device& device() { return *device_; }
  CompressionPipeline& pipeline() { return *pipeline_; }
  PinnedPool& staging() { return *staging_; }
  PinnedPool& pinned() { return *pinned_; }
  PagePool& pages() { return *pages_; }

  Stored Offload(const void* from, std::int64_t bytes, ZeroValueWord word) {
    std::promise<absl::StatusOr<Stored>> promise;
    Check(pipeline_->Offload(from, bytes, word, {}, [&promise](absl::StatusOr<Stored> stored) {
      promise.set_value(std::move(stored));
    }));
    return Take(promise.get_future().get());
  }
  void Prefetch(Stored stored, void* to) {
    std::promise<absl::Status> promise;
    Check(pipeline_->Prefetch(std::move(stored), to, {}, [&promise](absl::Status status) {
      promise.set_value(std::move(status));
    }));
    Check(promise.get_future().get());
  }
  void Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction) {
    Check(device_->Copy(to, from, bytes, direction, stream_));
    Check(device_->SynchronizeStream(stream_));
  }
  // Copies the buffer raw to the host and back, in copies of 1 MiB.
  double RawSeconds(std::int64_t bytes) {
    constexpr std::int64_t kCopy = std::int64_t{1} << 20;
    if (raw_.size() < static_cast<std::size_t>(bytes)) raw_.resize(static_cast<std::size_t>(bytes));
    const auto begin = std::chrono::steady_clock::now();
    for (const CopyDirection direction : {CopyDirection::kFromDevice, CopyDirection::kToDevice}) {
      for (std::int64_t at = 0; at < bytes; at += kCopy) {
        std::byte* const host = raw_.data() + at;
        const bool is_out = direction == CopyDirection::kFromDevice;
        Check(device_->Copy(is_out ? host : memory_ + at, is_out ? memory_ + at : host,
                            std::min(kCopy, bytes - at), direction, stream_));
      }
      Check(device_->SynchronizeStream(stream_));
    }
    return SecondsSince(begin);
  }

 private:
  std::vector<std::byte> raw_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::byte* memory_ = nullptr;
  Stream stream_;
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_OFFLOAD_RIG_H_

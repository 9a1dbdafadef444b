// SPDX-License-Identifier: Apache-2.0
// A buffer is compressed on its way to the host, and decompressed on its way back.
#include <future>
#include <memory>
#include <utility>

#include "check.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

int main() {
  constexpr std::int64_t kBytes = std::int64_t{32} << 20;
  auto device = Check(tidepool::HostDevice::Create({}));
  auto pool = Check(tidepool::Pool::Create(device.get(), {.max_bytes = 2 * kBytes}));
  const tidepool::Stream compute = Check(device->CreateStream());
  void* activation = Check(pool->Allocate(kBytes, compute));
  Check(device->Fill(activation, 0, kBytes, compute));  // zeros, as a ReLU leaves many

  // [compress]
  using Stored = std::shared_ptr<const tidepool::StoredBuffer>;
  auto staging = Check(tidepool::PinnedPool::Create(device.get(), {.max_bytes = 16 << 20}));
  auto pages = Check(tidepool::PagePool::Create({.max_bytes = std::int64_t{1} << 30}));
  auto pipeline =
      Check(tidepool::CompressionPipeline::Create(device.get(), staging.get(), pages.get(), {}));

  std::promise<absl::StatusOr<Stored>> offloaded;
  Check(pipeline->Offload(
      activation, kBytes, tidepool::ZeroValueWord::k32Bits, compute,  // after the work on compute
      [&offloaded](absl::StatusOr<Stored> result) { offloaded.set_value(std::move(result)); }));
  Stored stored = Check(offloaded.get_future().get());  // the device memory may be freed now

  std::promise<absl::Status> prefetched;
  Check(pipeline->Prefetch(stored, activation, compute, [&prefetched](absl::Status result) {
    prefetched.set_value(std::move(result));
  }));
  Check(prefetched.get_future().get());  // the bytes are on the device again
  // [/compress]

  std::printf("%.0f MiB took %.2f MiB on the host\n", MiB(stored->input_bytes()),
              MiB(stored->compressed_bytes()));
  const bool is_small = stored->compressed_bytes() < kBytes / 100;
  Check(pool->Free(activation, compute));
  return is_small ? 0 : 1;
}

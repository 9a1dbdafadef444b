// SPDX-License-Identifier: Apache-2.0
// A training loop on a pool that plans: later iterations are served at planned offsets.
#include <vector>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace {

// Allocates activations layer by layer, and frees them in the opposite order, as training does.
void TrainOneStep(tidepool::Device& device, tidepool::Pool& pool, tidepool::Stream stream) {
  std::vector<void*> activations;
  for (std::size_t layer = 1; layer <= 20; ++layer) {
    const std::size_t bytes = (21 - layer) << 16;
    void* workspace = Check(pool.Allocate(layer << 15, stream));
    activations.push_back(Check(pool.Allocate(bytes, stream)));
    Check(device.Fill(activations.back(), 1, static_cast<std::int64_t>(bytes), stream));
    Check(pool.Free(workspace, stream));
  }
  while (!activations.empty()) {
    Check(pool.Free(activations.back(), stream));
    activations.pop_back();
  }
}

}  // namespace

int main() {
  auto device = Check(tidepool::HostDevice::Create({}));
  const tidepool::Stream stream = Check(device->CreateStream());
  // [planned-iterations]
  tidepool::PoolOptions options;
  options.max_bytes = std::int64_t{64} << 20;
  options.placement = "planned";
  auto pool = Check(tidepool::Pool::Create(device.get(), options));
  for (int step = 0; step < 10; ++step) {
    pool->MarkIteration();  // optional: the pool also finds iterations that repeat exactly
    TrainOneStep(*device, *pool, stream);
    pool->AwaitPlans();  // for this short demonstration; a training loop does not wait
  }
  // [/planned-iterations]
  const tidepool::PoolStats stats = pool->Stats();
  std::printf("%lld plans, %lld of %lld requests served as planned, %lld deviations\n",
              static_cast<long long>(stats.plans), static_cast<long long>(stats.planned),
              static_cast<long long>(stats.allocations), static_cast<long long>(stats.deviations));
  return stats.planned > 0 ? 0 : 1;
}

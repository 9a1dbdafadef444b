// SPDX-License-Identifier: Apache-2.0
// A pool that starts with a plan made beforehand, and is exactly as high as the plan.
#include <vector>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/trace/plan.h"

int main() {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  auto device = Check(tidepool::HostDevice::Create({}));
  const tidepool::Stream stream = Check(device->CreateStream());

  // [follow-a-plan]
  // Three buffers of an iteration: lifetimes in any unit of time, sizes in bytes.
  tidepool::PlanProblem problem;
  problem.buffers = {{.lower = 0, .upper = 3, .bytes = 4 * kMiB, .alignment = 512},
                     {.lower = 1, .upper = 4, .bytes = 2 * kMiB, .alignment = 512},
                     {.lower = 3, .upper = 5, .bytes = 4 * kMiB, .alignment = 512}};
  const tidepool::Plan plan = Check(tidepool::MakePlan(problem));

  tidepool::PoolOptions options;
  options.placement = "planned";
  options.max_bytes = plan.height;
  options.plan = tidepool::ToPlacementPlan(problem, plan.offsets, problem.buffers.size());
  auto pool = Check(tidepool::Pool::Create(device.get(), options));
  // [/follow-a-plan]

  for (int iteration = 0; iteration < 3; ++iteration) {
    pool->MarkIteration();
    void* first = Check(pool->Allocate(4 * kMiB, stream));
    void* second = Check(pool->Allocate(2 * kMiB, stream));
    Check(pool->Free(first, stream));
    void* third = Check(pool->Allocate(4 * kMiB, stream));
    Check(pool->Free(second, stream));
    Check(pool->Free(third, stream));
  }
  const tidepool::PoolStats stats = pool->Stats();
  std::printf("%lld requests served as planned in %.0f MiB, %lld deviations\n",
              static_cast<long long>(stats.planned), MiB(stats.reserved_bytes),
              static_cast<long long>(stats.deviations));
  return stats.planned == 9 && stats.deviations == 0 ? 0 : 1;
}

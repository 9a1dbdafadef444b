// SPDX-License-Identifier: Apache-2.0
// The resource of rmm_mr.h with RMM's base class, up to 26.4: buffers with data, pools, failures.
#include <cstring>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

#include "expect.h"
#include "tidepool/rmm_mr.h"

static_assert(TIDEPOOL_RMM_HAS_BASE_CLASS == 1);

int main() {
  tidepool::RmmMemoryResource resource("device=cuda:0,budget=64MiB");
  tidepool_pool* const pool = resource.pool();
  rmm::mr::set_current_device_resource(&resource);
  {
    rmm::device_buffer buffer(1000, rmm::cuda_stream_default);
    rmm::device_uvector<float> numbers(100, rmm::cuda_stream_default);
    EXPECT(StatisticsOf(pool).live_bytes == 1024 + 512);
    const float three = 3;
    numbers.set_element(5, three, rmm::cuda_stream_default);
    EXPECT(numbers.element(5, rmm::cuda_stream_default) == 3);
  }
  EXPECT(StatisticsOf(pool).live_bytes == 0);
  {
    rmm::mr::pool_memory_resource<tidepool::RmmMemoryResource> above(&resource, 1 << 20);
    cudaStream_t raw = nullptr;
    EXPECT(cudaStreamCreate(&raw) == cudaSuccess);
    {
      const rmm::cuda_stream_view stream(raw);
      rmm::device_buffer buffer(1000, stream, &above);
      rmm::device_buffer copy(buffer, stream, &above);
      stream.synchronize();
      EXPECT(StatisticsOf(pool).live_bytes == 1 << 20);
    }
    EXPECT(cudaStreamDestroy(raw) == cudaSuccess);
  }
  EXPECT(StatisticsOf(pool).live_bytes == 0);
  const tidepool::RmmMemoryResource same(pool);
  const tidepool::RmmMemoryResource other("device=cuda:0");
  EXPECT(!resource.is_equal(other));
  bool has_thrown = false;
  try {
    rmm::device_buffer buffer(std::size_t{1} << 40, rmm::cuda_stream_default);
  } catch (const rmm::bad_alloc& error) {
    has_thrown = std::strstr(error.what(), "raise option 'budget'") != nullptr;
  }
  EXPECT(has_thrown);
  std::puts("RMM 25.2 with a base class: OK");
}

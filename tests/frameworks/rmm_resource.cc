// SPDX-License-Identifier: Apache-2.0
// The resource of rmm_mr.h with RMM 26.6 and newer: references, buffers and adaptors on a pool.
#include <cuda_runtime_api.h>

#include <cstring>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

#include "expect.h"
#include "tidepool/rmm_mr.h"

namespace {

const cuda::stream_ref kDefault{cudaStream_t{}};

// Allocates through a reference or adaptor, on the default stream and on another one.
template <typename Resource>
void UseOnce(Resource& resource, cuda::stream_ref stream, tidepool_pool* pool) {
  void* const address = resource.allocate(stream, 1000, 256);
  EXPECT(address != nullptr && StatisticsOf(pool).live_bytes == 1024);
  resource.deallocate(stream, address, 1000, 256);
  EXPECT(StatisticsOf(pool).live_bytes == 0);
}

template <typename Resource>
void ExpectOutOfMemory(Resource& resource) {
  try {
    static_cast<void>(resource.allocate(kDefault, std::size_t{1} << 40, 256));
  } catch (const rmm::out_of_memory& error) {
    EXPECT(std::strstr(error.what(), "raise option 'budget'") != nullptr);
    return;
  }
  EXPECT(!"no exception");
}

}  // namespace

int main() {
  static_assert(cuda::mr::resource_with<tidepool::MemoryResource, cuda::mr::device_accessible>);
  // [rmm]
  tidepool::RmmMemoryResource resource("device=cuda:0,budget=64MiB");
  // [/rmm]
  tidepool_pool* const pool = resource.pool();
  cudaStream_t stream = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);

  UseOnce(resource, stream, pool);
  rmm::device_async_resource_ref reference{resource};
  UseOnce(reference, kDefault, pool);
  UseOnce(reference, stream, pool);
  cuda::mr::any_resource<cuda::mr::device_accessible> any{resource};
  UseOnce(any, stream, pool);
  void* const for_all = resource.allocate_sync(1000);
  resource.deallocate_sync(for_all, 1000);
  {
    // [rmm-buffers]
    rmm::device_uvector<float> numbers(100, kDefault, resource);
    rmm::device_buffer buffer(1000, kDefault, resource);
    // [/rmm-buffers]
    EXPECT(StatisticsOf(pool).live_count == 2);
  }
  EXPECT(StatisticsOf(pool).live_count == 0);

  rmm::mr::statistics_resource_adaptor statistics(reference);
  UseOnce(statistics, stream, pool);
  EXPECT(statistics.get_bytes_counter().peak == 1000);
  rmm::mr::limiting_resource_adaptor limiting(reference, 2000);
  UseOnce(limiting, stream, pool);
  ExpectOutOfMemory(resource);
  ExpectOutOfMemory(reference);
  int failures = 0;
  rmm::mr::failure_callback_resource_adaptor<rmm::out_of_memory> callback(
      reference, [](std::size_t, void* count) { return ++*static_cast<int*>(count) < 3; },
      &failures);
  ExpectOutOfMemory(callback);
  EXPECT(failures == 3);
  EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
  std::puts("RMM 26.10 without a base class: OK");
}

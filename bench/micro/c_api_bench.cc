// SPDX-License-Identifier: Apache-2.0
// Claims: a pair through the C interface costs at most 1.2 times the pair through Pool, and nothing
// more where NVTX is asked and no tool is attached. Both take turns in one run; each row is the
// fastest of ten rounds, in nanoseconds a pair, and their ratio. The rows of NVTX need a CUDA
// device with 1 TiB:
//   CUDART_HOST_MEMORY=1099511627776 LD_LIBRARY_PATH=build/release/cudart_host c_api_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/c_api.h"

namespace tidepool::bench {
namespace {

// One stream of a pool of the C interface, with the requests of PoolEngine.
class CApiEngine {
 public:
  explicit CApiEngine(const char* options) {
    if (tidepool_pool_create(options, &pool_) != TIDEPOOL_OK ||
        tidepool_stream_create(pool_, &stream_) != TIDEPOOL_OK) {
      std::fprintf(stderr, "%s\n", tidepool_last_error());
      std::exit(1);
    }
  }
  ~CApiEngine() { tidepool_pool_destroy(pool_); }
  CApiEngine(const CApiEngine&) = delete;
  CApiEngine& operator=(const CApiEngine&) = delete;

  void* Allocate(std::int64_t bytes) {
    const tidepool_hint hint = (++requests_ & 3) == 0 ? TIDEPOOL_OFFLOADABLE : TIDEPOOL_RESIDENT;
    void* address = nullptr;
    tidepool_allocate(pool_, static_cast<std::size_t>(bytes), stream_, hint, &address);
    return address;
  }
  void Free(void* address) { tidepool_free(pool_, address, stream_); }

 private:
  tidepool_pool* pool_ = nullptr;
  tidepool_stream stream_ = nullptr;
  std::uint64_t requests_ = 0;
};

template <typename Workload>
double NanosecondsOfRound(Workload& workload) {
  constexpr int kPairs = 500'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kPairs; ++i) workload.Step();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
             .count() /
         kPairs;
}

// Two engines, with their names in the table.
template <typename Engine>
struct Named {
  const char* name;
  Engine& engine;
};

template <typename First, typename Second>
void Compare(std::size_t live, Named<First> first, Named<Second> second) {
  RandomReplacement<First> on_first(first.engine, live);
  RandomReplacement<Second> on_second(second.engine, live);
  double first_ns = NanosecondsOfRound(on_first);
  double second_ns = NanosecondsOfRound(on_second);
  for (int round = 1; round < 10; ++round) {
    first_ns = std::min(first_ns, NanosecondsOfRound(on_first));
    second_ns = std::min(second_ns, NanosecondsOfRound(on_second));
  }
  std::printf("%6zu live: %s %6.1f ns, %s %6.1f ns, ratio %.2f\n", live, first.name, first_ns,
              second.name, second_ns, second_ns / first_ns);
}

void CompareWithPool(std::size_t live) {
  PoolOnHost host({.initial_bytes = kDeviceBytes, .max_bytes = kDeviceBytes});
  PoolEngine pool(host.pool(), host.NewStream());
  CApiEngine engine("device=host,device_memory=4TiB,initial=4TiB");
  Compare<PoolEngine, CApiEngine>(live, {"pool", pool}, {"C interface", engine});
}

void CompareWithoutNvtx(std::size_t live) {
  CApiEngine off("device=cuda:0,budget=256GiB,initial=256GiB,nvtx=off");
  CApiEngine automatic("device=cuda:0,budget=256GiB,initial=256GiB,nvtx=auto");
  Compare<CApiEngine, CApiEngine>(live, {"nvtx=off", off}, {"nvtx=auto", automatic});
}

bool HasCudaDevice() {
  tidepool_pool* pool = nullptr;
  const bool has_device = tidepool_pool_create("device=cuda:0", &pool) == TIDEPOOL_OK;
  tidepool_pool_destroy(pool);
  return has_device;
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  constexpr std::size_t kLive[] = {1, 10, 1000, 10000};
  for (const std::size_t live : kLive) tidepool::bench::CompareWithPool(live);
  if (!tidepool::bench::HasCudaDevice()) return 0;
  for (const std::size_t live : kLive) tidepool::bench::CompareWithoutNvtx(live);
}

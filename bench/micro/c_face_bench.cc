// SPDX-License-Identifier: Apache-2.0
// Claim: a pair through the C face costs at most 1.2 times the pair through Pool. Both take turns
// in one run; each row is the fastest of ten rounds, in nanoseconds a pair, and their ratio.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

// One stream of a pool of the C face, with the requests of PoolEngine.
class CFaceEngine {
 public:
  CFaceEngine() {
    constexpr char kOptions[] = "device=host,device_memory=4TiB,initial=4TiB";
    if (tidepool_pool_create(kOptions, &pool_) != TIDEPOOL_OK ||
        tidepool_stream_create(pool_, &stream_) != TIDEPOOL_OK) {
      std::fprintf(stderr, "%s\n", tidepool_last_error());
      std::exit(1);
    }
  }
  ~CFaceEngine() { tidepool_pool_destroy(pool_); }
  CFaceEngine(const CFaceEngine&) = delete;
  CFaceEngine& operator=(const CFaceEngine&) = delete;

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

void Compare(std::size_t live) {
  PoolOnHost host({.initial_bytes = kDeviceBytes, .max_bytes = kDeviceBytes});
  PoolEngine pool(host.pool(), host.NewStream());
  CFaceEngine face;
  RandomReplacement<PoolEngine> on_pool(pool, live);
  RandomReplacement<CFaceEngine> on_face(face, live);
  double pool_ns = NanosecondsOfRound(on_pool);
  double face_ns = NanosecondsOfRound(on_face);
  for (int round = 1; round < 10; ++round) {
    pool_ns = std::min(pool_ns, NanosecondsOfRound(on_pool));
    face_ns = std::min(face_ns, NanosecondsOfRound(on_face));
  }
  std::printf("%6zu live: pool %6.1f ns, C face %6.1f ns, ratio %.2f\n", live, pool_ns, face_ns,
              face_ns / pool_ns);
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  for (const std::size_t live : {1, 10, 1000, 10000}) tidepool::bench::Compare(live);
}

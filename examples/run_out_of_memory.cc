// SPDX-License-Identifier: Apache-2.0
// A pool at its budget: an error that tells the cure, a cache that is given up, a request that
// waits for the free of another thread, a function that makes room.
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace {

constexpr std::size_t kBytes = std::size_t{24} << 20;

// Frees the buffers that a framework keeps for later.
void DropCache(tidepool::Pool& pool, void*& cached, tidepool::Stream stream) {
  Check(pool.Free(cached, stream));
  cached = nullptr;
}

}  // namespace

int main() {
  auto device = Check(tidepool::HostDevice::Create({}));
  auto pool = Check(tidepool::Pool::Create(device.get(), {.max_bytes = std::int64_t{32} << 20}));
  const tidepool::Stream stream = Check(device->CreateStream());
  void* cached = Check(pool->Allocate(kBytes, stream));

  // [retry]
  absl::StatusOr<void*> buffer = pool->Allocate(kBytes, stream);
  if (absl::IsResourceExhausted(buffer.status())) {
    std::printf("%s\n", buffer.status().ToString().c_str());
    DropCache(*pool, cached, stream);
    buffer = pool->Allocate(kBytes, stream);
  }
  // [/retry]
  Check(buffer.status());

  // [wait-for-memory]
  std::thread other_thread([&] { Check(pool->Free(*buffer, stream)); });
  void* next = Check(pool->AllocateBlocking(kBytes, stream, tidepool::Hint::kResident,
                                            absl::Now() + absl::Seconds(60)));
  other_thread.join();
  // [/wait-for-memory]

  // [trim]
  Check(pool->Free(next, stream));
  const std::int64_t released = Check(pool->Trim());  // waits for the work that used the memory
  // [/trim]
  std::printf("%.0f MiB given back to the device\n", MiB(released));

  // [callback]
  void* kept = nullptr;
  tidepool::PoolOptions options = {.max_bytes = std::int64_t{32} << 20};
  options.on_out_of_memory = [&](const tidepool::OutOfMemoryRequest&) {
    if (kept == nullptr) return false;  // refuse the request
    DropCache(*pool, kept, stream);
    return true;  // try again
  };
  pool = Check(tidepool::Pool::Create(device.get(), options));
  kept = Check(pool->Allocate(kBytes, stream));
  void* served = Check(pool->Allocate(kBytes, stream));  // calls the function
  // [/callback]

  // [statistics]
  std::printf("%s", tidepool::ToString(pool->Stats()).c_str());
  // [/statistics]
  Check(pool->Free(served, stream));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Records the requests of a pool, and of an allocator that is no pool, as native traces.
//   record_a_pool FOLDER
#include <cstdlib>
#include <string>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace_files.h"

namespace {

void RecordAPool(const std::string& path) {
  auto device = Check(tidepool::HostDevice::Create({}));
  const tidepool::Stream stream = Check(device->CreateStream());
  // [record-a-pool]
  auto recorder = Check(tidepool::Recorder::Create({.path = path}));
  tidepool::PoolOptions options;
  options.max_bytes = std::int64_t{64} << 20;
  options.recorder = recorder.get();  // outlives the pool
  auto pool = Check(tidepool::Pool::Create(device.get(), options));
  // [/record-a-pool]
  for (int step = 0; step < 3; ++step) {
    pool->MarkIteration();
    void* buffer = Check(pool->Allocate(100'000, stream));
    Check(pool->Free(buffer, stream));
  }
  pool.reset();
  Check(recorder->Close());
}

void RecordAnAllocator(const std::string& path) {
  const tidepool::Stream stream{1};
  constexpr std::size_t kBytes = 4096;
  // [record-an-allocator]
  auto recorder = Check(tidepool::Recorder::Create({.path = path}));
  void* address = std::malloc(kBytes);
  recorder->Allocate(address, kBytes, tidepool::Hint::kResident, stream);
  recorder->Free(address, stream);
  std::free(address);
  Check(recorder->Close());  // reports every error of writing
  // [/record-an-allocator]
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_a_pool FOLDER\n");
    return 1;
  }
  const std::string folder = argv[1];
  RecordAPool(folder + "/pool.tide");
  RecordAnAllocator(folder + "/allocator.tide");
  const tidepool::Trace trace = Check(tidepool::ReadTrace(folder + "/pool.tide"));
  std::printf("pool.tide: %zu events, %zu allocations\n", trace.events.size(),
              trace.allocations.size());
  return trace.allocations.size() == 3 ? 0 : 1;
}

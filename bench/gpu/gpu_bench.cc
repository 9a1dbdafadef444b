// SPDX-License-Identifier: Apache-2.0
// Claims about the pool on a GPU, measured. An allocation and a free cost as much as on the host,
// because the pool does not call CUDA for them. The costs of growth, remapping and copies. Copies
// in both directions at once reach the link's rate in each direction. An iteration with transfers
// that fit under its compute takes hardly longer than one without. The peers are CUDA's own
// allocators, under the same workloads in the same run. Each part prints a line of JSON when it
// ends, so that later parts cannot lose it; exits with 77 without a GPU.
//
// usage: gpu_bench [PART...]      pairs, growth, remap, copies, offload; all without a name
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_offload.h"
#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/cuda_device.h"

namespace tidepool::bench {
namespace {

using nlohmann::json;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

void Expect(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void Expect(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <typename T>
T At(std::vector<T> values, double part) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(part * double(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// CUDA's own allocators. ------------------------------------------------------------------------

class CudaMallocEngine {
 public:
  void* Allocate(std::int64_t bytes) {
    void* address = nullptr;
    Expect(cudaMalloc(&address, static_cast<std::size_t>(bytes)), "cudaMalloc");
    return address;
  }
  void Free(void* address) { Expect(cudaFree(address), "cudaFree"); }
};

// CUDA's pool keeps all its memory: its fastest setting.
class CudaMallocAsyncEngine {
 public:
  CudaMallocAsyncEngine() {
    cudaMemPool_t pool = nullptr;
    Expect(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
    std::uint64_t all = UINT64_MAX;
    Expect(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
           "cudaMemPoolSetAttribute");
    Expect(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~CudaMallocAsyncEngine() {
    Expect(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    Expect(cudaStreamDestroy(stream_), "cudaStreamDestroy");
    cudaMemPool_t pool = nullptr;
    Expect(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
    Expect(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  }

  void* Allocate(std::int64_t bytes) {
    void* address = nullptr;
    Expect(cudaMallocAsync(&address, static_cast<std::size_t>(bytes), stream_), "cudaMallocAsync");
    return address;
  }
  void Free(void* address) { Expect(cudaFreeAsync(address, stream_), "cudaFreeAsync"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Pairs. ----------------------------------------------------------------------------------------

struct Workloads {
  std::vector<int> live;  // of random replacement
  int steps;              // of a round
};

// Returns the nanoseconds per pair: the median of several rounds, and of single pairs including the
// clock's own time.
template <typename Workload>
json TimePairs(Workload& workload, int steps) {
  constexpr int kRounds = 7;
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    rounds.push_back(SecondsOf([&] {
                       for (int j = 0; j < steps; ++j) workload.Step();
                     }) *
                     1e9 / steps);
  }
  std::vector<double> singles;
  for (int i = 0; i < steps; ++i) singles.push_back(SecondsOf([&] { workload.Step(); }) * 1e9);
  return {{"ns", At(rounds, 0.5)},
          {"ns_fastest_round", At(rounds, 0)},
          {"single_median_ns", At(singles, 0.5)},
          {"single_p99_ns", At(singles, 0.99)}};
}

template <typename Engine>
void MeasurePairs(Engine& engine, const std::string& allocator, const Workloads& workloads,
                  json& rows) {
  const auto add = [&](const std::string& name, json row) {
    row["allocator"] = allocator;
    row["workload"] = name;
    rows.push_back(std::move(row));
  };
  for (const int live : workloads.live) {
    RandomReplacement<Engine> workload(engine, static_cast<std::size_t>(live));
    add(absl::StrCat("random/", live), TimePairs(workload, workloads.steps));
  }
  Checkpointing<Engine> workload(engine);
  for (int i = 0; i < 1000; ++i) workload.Step();
  add("checkpointing", TimePairs(workload, workloads.steps));
}

void MeasurePool(Device& device, const std::string& allocator, const PoolOptions& options,
                 const Workloads& workloads, json& rows) {
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(&device, options);
  Expect(pool.status(), allocator.c_str());
  const absl::StatusOr<Stream> stream = device.CreateStream();
  Expect(stream.status(), "CreateStream");
  PoolEngine engine(**pool, *stream);
  MeasurePairs(engine, allocator, workloads, rows);
}

json Pairs(CudaDevice& device) {
  json rows = json::array();
  const std::int64_t budget = *device.FreeBytes() - 2 * kGiB;
  // 10,000 random blocks have 57 GiB, and need a fifth more.
  Workloads fast = {{100, 1000}, 100'000};
  if (budget > 76 * kGiB) fast.live.push_back(10'000);
  MeasurePool(*HostDevice::Create({.memory_bytes = kDeviceBytes}).value(), "tidepool on the host",
              {.initial_bytes = kDeviceBytes, .max_bytes = kDeviceBytes}, fast, rows);
  for (const auto& [name, memory] : {std::pair("tidepool, virtual memory", PoolMemory::kVirtual),
                                     std::pair("tidepool, segments", PoolMemory::kSegments)}) {
    MeasurePool(device, name, {.initial_bytes = budget, .max_bytes = budget, .memory = memory},
                fast, rows);
  }
  {
    CudaMallocAsyncEngine engine;
    MeasurePairs(engine, "cudaMallocAsync", {{100, 1000}, 20'000}, rows);
  }
  CudaMallocEngine engine;
  MeasurePairs(engine, "cudaMalloc", {{100, 1000}, 500}, rows);
  return rows;
}

// Growth. ---------------------------------------------------------------------------------------

// Measures the microseconds of each growth step.
json Steps(const std::string& what, std::int64_t bytes, int count,
           const std::function<void()>& step) {
  std::vector<double> us;
  for (int i = 0; i < count; ++i) us.push_back(SecondsOf(step) * 1e6);
  return {{"what", what},
          {"bytes", bytes},
          {"steps", count},
          {"median_us", At(us, 0.5)},
          {"p99_us", At(us, 0.99)}};
}

json PoolGrowth(CudaDevice& device, const std::string& what, PoolMemory memory, std::int64_t bytes,
                int count) {
  const auto pool =
      Pool::Create(&device, {.max_bytes = bytes * count, .memory = memory, .growth = 0}).value();
  const Stream stream = device.CreateStream().value();
  std::vector<void*> blocks;
  json row = Steps(what, bytes, count, [&] {
    blocks.push_back(pool->Allocate(static_cast<std::size_t>(bytes), stream).value());
  });
  for (void* const block : blocks) pool->Free(block, stream).IgnoreError();
  Expect(device.DestroyStream(stream), "DestroyStream");
  return row;
}

json Growth(CudaDevice& device) {
  json rows = json::array();
  for (const auto& [bytes, count] : {std::pair(2 * kMiB, 512), std::pair(kGiB, 16)}) {
    rows.push_back(PoolGrowth(device, "pool, virtual memory", PoolMemory::kVirtual, bytes, count));
    rows.push_back(PoolGrowth(device, "pool, segments", PoolMemory::kSegments, bytes, count));
    CudaMallocEngine engine;
    std::vector<void*> blocks;
    rows.push_back(Steps("cudaMalloc", bytes, count,
                         [&, size = bytes] { blocks.push_back(engine.Allocate(size)); }));
    for (void* const block : blocks) engine.Free(block);
  }
  return rows;
}

// Remapping. ------------------------------------------------------------------------------------

// Every second granule is free, and one request takes all of them.
json Remap(CudaDevice& device, int granules) {
  const std::int64_t granule = device.granularity();
  const auto pool =
      Pool::Create(&device, {.max_bytes = 2 * granules * granule, .remap = true}).value();
  const Stream stream = device.CreateStream().value();
  std::vector<void*> blocks;
  for (int i = 0; i < 2 * granules; ++i) {
    blocks.push_back(pool->Allocate(static_cast<std::size_t>(granule), stream).value());
  }
  for (int i = 0; i < 2 * granules; i += 2) Expect(pool->Free(blocks[i], stream), "Free");
  void* joined = nullptr;
  const double seconds = SecondsOf([&] {
    joined = pool->Allocate(static_cast<std::size_t>(granules * granule), stream).value();
  });
  Expect(pool->Free(joined, stream), "Free");
  for (int i = 1; i < 2 * granules; i += 2) Expect(pool->Free(blocks[i], stream), "Free");
  Expect(device.DestroyStream(stream), "DestroyStream");
  return {{"granule_bytes", granule},
          {"granules", granules},
          {"remapped_bytes", pool->Stats().remapped_bytes},
          {"us_per_granule", seconds * 1e6 / granules}};
}

// Copies. ---------------------------------------------------------------------------------------

class Copies {
 public:
  Copies(CudaDevice& device, bool pinned) : device_(device), pinned_(pinned) {
    for (int i = 0; i < 2; ++i) {
      there_[i] = Take(device.AllocateMemory(kBytes));
      streams_[i] = *device.CreateStream();
      if (pinned) {
        here_[i] = Take(device.AllocatePinned(kBytes));
      } else {
        here_[i] = std::malloc(kBytes);
      }
      std::fill_n(static_cast<char*>(here_[i]), kBytes, 1);
    }
  }
  ~Copies() {
    for (int i = 0; i < 2; ++i) {
      Expect(device_.FreeMemory(there_[i]), "FreeMemory");
      Expect(device_.DestroyStream(streams_[i]), "DestroyStream");
      if (pinned_) {
        Expect(device_.FreePinned(here_[i]), "FreePinned");
      } else {
        std::free(here_[i]);
      }
    }
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  json Measure(bool to, bool from) {
    constexpr int kRounds = 7;
    std::vector<double> rates;
    for (int i = 0; i < kRounds; ++i) {
      rates.push_back((to + from) * double(kBytes) / SecondsOf([&] { Round(to, from); }));
    }
    return {{"memory", pinned_ ? "pinned" : "pageable"},
            {"direction", to && from ? "both at once"
                          : to       ? "to the device"
                                     : "from the device"},
            {"bytes", kBytes},
            {"gb_per_s", At(rates, 0.5) / 1e9}};
  }

 private:
  static constexpr std::int64_t kBytes = 512 * kMiB;

  static void* Take(absl::StatusOr<void*> memory) {
    Expect(memory.status(), "memory for copies");
    return *memory;
  }
  void Round(bool to, bool from) {
    if (to) {
      Expect(device_.Copy(there_[0], here_[0], kBytes, CopyDirection::kToDevice, streams_[0]),
             "Copy");
    }
    if (from) {
      Expect(device_.Copy(here_[1], there_[1], kBytes, CopyDirection::kFromDevice, streams_[1]),
             "Copy");
    }
    for (const Stream stream : streams_) Expect(device_.SynchronizeStream(stream), "Synchronize");
  }

  CudaDevice& device_;
  const bool pinned_;
  void* there_[2];
  void* here_[2];
  Stream streams_[2];
};

json CopyRates(CudaDevice& device) {
  json rows = json::array();
  for (const bool pinned : {true, false}) {
    Copies copies(device, pinned);
    rows.push_back(copies.Measure(true, false));
    rows.push_back(copies.Measure(false, true));
    rows.push_back(copies.Measure(true, true));
  }
  return rows;
}

json Machine(const CudaDevice& device) {
  int driver = 0;
  int runtime = 0;
  cudaDeviceProp properties;
  Expect(cudaGetDeviceProperties(&properties, device.ordinal()), "cudaGetDeviceProperties");
  Expect(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  Expect(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"gpu", properties.name},
          {"gpu_bytes", device.memory_bytes()},
          {"granularity", device.granularity()},
          {"cuda_driver", driver},
          {"cuda_runtime", runtime}};
}

struct Part {
  std::string name;
  std::function<json(CudaDevice&)> measure;
};

std::vector<Part> AllParts() {
  return {{"pairs", Pairs},
          {"growth", Growth},
          {"remap",
           [](CudaDevice& device) {
             return json{Remap(device, 128), Remap(device, 1024)};
           }},
          {"copies", CopyRates},
          {"offload", [](CudaDevice& device) { return GpuOffload(device).Measure(); }}};
}

// Returns the parts of these names, all without names. Ends the program for an unknown name.
std::vector<Part> PartsOf(const std::vector<std::string>& names) {
  std::vector<Part> all = AllParts();
  if (names.empty()) return all;
  std::vector<Part> parts;
  for (const std::string& name : names) {
    const auto part =
        std::find_if(all.begin(), all.end(), [&](const Part& p) { return p.name == name; });
    if (part == all.end()) {
      std::fprintf(
          stderr,
          "gpu_bench: no part '%s', expected one of pairs, growth, remap, copies, offload\n",
          name.c_str());
      std::exit(1);
    }
    parts.push_back(*part);
  }
  return parts;
}

void Print(const std::string& name, const json& result) {
  std::printf("%s\n", json{{name, result}}.dump().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  namespace bench = tidepool::bench;
  const std::vector<bench::Part> parts = bench::PartsOf({argv + 1, argv + argc});
  const auto device = tidepool::CudaDevice::Create({});
  if (!device.ok()) {
    std::printf("no GPU: %s\n", device.status().ToString().c_str());
    return absl::IsUnavailable(device.status()) ? 77 : 1;
  }
  bench::Print("machine", bench::Machine(**device));
  for (const bench::Part& part : parts) bench::Print(part.name, part.measure(**device));
}

// SPDX-License-Identifier: Apache-2.0
// libcnmem.so on the stand-in for the CUDA runtime. Threads use CNMeM's functions on streams that
// are created and destroyed, with random flags and environment variables, while calls of CUDA fail.
#include <cnmem.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "dryrun/runtime/cudart/control.h"
#include "tests/stress/live_map.h"
#include "tests/stress/pattern.h"
#include "tests/stress/scratch_file.h"
#include "tests/stress/stress.h"
#include "tests/stress/watch.h"
#include "tests/support/sizes.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;

constexpr std::int64_t kMemory = 16 * kMiB;  // of each device
constexpr std::int64_t kGranularity = 64 << 10;

// The functions of CUDA that the library calls; null stands for any function.
constexpr std::array<const char*, 21> kFunctions = {nullptr,
                                                    "cudaMalloc",
                                                    "cudaMallocManaged",
                                                    "cudaFree",
                                                    "cudaMemGetInfo",
                                                    "cudaGetDevice",
                                                    "cudaSetDevice",
                                                    "cudaEventCreateWithFlags",
                                                    "cudaEventRecord",
                                                    "cudaEventQuery",
                                                    "cudaEventSynchronize",
                                                    "cudaEventDestroy",
                                                    "cudaStreamWaitEvent",
                                                    "cudaStreamSynchronize",
                                                    "cuMemAddressReserve",
                                                    "cuMemCreate",
                                                    "cuMemMap",
                                                    "cuMemSetAccess",
                                                    "cuMemUnmap",
                                                    "cuMemRelease",
                                                    "cuMemAddressFree"};

// Orders calls of CUDA to fail. Thread-safe.
class CudaFaults {
 public:
  explicit CudaFaults(Round& round) : counts_(round.counts()) {
    if (round.dice().Chance(0.4)) return;
    chance_ = round.dice().Chance(0.5) ? 0.3 : 0.03;
    error_ = round.dice().Chance(0.7) ? cudaErrorDevicesUnavailable : cudaErrorMemoryAllocation;
  }

  bool are_wanted() const { return chance_ > 0; }
  void MaybeOrder(Dice& dice) {
    if (!dice.Chance(chance_)) return;
    const std::size_t function = dice.Below(kFunctions.size());
    const std::int64_t n = dice.Between(1, dice.Chance(0.5) ? 4 : 40);
    const std::lock_guard lock(mutex_);
    CountIfMet(function);
    ordered_[function] = cudartHostCountCalls(kFunctions[function]) + n;
    cudartHostFailCall(kFunctions[function], n, error_);
  }
  // Cancels orders that were not met.
  void End() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kFunctions.size(); ++i) {
      CountIfMet(i);
      ordered_[i] = 0;
      cudartHostFailCall(kFunctions[i], 0, 0);
    }
    cudaGetLastError();
  }

 private:
  void CountIfMet(std::size_t function) {
    if (ordered_[function] > 0 &&
        cudartHostCountCalls(kFunctions[function]) >= ordered_[function]) {
      ++counts_.faults;
    }
  }

  Counts& counts_;
  double chance_ = 0;
  cudaError_t error_ = cudaSuccess;
  std::mutex mutex_;
  std::array<std::int64_t, kFunctions.size()> ordered_ = {};
};

// Repeats a call until CUDA does not fail. The round's own calls are not under test.
template <typename Function>
void CudaAgain(const char* what, Function function) {
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < 1000; ++i) {
    error = function();
    if (error == cudaSuccess) return;
    cudaGetLastError();
  }
  Fail(absl::StrCat(what, ": ", cudaGetErrorName(error)));
}

absl::Status StatusOf(cnmemStatus_t status) {
  switch (status) {
    case CNMEM_STATUS_SUCCESS:
      return absl::OkStatus();
    case CNMEM_STATUS_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(cnmemGetErrorString(status));
    case CNMEM_STATUS_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(cnmemGetErrorString(status));
    case CNMEM_STATUS_CUDA_ERROR:
      return absl::UnavailableError(cnmemGetErrorString(status));
    default:
      return absl::UnknownError(cnmemGetErrorString(status));
  }
}

// The streams of one device. A thread that replaces a stream locks all of them: CUDA reuses
// handles.
class CudaStreams {
 public:
  struct Name {
    std::size_t place = 0;
    int generation = 0;
  };

  CudaStreams(int device, std::size_t count) {
    CudaAgain("cudaSetDevice", [&] { return cudaSetDevice(device); });
    for (std::size_t i = 0; i < count; ++i) places_.push_back({New(), 0});
  }
  ~CudaStreams() {
    for (const Place& place : places_) cudaStreamDestroy(place.stream);
  }
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  // A shared lock: streams are not replaced while a thread holds it.
  std::shared_lock<std::shared_mutex> Keep() { return std::shared_lock(mutex_); }
  // Returns a stream under the lock of Keep, or the default stream for an unknown index.
  Name Any(Dice& dice) const {
    const std::size_t place = dice.Below(places_.size() + 1);
    return {place, place < places_.size() ? places_[place].generation : 0};
  }
  // Returns the default stream for a replaced stream.
  cudaStream_t Get(Name name) const {
    if (name.place >= places_.size()) return nullptr;
    const Place& place = places_[name.place];
    return place.generation == name.generation ? place.stream : nullptr;
  }
  std::vector<cudaStream_t> All() const {
    std::vector<cudaStream_t> all;
    for (const Place& place : places_) all.push_back(place.stream);
    return all;
  }
  // Returns the new stream, which has to be registered before other threads see it.
  template <typename Register>
  void ReplaceOne(Dice& dice, Register register_stream) {
    const std::unique_lock lock(mutex_);
    Place& place = places_[dice.Below(places_.size())];
    CudaAgain("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(place.stream); });
    CudaAgain("cudaStreamDestroy", [&] { return cudaStreamDestroy(place.stream); });
    place = {New(), place.generation + 1};
    register_stream(place.stream);
  }

 private:
  struct Place {
    cudaStream_t stream = nullptr;
    int generation = 0;
  };

  static cudaStream_t New() {
    cudaStream_t stream = nullptr;
    CudaAgain("cudaStreamCreateWithFlags",
              [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    return stream;
  }

  std::shared_mutex mutex_;
  std::vector<Place> places_;
};

// The state that the threads of a device share.
struct DeviceShare {
  DeviceShare(int device, std::size_t stream_count, std::int64_t most)
      : ordinal(device), streams(device, stream_count), budget(most), live(most) {}

  const int ordinal;
  CudaStreams streams;
  const std::int64_t budget;
  LiveMap live;
};

class CnmemUser {
 public:
  CnmemUser(Worker& worker, DeviceShare& device, CudaFaults& faults)
      : worker_(worker), device_(device), faults_(faults) {
    CudaAgain("cudaSetDevice", [&] { return cudaSetDevice(device.ordinal); });
  }

  void Step() {
    faults_.MaybeOrder(dice());
    const std::size_t choice = dice().Below(100);
    if (choice < 45 && buffers_.size() < 40) return Take();
    if (choice < 85 && !buffers_.empty()) return Free(dice().Below(buffers_.size()));
    if (choice < 95 && !buffers_.empty()) return CheckContents();
    Inspect();
  }
  void FreeAll() {
    while (!buffers_.empty()) Free(dice().Below(buffers_.size()));
  }

 private:
  struct Buffer {
    std::uint8_t* address = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;
    CudaStreams::Name stream;
  };

  Dice& dice() { return worker_.dice(); }
  bool Ended(cnmemStatus_t status) {
    cudaGetLastError();
    return worker_.Ended(StatusOf(status),
                         {StatusCode::kResourceExhausted,
                          faults_.are_wanted() ? StatusCode::kUnavailable : StatusCode::kOk});
  }

  void Take() {
    const auto kept = device_.streams.Keep();
    Buffer buffer;
    buffer.bytes = dice().Bytes(device_.budget / 3);
    buffer.stream = device_.streams.Any(dice());
    void* address = nullptr;
    worker_.Begins("cnmemMalloc");
    const cnmemStatus_t status = cnmemMalloc(&address, static_cast<std::size_t>(buffer.bytes),
                                             device_.streams.Get(buffer.stream));
    if (!Ended(status)) return;
    buffer.address = static_cast<std::uint8_t*>(address);
    buffer.seed = dice().Seed();
    device_.live.Add(buffer.address, buffer.bytes);
    Queue(buffer.stream, [buffer] { FillPattern(buffer.address, buffer.bytes, buffer.seed); });
    buffers_.push_back(buffer);
  }
  void Free(std::size_t at) {
    const auto kept = device_.streams.Keep();
    const Buffer buffer = std::exchange(buffers_[at], buffers_.back());
    buffers_.pop_back();
    QueueCheck(buffer);
    device_.live.Remove(buffer.address);
    const cudaStream_t stream = dice().Chance(0.3) ? nullptr : device_.streams.Get(buffer.stream);
    do {
      worker_.Begins("cnmemFree");
    } while (!Ended(cnmemFree(buffer.address, stream)));
  }
  void CheckContents() {
    const auto kept = device_.streams.Keep();
    worker_.Begins("check contents");
    QueueCheck(dice().Pick(buffers_));
  }
  void QueueCheck(const Buffer& buffer) {
    ++worker_.counts().checks;
    Queue(buffer.stream, [buffer] {
      Check(HoldsPattern(buffer.address, buffer.bytes, buffer.seed), "memory of ", buffer.bytes,
            " bytes was changed while it was live, or before its stream was done with it");
    });
  }
  template <typename Work>
  void Queue(CudaStreams::Name stream, Work work) {
    auto held = std::make_unique<Work>(std::move(work));
    CudaAgain("cudaLaunchHostFunc", [&] {
      return cudaLaunchHostFunc(
          device_.streams.Get(stream),
          [](void* data) { (*std::unique_ptr<Work>(static_cast<Work*>(data)))(); }, held.get());
    });
    static_cast<void>(held.release());
  }

  void Inspect() {
    switch (dice().Below(6)) {
      case 0:
      case 1:
        return GetInfo();
      case 2:
        return Print();
      case 3:
        worker_.Begins("replace a stream");
        return device_.streams.ReplaceOne(dice(), [&](cudaStream_t stream) {
          while (!Ended(cnmemRegisterStream(stream))) {
          }
        });
      case 4:
        worker_.Begins("cnmemRetain");
        Check(cnmemRetain() == CNMEM_STATUS_SUCCESS, "cnmemRetain failed");
        Check(cnmemRelease() == CNMEM_STATUS_SUCCESS, "cnmemRelease failed");
        return;
      default:
        return Misuse();
    }
  }
  void GetInfo() {
    const auto kept = device_.streams.Keep();
    worker_.Begins("cnmemMemGetInfo");
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (Ended(cnmemMemGetInfo(&free_bytes, &total_bytes,
                              device_.streams.Get(device_.streams.Any(dice()))))) {
      Check(free_bytes <= total_bytes && total_bytes <= static_cast<std::size_t>(device_.budget),
            "cnmemMemGetInfo says ", free_bytes, " of ", total_bytes, " bytes free, the budget is ",
            device_.budget);
    }
    CudaAgain("cudaMemGetInfo", [&] { return cudaMemGetInfo(&free_bytes, &total_bytes); });
    Check(total_bytes - free_bytes <= static_cast<std::size_t>(device_.budget), "of the device ",
          total_bytes - free_bytes, " bytes are in use, the budget is ", device_.budget);
  }
  void Print() {
    const auto kept = device_.streams.Keep();
    worker_.Begins("cnmemPrintMemoryState");
    const std::unique_ptr<FILE, int (*)(FILE*)> nowhere(std::fopen("/dev/null", "w"), std::fclose);
    Ended(cnmemPrintMemoryState(nowhere.get(), nullptr));
  }
  // INVALID_ARGUMENT; or CUDA's error, if the library calls CUDA first.
  void Misuse() {
    worker_.Begins("misuse");
    const auto is_refused = [&](cnmemStatus_t status) {
      cudaGetLastError();
      return status == CNMEM_STATUS_INVALID_ARGUMENT ||
             (faults_.are_wanted() &&
              (status == CNMEM_STATUS_CUDA_ERROR || status == CNMEM_STATUS_OUT_OF_MEMORY));
    };
    int elsewhere = 0;
    Check(is_refused(cnmemFree(&elsewhere, nullptr)), "what is no allocation was freed");
    Check(is_refused(cnmemMalloc(nullptr, 1, nullptr)), "memory was taken and given to nobody");
    Check(is_refused(cnmemRegisterStream(nullptr)), "the default stream was registered");
  }

  Worker& worker_;
  DeviceShare& device_;
  CudaFaults& faults_;
  std::vector<Buffer> buffers_;
};

// Sets the environment variables of a round for the life of the object.
class Variables {
 public:
  ~Variables() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  void Set(const char* name, const std::string& value) {
    names_.push_back(absl::StrCat("TIDEPOOL_CNMEM_", name));
    setenv(names_.back().c_str(), value.c_str(), 1);
    AddDescription(absl::StrCat(name, "=", value, " "));
  }

 private:
  std::vector<std::string> names_;
};

void SetVariables(Dice& dice, Variables& variables, std::int64_t budget) {
  if (budget < kMemory) variables.Set("BUDGET", std::to_string(budget));
  if (dice.Chance(0.5)) variables.Set("MEMORY", dice.Chance(0.5) ? "virtual" : "segments");
  if (dice.Chance(0.3)) variables.Set("REMAP", "1");
  if (dice.Chance(0.5)) variables.Set("GROWTH", dice.Chance(0.5) ? "0" : "0.5");
  if (dice.Chance(0.3)) variables.Set("WAIT", "1ms");
  if (dice.Chance(0.5)) {
    variables.Set("PLACEMENT",
                  dice.Pick(std::array<const char*, 4>{"best-fit", "exact-fit-first",
                                                       "high-end-offload", "first-fit"}));
  }
}

void ConfigureStandIn(int devices) {
  CudartHostConfig config;
  cudartHostDefaultConfig(&config);
  config.devices = devices;
  config.memory_bytes = kMemory;
  config.granularity = kGranularity;
  Check(cudartHostConfigure(&config) == 1, "the stand-in takes no configuration");
}

void Init(Round& round, std::vector<std::unique_ptr<DeviceShare>>& devices, CudaFaults& faults,
          std::int64_t initial) {
  Dice& dice = round.dice();
  unsigned flags = CNMEM_FLAGS_DEFAULT;
  if (dice.Chance(0.2)) flags |= CNMEM_FLAGS_CANNOT_GROW;
  if (dice.Chance(0.2)) flags |= CNMEM_FLAGS_CANNOT_STEAL;
  if (dice.Chance(0.2)) flags |= CNMEM_FLAGS_MANAGED;
  AddDescription(absl::StrCat(devices.size(), " devices, initial ", initial, ", flags ", flags,
                              faults.are_wanted() ? ", faults" : ""));
  std::vector<cnmemDevice_t> given;
  std::vector<std::vector<cudaStream_t>> streams;
  std::vector<std::vector<std::size_t>> sizes;
  for (const auto& device : devices) {
    streams.push_back(device->streams.All());
    sizes.emplace_back(streams.back().size(), 0);
    if (dice.Chance(0.5)) sizes.back()[0] = static_cast<std::size_t>(initial / 4);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    given.push_back({devices[i]->ordinal, static_cast<std::size_t>(initial),
                     static_cast<int>(streams[i].size()), streams[i].data(), sizes[i].data()});
  }
  const auto init = [&] { return cnmemInit(static_cast<int>(given.size()), given.data(), flags); };
  faults.MaybeOrder(dice);
  cnmemStatus_t status = init();
  faults.End();
  if (status != CNMEM_STATUS_SUCCESS && faults.are_wanted()) status = init();
  CheckOk(StatusOf(status), "cnmemInit");
}

void CheckAllIsBack() {
  CudartHostLive live;
  cudartHostCountLive(&live);
  Check(live.allocations + live.reservations + live.physical_handles + live.mappings == 0,
        "after cnmemFinalize there are ", live.allocations, " allocations, ", live.reservations,
        " reservations, ", live.physical_handles, " physical handles, ", live.mappings,
        " mappings");
  Check(live.events == 0, "after cnmemFinalize there are ", live.events, " events");
}

}  // namespace

void RunCnmemRound(Round& round) {
  Dice& dice = round.dice();
  const int device_count = static_cast<int>(dice.Between(1, 2));
  ConfigureStandIn(device_count);
  const std::int64_t budget = dice.Chance(0.5) ? kMemory : dice.Between(3 * kMiB, 8 * kMiB);
  Variables variables;
  SetVariables(dice, variables, budget);
  std::optional<ScratchFile> trace;
  if (device_count == 1 && dice.Chance(0.2)) {
    trace.emplace(".0.tide");
    variables.Set("TRACE", trace->path().substr(0, trace->path().size() - 7));
  }
  std::vector<std::unique_ptr<DeviceShare>> devices;
  for (int i = 0; i < device_count; ++i) {
    devices.push_back(std::make_unique<DeviceShare>(i, dice.Below(5) + 1, budget));
  }
  CudaFaults faults(round);
  Init(round, devices, faults, dice.Between(64 << 10, 2 * kMiB));
  const int threads = static_cast<int>(dice.Between(1, 6));
  std::atomic<std::size_t> next = 0;
  RunWorkers(round, threads, [&](Worker& worker) {
    CnmemUser user(worker, *devices[next++ % devices.size()], faults);
    for (int i = Steps(2000) / threads; i > 0; --i) user.Step();
    user.FreeAll();
  });
  faults.End();
  CheckOk(StatusOf(cnmemFinalize()), "cnmemFinalize");
  CheckAllIsBack();
  if (trace.has_value()) CheckOk(ReadTrace(trace->path()).status(), "ReadTrace");
}

}  // namespace tidepool::stress

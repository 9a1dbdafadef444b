// SPDX-License-Identifier: Apache-2.0
// Virtual memory: sizes, times, aliases, handles, and addresses without memory.
#include <algorithm>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

void AskAddresses() {
  for (const std::size_t gib : {80, 1360, 2560, 16384, 65536}) {
    const std::string name = std::to_string(gib);
    CUdeviceptr address = 0;
    const auto begin = Clock::now();
    const CUresult error = TheDriver().reserve(&address, gib * kGiB, Granule(), 0, 0);
    Code(name + "_gib", error);
    Say(name + "_us", MicrosecondsSince(begin));
    if (error == CUDA_SUCCESS) TheDriver().free_addresses(address, gib * kGiB);
  }
}

std::size_t FreeBytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return free;
}

// Times each step of a life of virtual memory: the mean of several pieces.
class Times {
 public:
  Times(std::size_t bytes, std::size_t count)
      : bytes_(bytes), handles_(count), address_(Reserve(count * bytes)) {}

  void Say() {
    const CUmemAllocationProp properties = PropertiesOfMemory();
    const CUmemAccessDesc access = AccessOfMemory();
    const std::size_t before = FreeBytes();
    Step("create_us",
         [&](auto i) { return TheDriver().create(&handles_[i], bytes_, &properties, 0); });
    const std::size_t held = FreeBytes();
    Step("map_us", [&](auto i) { return TheDriver().map(At(i), bytes_, 0, handles_[i], 0); });
    Step("access_us", [&](auto i) { return TheDriver().set_access(At(i), bytes_, &access, 1); });
    Step("unmap_us", [&](auto i) { return TheDriver().unmap(At(i), bytes_); });
    Step("release_us", [&](auto i) { return TheDriver().release(handles_[i]); });
    const std::size_t after = FreeBytes();
    const double all = static_cast<double>(handles_.size() * bytes_);
    probe::Say("taken_over_asked", static_cast<double>(before - held) / all);
    probe::Say("given_back_at_once", static_cast<double>(after - held) / all);
    Code("result", result_);
  }

 private:
  CUdeviceptr At(std::size_t piece) const { return address_ + piece * bytes_; }
  void Step(const char* key, const std::function<CUresult(std::size_t)>& step) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (const CUresult error = step(i); error != CUDA_SUCCESS) result_ = error;
    }
    probe::Say(key, MicrosecondsSince(begin) / static_cast<double>(handles_.size()));
  }

  std::size_t bytes_;
  std::vector<CUmemGenericAllocationHandle> handles_;
  CUdeviceptr address_;
  CUresult result_ = CUDA_SUCCESS;
};

void AskTimes(std::size_t mib) {
  Times(mib * kMiB, mib > 256 ? 4 : 16).Say();
  void* memory = nullptr;
  const auto begin = Clock::now();
  cudaMalloc(&memory, mib * kMiB);
  Say("cuda_malloc_us", MicrosecondsSince(begin));
  const auto made = Clock::now();
  cudaFree(memory);
  Say("cuda_free_us", MicrosecondsSince(made));
}

void AskAliasAndBorders() {
  const std::size_t granule = Granule();
  const Driver& driver = TheDriver();
  const Pieces pieces(3, granule);
  const CUmemAccessDesc access = AccessOfMemory();
  const CUdeviceptr twin = Reserve(granule);
  Code("map_again", driver.map(twin, granule, 0, pieces.handles[1], 0));
  Code("access_again", driver.set_access(twin, granule, &access, 1));
  Code("memset_over_borders", cudaMemset(pieces.start(), 7, 3 * granule));
  std::vector<unsigned char> host(3 * granule);
  Code("read_twin", cudaMemcpy(host.data(), ToPointer(twin), granule, cudaMemcpyDeviceToHost));
  Say("twin_sees_it", host[5] == 7 && host[granule - 1] == 7);
  Code("copy_over_borders",
       cudaMemcpy(host.data(), pieces.start(), 3 * granule, cudaMemcpyDeviceToHost));
  void* plain = nullptr;
  cudaMalloc(&plain, 3 * granule);
  Code("copy_on_device", cudaMemcpy(plain, pieces.start(), 3 * granule, cudaMemcpyDeviceToDevice));
  Code("copy_2d", cudaMemcpy2D(plain, granule, pieces.start(), granule, granule / 2, 3,
                               cudaMemcpyDeviceToDevice));
  Code("release_mapped", driver.release(pieces.handles[1]));
  Code("unmap_two_at_once", driver.unmap(pieces.address, 2 * granule));
  Code("twin_lives_on", cudaMemset(ToPointer(twin), 1, granule));
  Code("free_addresses_while_mapped", driver.free_addresses(pieces.address, 3 * granule));
  Code("map_released", driver.map(pieces.address, granule, 0, pieces.handles[1], 0));
}

void AskAddressRange(const Pieces& pieces) {
  using GetRange = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  const auto get_range = reinterpret_cast<GetRange>(DriverFunction("cuMemGetAddressRange"));
  if (get_range == nullptr) return;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Code("address_range", get_range(&base, &bytes, pieces.address + Granule() + 5));
  Say("base_is_piece", base == pieces.address + Granule());
  Say("range_over_piece", static_cast<double>(bytes) / static_cast<double>(Granule()));
}

void AskPointers() {
  const Pieces pieces(2, Granule());
  cudaPointerAttributes attributes = {};
  Code("attributes", cudaPointerGetAttributes(&attributes, pieces.start()));
  Say("type", attributes.type);
  Say("device", attributes.device);
  cudaIpcMemHandle_t handle;
  Code("ipc_handle", cudaIpcGetMemHandle(&handle, pieces.start()));
  void* plain = nullptr;
  cudaMalloc(&plain, Granule());
  Code("ipc_handle_of_malloc", cudaIpcGetMemHandle(&handle, plain));
  int descriptor = -1;
  if (TheDriver().export_handle != nullptr) {
    Code("export_without_type",
         TheDriver().export_handle(&descriptor, pieces.handles[0],
                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  }
  AskAddressRange(pieces);
}

void AskRdma() {
  const std::size_t granule = Granule();
  CUmemAllocationProp properties = PropertiesOfMemory();
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle;
  const CUdeviceptr address = Reserve(granule);
  Code("create", TheDriver().create(&handle, granule, &properties, 0));
  Code("map", TheDriver().map(address, granule, 0, handle, 0));
  const CUmemAccessDesc access = AccessOfMemory();
  Code("access", TheDriver().set_access(address, granule, &access, 1));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  Code("create_with_fd", TheDriver().create(&handle, granule, &properties, 0));
}

void AskUnmapped() {
  void* const nothing = ToPointer(Reserve(Granule()));
  Code("memset", cudaMemsetAsync(nothing, 0, 4096, NewStream()));
  Code("synchronize", cudaDeviceSynchronize());
  void* memory = nullptr;
  Code("malloc_after", cudaMalloc(&memory, 4096));
  Code("last", cudaGetLastError());
  Code("last_again", cudaPeekAtLastError());
}

}  // namespace

void AskAboutVirtualMemory() {
  // lib/memory/pool reserves addresses of 17 times the device.
  Ask("reserve_addresses", AskAddresses);
  for (const std::size_t mib : {2, 20, 64, 256, 1024}) {
    Ask("vmm_times_" + std::to_string(mib) + "_mib", [mib] { AskTimes(mib); });
  }
  Ask("vmm_alias_and_borders", AskAliasAndBorders);
  Ask("vmm_pointers", AskPointers);
  Ask("vmm_rdma_flag", AskRdma);
  Ask("unmapped_addresses", AskUnmapped);
}

}  // namespace tidepool::probe

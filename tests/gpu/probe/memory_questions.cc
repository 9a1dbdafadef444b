// SPDX-License-Identifier: Apache-2.0
// Memory of the host and the ends of the device's memory.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

// Says an error that must not stay the last one.
void PassingCode(const std::string& key, cudaError_t error) {
  Code(key, error);
  cudaGetLastError();
}

void AskRegistration() {
  const unsigned flags = cudaHostRegisterPortable;
  char* const memory = static_cast<char*>(std::aligned_alloc(4096, 64 << 10));
  std::memset(memory, 1, 64 << 10);
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 8192, cudaHostAllocPortable);
  PassingCode("of_host_alloc", cudaHostRegister(pinned, 4096, flags));
  PassingCode("nowhere", cudaHostRegister(reinterpret_cast<void*>(4096), 4096, flags));
  Code("unaligned", cudaHostRegister(memory + 100, 5000, flags));
  PassingCode("same", cudaHostRegister(memory + 100, 5000, flags));
  PassingCode("overlapping", cudaHostRegister(memory + 4096, 8192, flags));
  PassingCode("shares_a_page", cudaHostRegister(memory + 5104, 2000, flags));
  PassingCode("unregister_inside", cudaHostUnregister(memory + 4096));
  Code("unregister", cudaHostUnregister(memory + 100));
  PassingCode("unregister_again", cudaHostUnregister(memory + 100));
  void* const read_only = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PassingCode("read_only", cudaHostRegister(read_only, 8192, flags));
  Code("unregister_host_alloc", cudaHostUnregister(pinned));
}

void AskOutOfMemory() {
  std::size_t free = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free, &total);
  void* memory = nullptr;
  Code("malloc", cudaMalloc(&memory, total * 2));
  Code("last", cudaGetLastError());
  CUmemGenericAllocationHandle handle;
  const CUmemAllocationProp properties = PropertiesOfMemory();
  const std::size_t granule = Granule();
  Code("create", TheDriver().create(&handle, (total / granule + 1) * granule, &properties, 0));
  Code("last_after_driver", cudaGetLastError());
  Code("create_0", TheDriver().create(&handle, 0, &properties, 0));
  Code("create_odd", TheDriver().create(&handle, granule + 4096, &properties, 0));
  Code("host_alloc_1_pib", cudaHostAlloc(&memory, std::size_t{1} << 50, cudaHostAllocPortable));
  Code("malloc_0", cudaMalloc(&memory, 0));
  Say("address_of_0", memory != nullptr);
}

void SayCopy(const std::string& name, void* to, const void* from, std::size_t bytes,
             cudaMemcpyKind kind, cudaStream_t stream) {
  cudaMemcpyAsync(to, from, bytes, kind, stream);
  cudaStreamSynchronize(stream);
  const auto begin = Clock::now();
  cudaMemcpyAsync(to, from, bytes, kind, stream);
  const double call = MicrosecondsSince(begin);
  cudaStreamSynchronize(stream);
  const double all = MicrosecondsSince(begin);
  Say(name + "_gb_per_s", static_cast<double>(bytes) / all / 1e3);
  Say(name + "_call_share", call / all);
}

// The share of a copy's time that its call takes: all of it for pageable memory.
void AskCopies() {
  const std::size_t bytes = std::size_t{256} << 20;
  void* device = nullptr;
  void* pinned = nullptr;
  cudaMalloc(&device, bytes);
  cudaHostAlloc(&pinned, bytes, 0);
  void* const pageable = std::malloc(bytes);
  cudaStream_t stream = NewStream();
  for (const auto& [name, host] : {std::pair("pinned", pinned), std::pair("pageable", pageable)}) {
    std::memset(host, 1, bytes);
    const std::string start = name;
    SayCopy(start + "_out", host, device, bytes, cudaMemcpyDeviceToHost, stream);
    SayCopy(start + "_in", device, host, bytes, cudaMemcpyHostToDevice, stream);
  }
}

}  // namespace

void AskAboutMemory() {
  Ask("host_register", AskRegistration);
  Ask("out_of_memory", AskOutOfMemory);
  Ask("pageable_copy", AskCopies);
}

}  // namespace tidepool::probe

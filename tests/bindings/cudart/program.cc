// SPDX-License-Identifier: Apache-2.0
// Uses CUDA's runtime as libraries of a wheel do, and prints its answers.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <iostream>

namespace {

bool Check(const char* call, cudaError_t error) {
  if (error != cudaSuccess) {
    std::cout << call << ": " << cudaGetErrorName(error) << ": " << cudaGetErrorString(error)
              << '\n';
  }
  return error == cudaSuccess;
}

bool Work() {
  cudaStream_t stream = nullptr;
  void* address = nullptr;
  unsigned long long number = 0;
  int device = -1;
  const bool works = Check("create", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) &&
                     Check("allocate", cudaMalloc(&address, 1 << 20)) &&
                     Check("fill", cudaMemsetAsync(address, 7, 1 << 20, stream)) &&
                     Check("device", cudaStreamGetDevice(stream, &device)) &&
                     Check("id", cudaStreamGetId(stream, &number)) &&
                     Check("wait", cudaDeviceSynchronize()) && Check("free", cudaFree(address)) &&
                     Check("destroy", cudaStreamDestroy(stream));
  if (works)
    std::cout << "stream " << (number != 0 ? "with" : "without") << " id of device " << device
              << '\n';
  return works;
}

}  // namespace

int main() {
  int count = 0;
  if (!Check("count", cudaGetDeviceCount(&count))) return 1;
  cudaDeviceProp properties = {};
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (!Check("properties", cudaGetDeviceProperties(&properties, 0)) ||
      !Check("entry", cudaGetDriverEntryPointByVersion("cuMemCreate", &entry, 12000,
                                                       cudaEnableDefault, &result))) {
    return 1;
  }
  std::cout << count << " devices, " << properties.name << ", " << properties.major << ", "
            << (entry != nullptr ? "with" : "without") << " cuMemCreate\n";
  return Work() ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/* A CUDA program without kernels, written for the toolkit's libcudart.so. It is linked with that
   library, and loads the stand-in through the library path. Prints the devices that it finds. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                       \
  do {                                                                                    \
    const cudaError_t error = call;                                                       \
    if (error != cudaSuccess) {                                                           \
      printf("%s: %s (%s)\n", #call, cudaGetErrorName(error), cudaGetErrorString(error)); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

static void CUDART_CB AddOne(void* count) { ++*(int*)count; }

static int UseDevice(int device) {
  static unsigned char registered[4096];
  const size_t bytes = 1 << 20;
  struct cudaDeviceProp properties;
  cudaStream_t stream;
  cudaEvent_t start, end;
  unsigned char *memory, *pinned;
  float milliseconds = 0;
  int count = 0;
  CHECK(cudaSetDevice(device));
  CHECK(cudaGetDeviceProperties(&properties, device));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaMalloc((void**)&memory, bytes));
  CHECK(cudaMallocHost((void**)&pinned, bytes));
  CHECK(cudaHostRegister(registered, sizeof(registered), cudaHostRegisterDefault));
  CHECK(cudaEventRecord(start, stream));
  CHECK(cudaMemsetAsync(memory, 42, bytes, stream));
  CHECK(cudaMemcpyAsync(pinned, memory, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(stream, AddOne, &count));
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(cudaFreeHost(pinned) == cudaSuccess && pinned != NULL ? cudaSuccess : cudaErrorUnknown);
  CHECK(cudaHostUnregister(registered));
  CHECK(cudaFree(memory));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaDeviceReset());
  printf("%s: %zu bytes, %d\n", properties.name, properties.totalGlobalMem, count);
  return milliseconds < 0;
}

int main(void) {
  int count = 0;
  int device;
  CHECK(cudaGetDeviceCount(&count));
  for (device = 0; device < count; ++device) {
    if (UseDevice(device) != 0) return 1;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* A C99 program for CNMeM: cnmem.h declares all that it uses. */
#include <cnmem.h>
#include <stdlib.h>

#define CHECK(call)                                                  \
  do {                                                               \
    const cnmemStatus_t status = (call);                             \
    if (status != CNMEM_STATUS_SUCCESS) {                            \
      fprintf(stderr, "%s: %s\n", #call, cnmemGetErrorString(status)); \
      return 1;                                                      \
    }                                                                \
  } while (0)

#if CNMEM_VERSION != 100
#error "not the interface of CNMeM 1.0.0"
#endif

int main(void) {
  cudaStream_t streams[2];
  size_t sizes[2] = {1024, 0};
  cnmemDevice_t device = {0};
  void* address = NULL;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (cudaStreamCreate(&streams[0]) != cudaSuccess || cudaStreamCreate(&streams[1]) != cudaSuccess) {
    fprintf(stderr, "no device\n");
    return 1;
  }
  device.device = 0;
  device.size = 4096;
  device.numStreams = 1;
  device.streams = streams;
  device.streamSizes = sizes;
  CHECK(cnmemInit(1, &device, CNMEM_FLAGS_CANNOT_GROW | CNMEM_FLAGS_CANNOT_STEAL));
  CHECK(cnmemRetain());
  CHECK(cnmemRegisterStream(streams[1]));
  CHECK(cnmemMalloc(&address, 1000, streams[1]));
  CHECK(cnmemMemGetInfo(&free_bytes, &total_bytes, NULL));
  printf("%lu of %lu\n", (unsigned long)free_bytes, (unsigned long)total_bytes);
  CHECK(cnmemPrintMemoryState(stdout, streams[1]));
  CHECK(cnmemFree(address, streams[1]));
  CHECK(cnmemRelease());
  if (getenv("WITHOUT_END") != NULL) return 0;
  CHECK(cnmemFinalize());
  return cnmemFinalize() == CNMEM_STATUS_NOT_INITIALIZED ? 0 : 1;
}

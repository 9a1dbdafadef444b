// SPDX-License-Identifier: Apache-2.0
/* A program that calls cnmemFinalize after CUDA has shut down, as static objects do. Exits with an error if that fails. */
#define _POSIX_C_SOURCE 200809L
#include <cnmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void finalize(void) {
  int device = 0;
  const int has_ended = cudaGetDevice(&device) == cudaErrorCudartUnloading;
  if (cnmemFinalize() != CNMEM_STATUS_SUCCESS || cnmemRelease() != CNMEM_STATUS_NOT_INITIALIZED) _exit(1);
  puts(has_ended ? "ended after CUDA" : "ended before CUDA");
}

int main(void) {
  cnmemDevice_t device = {0};
  void* address = NULL;
  if (atexit(finalize) != 0) return 2; /* runs after the handlers that CUDA registers later */
  device.size = 4096;
  if (cnmemInit(1, &device, CNMEM_FLAGS_DEFAULT) != CNMEM_STATUS_SUCCESS) return 3;
  return cnmemMalloc(&address, 1000, NULL) == CNMEM_STATUS_SUCCESS ? 0 : 4;
}

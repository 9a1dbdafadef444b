// SPDX-License-Identifier: Apache-2.0
/* A process that forks after cnmemInit. The child has neither CUDA nor the threads of its parent. */
#define _POSIX_C_SOURCE 200809L
#include <cnmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the exit status of a forked process, which calls cnmemFinalize or not. */
static int end_of_forked(int with_finalize) {
  int status = 0;
  const pid_t forked = fork();
  if (forked == 0) {
    alarm(30); /* ends a child that waits for threads which it does not have */
    if (with_finalize && cnmemFinalize() != CNMEM_STATUS_SUCCESS) exit(1);
    exit(0);
  }
  if (forked < 0 || waitpid(forked, &status, 0) != forked) return -1;
  return status;
}

int main(void) {
  cnmemDevice_t device = {0};
  void* address = NULL;
  device.size = 4096;
  if (cnmemInit(1, &device, CNMEM_FLAGS_DEFAULT) != CNMEM_STATUS_SUCCESS) return 1;
  if (cnmemMalloc(&address, 1000, NULL) != CNMEM_STATUS_SUCCESS) return 1;
  if (end_of_forked(0) != 0) return 2;
  if (end_of_forked(1) != 0) return 3;
  if (cnmemFree(address, NULL) != CNMEM_STATUS_SUCCESS) return 4;
  return cnmemFinalize() == CNMEM_STATUS_SUCCESS ? 0 : 5;
}

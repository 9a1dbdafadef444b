/* SPDX-License-Identifier: Apache-2.0 */
/* A process that ends with live memory, while a thread still allocates and frees. One pool is never destroyed, and the
   other after CUDA has shut down, as static objects do.
   usage: ending DEVICE PATH_OF_TRACE */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidepool/c_api.h>
#include <unistd.h>

static tidepool_pool* destroyed_late = NULL;
static tidepool_pool* busy = NULL;

static void destroy(void) {
  if (tidepool_pool_destroy(destroyed_late) != TIDEPOOL_OK) _exit(1);
  if (tidepool_pool_destroy(destroyed_late) != TIDEPOOL_FAILED_PRECONDITION) _exit(2);
}

static void* allocate_for_ever(void* unused) {
  for (;;) {
    void* address = NULL;
    if (tidepool_allocate(busy, 1000, NULL, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) break;
    if (tidepool_free(busy, address, NULL) != TIDEPOOL_OK) break;
  }
  return unused; /* CUDA has shut down */
}

int main(int count, char** arguments) {
  char options[600];
  void* address = NULL;
  pthread_t thread;
  if (count != 3 || atexit(destroy) != 0) return 3; /* runs after the handlers that CUDA registers later */
  snprintf(options, sizeof options, "device=%s,statistics=1,trace=%s", arguments[1], arguments[2]);
  if (tidepool_pool_create(options, &destroyed_late) != TIDEPOOL_OK) return 4;
  if (tidepool_allocate(destroyed_late, 1000, NULL, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) return 5;
  if (tidepool_free(destroyed_late, address, NULL) != TIDEPOOL_OK) return 6;
  if (tidepool_allocate(destroyed_late, 1000, NULL, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) return 7;
  snprintf(options, sizeof options, "device=%s", arguments[1]);
  if (tidepool_pool_create(options, &busy) != TIDEPOOL_OK) return 8;
  return pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0 ? 0 : 9;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A pool in a C program. */
#include <stdio.h>
#include <tidepool/c_api.h>

/* Prints the error of a call. Returns whether it failed. */
static int has_failed(tidepool_status status) {
  if (status != TIDEPOOL_OK) fprintf(stderr, "%s\n", tidepool_last_error());
  return status != TIDEPOOL_OK;
}

int main(void) {
  // [c]
  tidepool_pool* pool = NULL;
  void* buffer = NULL;
  tidepool_statistics statistics = {sizeof statistics};
  if (has_failed(tidepool_pool_create("device=host, budget=64MiB, statistics=0", &pool))) return 1;
  if (has_failed(tidepool_allocate(pool, 1000, NULL, TIDEPOOL_RESIDENT, &buffer))) return 1;
  tidepool_get_statistics(pool, &statistics);
  printf("%lu bytes live\n", (unsigned long)statistics.live_bytes);
  tidepool_free(pool, buffer, NULL);
  tidepool_pool_destroy(pool);
  // [/c]
  return statistics.live_bytes == 1024 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that uses every function of c_api.h, compiled as C89 and as C17. Prints "done".
   usage: program DEVICE FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool/c_api.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    const tidepool_status status = (call);                                                         \
    if (status != TIDEPOOL_OK) {                                                                   \
      fprintf(stderr, "%s: %s: %s\n", #call, tidepool_status_name(status), tidepool_last_error()); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static tidepool_statistics statistics_of(tidepool_pool* pool) {
  tidepool_statistics statistics;
  statistics.struct_size = sizeof statistics;
  CHECK(tidepool_get_statistics(pool, &statistics));
  return statistics;
}

static void use_blocks(tidepool_pool* pool, void* live, tidepool_stream stream) {
  tidepool_block* blocks;
  size_t count = 0;
  size_t found = 0;
  size_t i;
  CHECK(tidepool_get_blocks(pool, NULL, 0, &count));
  blocks = malloc(count * sizeof *blocks);
  EXPECT(blocks != NULL);
  CHECK(tidepool_get_blocks(pool, blocks, count, &count));
  for (i = 0; i < count; ++i) {
    if (blocks[i].address == live && blocks[i].is_live && blocks[i].stream == stream) ++found;
  }
  EXPECT(found == 1);
  free(blocks);
}

static void use_streams(tidepool_pool* pool) {
  tidepool_stream stream = NULL;
  tidepool_stream other = NULL;
  void* address = NULL;
  int owns = 0;
  CHECK(tidepool_stream_create(pool, &stream));
  CHECK(tidepool_stream_create(pool, &other));
  CHECK(tidepool_allocate(pool, 1000, stream, TIDEPOOL_RESIDENT, &address));
  CHECK(tidepool_record_use(pool, address, other));
  CHECK(tidepool_owns(pool, address, &owns));
  EXPECT(owns == 1);
  CHECK(tidepool_owns(pool, &owns, &owns));
  EXPECT(owns == 0);
  use_blocks(pool, address, stream);
  CHECK(tidepool_free(pool, address, stream));
  CHECK(tidepool_stream_synchronize(pool, stream));
  CHECK(tidepool_stream_destroy(pool, stream));
  CHECK(tidepool_stream_forget(pool, other));
}

static void use_iterations(tidepool_pool* pool) {
  int i;
  for (i = 0; i < 3; ++i) {
    void* address = NULL;
    CHECK(tidepool_mark_iteration(pool));
    CHECK(tidepool_mark(pool, "forward"));
    CHECK(tidepool_allocate(pool, 4096, NULL, TIDEPOOL_OFFLOADABLE, &address));
    CHECK(tidepool_free(pool, address, NULL));
    CHECK(tidepool_await_plans(pool));
  }
}

static void use_pinned(tidepool_pool* pool) {
  void* address = NULL;
  size_t given_back = 0;
  CHECK(tidepool_pinned_allocate(pool, 1000, &address));
  EXPECT(address != NULL);
  memset(address, 1, 1000);
  CHECK(tidepool_pinned_free(pool, address));
  CHECK(tidepool_pinned_trim(pool, &given_back));
  EXPECT(given_back > 0);
}

int main(int count, char** arguments) {
  char options[600];
  char path[600];
  char version[40];
  tidepool_pool* pool = NULL;
  tidepool_statistics statistics;
  void* address = NULL;
  size_t given_back = 0;
  int ordinal = -2;
  if (count != 3 || strlen(arguments[1]) > 100 || strlen(arguments[2]) > 400) return 2;
  EXPECT(strcmp(tidepool_last_error(), "") == 0);
  sprintf(version, "%d.%d.%d", TIDEPOOL_VERSION_MAJOR, TIDEPOOL_VERSION_MINOR, TIDEPOOL_VERSION_PATCH);
  EXPECT(strcmp(tidepool_version(), version) == 0);
  sprintf(options, "device=%s; budget=32MiB, memory=segments\nrecording=1,pinned=1MiB,placement=\"planned\"", arguments[1]);
  CHECK(tidepool_pool_create(options, &pool));
  CHECK(tidepool_get_device(pool, &ordinal));
  EXPECT(ordinal == (strcmp(arguments[1], "host") == 0 ? -1 : 0));
  sprintf(path, "%s/program.tide", arguments[2]);
  CHECK(tidepool_start_trace(pool, path));
  use_streams(pool);
  use_iterations(pool);
  use_pinned(pool);
  CHECK(tidepool_stop_trace(pool));
  CHECK(tidepool_allocate(pool, 20 << 20, NULL, TIDEPOOL_RESIDENT, &address));
  EXPECT(tidepool_allocate(pool, 20 << 20, NULL, TIDEPOOL_RESIDENT, &address) == TIDEPOOL_OUT_OF_MEMORY);
  EXPECT(address == NULL);
  EXPECT(strstr(tidepool_last_error(), "raise option 'budget'") != NULL);
  sprintf(path, "%s/program.json", arguments[2]);
  CHECK(tidepool_write_snapshot(pool, path));
  statistics = statistics_of(pool);
  EXPECT(statistics.live_bytes == 20 << 20 && statistics.live_count == 1);
  EXPECT(statistics.max_bytes == 32 << 20 && statistics.failures == 1);
  EXPECT(statistics.allocations == 5 && statistics.frees == 4);
  EXPECT(tidepool_pool_destroy(pool) == TIDEPOOL_OK); /* reports the live allocation */
  EXPECT(tidepool_pool_destroy(pool) == TIDEPOOL_FAILED_PRECONDITION);
  CHECK(tidepool_pool_create(NULL, &pool));
  CHECK(tidepool_allocate(pool, 4096, NULL, TIDEPOOL_RESIDENT, &address));
  CHECK(tidepool_free(pool, address, NULL));
  CHECK(tidepool_trim(pool, 0, &given_back));
  EXPECT(given_back > 0);
  EXPECT(statistics_of(pool).peak_live_bytes == 4096);
  CHECK(tidepool_reset_peaks(pool));
  EXPECT(statistics_of(pool).peak_live_bytes == 0 && statistics_of(pool).peak_reserved_bytes == 0);
  CHECK(tidepool_pool_destroy(pool));
  puts("done");
  return 0;
}

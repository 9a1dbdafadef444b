/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the structures and values of c_api.h: the size of each structure, the offset and size of
   each field, and the number of each value. layout.txt has them as programs were compiled. */
#include <stdio.h>

#include "tidepool/c_api.h"

#define STRUCTURE(type) printf("%s %lu\n", #type, (unsigned long)sizeof(type))
#define FIELD(type, name)                                                      \
  printf("%s.%s %lu %lu\n", #type, #name, (unsigned long)offsetof(type, name), \
         (unsigned long)sizeof(((type*)0)->name))
#define VALUE(name) printf("%s %d\n", #name, (int)(name))

static void print_statistics(void) {
  STRUCTURE(tidepool_statistics);
  FIELD(tidepool_statistics, struct_size);
  FIELD(tidepool_statistics, live_bytes);
  FIELD(tidepool_statistics, live_count);
  FIELD(tidepool_statistics, peak_live_bytes);
  FIELD(tidepool_statistics, reserved_bytes);
  FIELD(tidepool_statistics, peak_reserved_bytes);
  FIELD(tidepool_statistics, max_bytes);
  FIELD(tidepool_statistics, high_water_bytes);
  FIELD(tidepool_statistics, free_bytes);
  FIELD(tidepool_statistics, largest_hole_bytes);
  FIELD(tidepool_statistics, allocations);
  FIELD(tidepool_statistics, frees);
  FIELD(tidepool_statistics, failures);
  FIELD(tidepool_statistics, blocked);
  FIELD(tidepool_statistics, stream_waits);
  FIELD(tidepool_statistics, event_records);
  FIELD(tidepool_statistics, growths);
  FIELD(tidepool_statistics, remaps);
  FIELD(tidepool_statistics, remapped_bytes);
  FIELD(tidepool_statistics, planned);
  FIELD(tidepool_statistics, deviations);
  FIELD(tidepool_statistics, plans);
  FIELD(tidepool_statistics, iterations);
  FIELD(tidepool_statistics, peak_budget_bytes);
}

static void print_owner_statistics(void) {
  STRUCTURE(tidepool_owner_statistics);
  FIELD(tidepool_owner_statistics, struct_size);
  FIELD(tidepool_owner_statistics, name);
  FIELD(tidepool_owner_statistics, live_bytes);
  FIELD(tidepool_owner_statistics, live_count);
  FIELD(tidepool_owner_statistics, peak_live_bytes);
  FIELD(tidepool_owner_statistics, allocations);
  FIELD(tidepool_owner_statistics, frees);
}

static void print_region_statistics(void) {
  STRUCTURE(tidepool_region_statistics);
  FIELD(tidepool_region_statistics, struct_size);
  FIELD(tidepool_region_statistics, tag);
  FIELD(tidepool_region_statistics, is_asleep);
  FIELD(tidepool_region_statistics, live_bytes);
  FIELD(tidepool_region_statistics, live_count);
  FIELD(tidepool_region_statistics, reserved_bytes);
  FIELD(tidepool_region_statistics, host_bytes);
  FIELD(tidepool_region_statistics, pauses);
  FIELD(tidepool_region_statistics, resumes);
  FIELD(tidepool_region_statistics, copied_out_bytes);
  FIELD(tidepool_region_statistics, copied_in_bytes);
  FIELD(tidepool_region_statistics, stored_bytes);
  FIELD(tidepool_region_statistics, least_bytes);
  FIELD(tidepool_region_statistics, most_bytes);
  FIELD(tidepool_region_statistics, blocked);
  FIELD(tidepool_region_statistics, kept_bytes);
}

static void print_block(void) {
  STRUCTURE(tidepool_block);
  FIELD(tidepool_block, address);
  FIELD(tidepool_block, offset);
  FIELD(tidepool_block, bytes);
  FIELD(tidepool_block, stream);
  FIELD(tidepool_block, is_live);
}

static void print_values(void) {
  STRUCTURE(tidepool_status);
  VALUE(TIDEPOOL_OK);
  VALUE(TIDEPOOL_INVALID_ARGUMENT);
  VALUE(TIDEPOOL_NOT_FOUND);
  VALUE(TIDEPOOL_OUT_OF_MEMORY);
  VALUE(TIDEPOOL_FAILED_PRECONDITION);
  VALUE(TIDEPOOL_DEADLINE_EXCEEDED);
  VALUE(TIDEPOOL_INTERNAL);
  VALUE(TIDEPOOL_UNAVAILABLE);
  VALUE(TIDEPOOL_UNIMPLEMENTED);
  STRUCTURE(tidepool_pause_mode);
  VALUE(TIDEPOOL_PAUSE_HOST);
  VALUE(TIDEPOOL_PAUSE_DISCARD);
  VALUE(TIDEPOOL_PAUSE_COMPRESSED);
  VALUE(TIDEPOOL_PAUSE_DISK);
  STRUCTURE(tidepool_log_level);
  VALUE(TIDEPOOL_LOG_ERROR);
  VALUE(TIDEPOOL_LOG_WARNING);
  VALUE(TIDEPOOL_LOG_INFO);
  STRUCTURE(tidepool_hint);
  VALUE(TIDEPOOL_RESIDENT);
  VALUE(TIDEPOOL_OFFLOADABLE);
}

int main(void) {
  print_statistics();
  print_owner_statistics();
  print_region_statistics();
  print_block();
  print_values();
  return 0;
}

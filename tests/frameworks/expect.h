// SPDX-License-Identifier: Apache-2.0
// Expectations of programs that frameworks compile without a test library.
#ifndef TIDEPOOL_TESTS_FRAMEWORKS_EXPECT_H_
#define TIDEPOOL_TESTS_FRAMEWORKS_EXPECT_H_

#include <cstdio>
#include <cstdlib>

#include "tidepool/c_api.h"

#define EXPECT(condition)                                                           \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

inline tidepool_statistics StatisticsOf(tidepool_pool* pool) {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  EXPECT(tidepool_get_statistics(pool, &statistics) == TIDEPOOL_OK);
  return statistics;
}

#endif  // TIDEPOOL_TESTS_FRAMEWORKS_EXPECT_H_

// SPDX-License-Identifier: Apache-2.0
// Check: ends an example with the error's text when a call has failed.
//
// A library would return the error to its caller instead.
#ifndef TIDEPOOL_EXAMPLES_CHECK_H_
#define TIDEPOOL_EXAMPLES_CHECK_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Returns the value of a call that has succeeded.
template <typename T>
T Check(absl::StatusOr<T> result) {
  Check(result.status());
  return *std::move(result);
}

// Converts bytes for printing.
inline double MiB(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

#endif  // TIDEPOOL_EXAMPLES_CHECK_H_

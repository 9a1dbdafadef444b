// SPDX-License-Identifier: Apache-2.0
// The settings of a pool of the C interface as options of Pool.
#ifndef TIDEPOOL_BINDINGS_C_POOL_OPTIONS_H_
#define TIDEPOOL_BINDINGS_C_POOL_OPTIONS_H_

#include "absl/status/statusor.h"
#include "bindings/support/settings.h"
#include "tidepool/device.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

// Returns the options of a pool on `device`, without a recorder, and reads the plan. A budget above
// the device's memory means all of it. InvalidArgument for sizes that contradict each other and for
// a plan in which buffers overlap with that alignment; errors of the file are ReadPlan's.
absl::StatusOr<PoolOptions> PoolOptionsOf(const bindings::Settings& settings, const Device& device);

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_POOL_OPTIONS_H_

// SPDX-License-Identifier: Apache-2.0
// Checks of single rows, which the reader makes while it knows their lines.
#ifndef TIDEPOOL_LIB_TRAINING_KERNELS_CHECK_CASE_H_
#define TIDEPOOL_LIB_TRAINING_KERNELS_CHECK_CASE_H_

#include "absl/status/status.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool::kernels {

// Return OK for numbers in their ranges, and otherwise InvalidArgument.
absl::Status CheckRow(const KernelRow& row);
absl::Status CheckRow(const DeviceRow& row);

}  // namespace tidepool::kernels

#endif  // TIDEPOOL_LIB_TRAINING_KERNELS_CHECK_CASE_H_

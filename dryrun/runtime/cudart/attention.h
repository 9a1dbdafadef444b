// SPDX-License-Identifier: Apache-2.0
// The operations of PyTorch's kernels for attention: products of matrices that stay on the chip.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_ATTENTION_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_ATTENTION_H_

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {

// Returns the floating point operations of a launch, or 0 for other kernels.
double OperationsOfAttention(const NameParts& kernel, const KernelLaunch& launch);

// Returns the share of the peak of tensor cores that they reach: 35 % of an H100's (Shah et al.,
// FlashAttention-3, 2024), and 50 to 73 % of an A100's (Dao, FlashAttention-2, 2023).
double EfficiencyOfAttention(int capability);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_ATTENTION_H_

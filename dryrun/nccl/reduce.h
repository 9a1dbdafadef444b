// SPDX-License-Identifier: Apache-2.0
// Reductions of NCCL's types on the host.
#ifndef TIDEPOOL_DRYRUN_NCCL_REDUCE_H_
#define TIDEPOOL_DRYRUN_NCCL_REDUCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dryrun/nccl/nccl.h"

namespace tidepool::cudart_host {

// Returns the bytes of an element, 0 for an unknown type.
std::size_t BytesOf(ncclDataType_t type);

// Reduces equally long arrays element by element. An empty array counts as zeros; not all may be
// empty. Larger operations than ncclAvg are sums. Types of 8-bit floats give an empty result.
std::string Reduce(const std::vector<std::string_view>& arrays, ncclDataType_t type,
                   ncclRedOp_t op);

// Returns the number that `bytes` of the type hold, and the array times a number.
double NumberOf(std::string_view bytes, ncclDataType_t type);
std::string Times(std::string_view array, ncclDataType_t type, double factor);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_REDUCE_H_

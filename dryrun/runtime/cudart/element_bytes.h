// SPDX-License-Identifier: Apache-2.0
// The bytes of PyTorch's kernels for elements: by their number, and by the types in their names.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_ELEMENT_BYTES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_ELEMENT_BYTES_H_

#include <cstdint>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {

// Each returns -1 where the bytes are not known. The comments have <templates>(arguments) of the
// kernels.

// <vector or outputs, function, array, ...>(elements, function, array, ...)
std::int64_t OfVectors(const NameParts& kernel, const KernelLaunch& launch);
// <function, array, ...>(elements, function, array, calculator, calculator, load, store)
std::int64_t OfUnrolled(const NameParts& kernel, const KernelLaunch& launch);
// <threads, elements, lambda>(elements, lambda), and the lambda begins with its OffsetCalculator.
std::int64_t OfPlaces(const NameParts& kernel, const KernelLaunch& launch);
// <threads, elements, lambda>(elements, lambda) of a copy by indices.
std::int64_t OfIndices(const NameParts& kernel, const KernelLaunch& launch);
// <threads, elements, ..._internal_kernel<is_scatter, T, index>...>(elements, lambda): the
// elements, and an index for each.
std::int64_t OfScatter(const NameParts& kernel, const KernelLaunch& launch);
// (elements, state, ...) of random numbers: the result has the first type of the function that
// launches it.
std::int64_t OfRandom(const NameParts& kernel, const KernelLaunch& launch);
// (elements, function, result) of a function of the index
std::int64_t OfNumbered(const NameParts& kernel, const KernelLaunch& launch);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_ELEMENT_BYTES_H_

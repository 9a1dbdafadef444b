// SPDX-License-Identifier: Apache-2.0
// Registers the memory of pools with NVTX, so that compute-sanitizer checks each allocation. Part
// of tidepool::cuda.
#ifndef TIDEPOOL_NVTX_OBSERVER_H_
#define TIDEPOOL_NVTX_OBSERVER_H_

#include <memory>

#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/pool_observer.h"

namespace tidepool {

// Makes an observer for one pool (PoolOptions::recorder) on `device`, which exists already because
// compute-sanitizer expects that the CUDA runtime is initialized before NVTX. Each range of
// addresses of the pool is a heap of NVTX's memory extension, and each allocation is a region with
// the bytes that the caller asked for. The region's name has the number of the allocation, from 0,
// and the last mark. All calls go on to `next`, if it is not null; it outlives the observer.
//
// Returns null when no tool took the functions of the extension. The pool then needs no observer
// but `next`, and NVTX costs nothing. The first call in a process loads the tool that
// NVTX_INJECTION64_PATH names, as any use of NVTX does; a later change of the variable has no
// effect. Also null where the CUDA Toolkit of the build had no memory extension.
//
// NVTX has no order of streams: a region ends when the host frees the allocation. Thread-safe. Each
// call of the observer takes O(log ranges), and the time of the tool.
TIDEPOOL_EXPORT std::unique_ptr<PoolObserver> MakeNvtxObserver(const Device& device,
                                                               PoolObserver* next = nullptr);

}  // namespace tidepool

#endif  // TIDEPOOL_NVTX_OBSERVER_H_

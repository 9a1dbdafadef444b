// SPDX-License-Identifier: Apache-2.0
// The functions that take the place of cuDNN's graph interface. A plan of one convolution, perhaps
// with pointwise operations after it, that needs more workspace than the limit is taken over: it
// runs in micro-batches, with the engines that the planner chooses. All other plans are cuDNN's.
#ifndef TIDEPOOL_BINDINGS_CUDNN_GRAPHS_H_
#define TIDEPOOL_BINDINGS_CUDNN_GRAPHS_H_

#include <cudnn.h>

#include <cstdint>

#include "bindings/cudnn/functions.h"

namespace tidepool::cudnn {

cudnnStatus_t CreateBackend(cudnnBackendDescriptorType_t type,
                            cudnnBackendDescriptor_t* descriptor);
cudnnStatus_t DestroyBackend(cudnnBackendDescriptor_t descriptor);
// Takes over a plan that exceeds the limit. Measures its convolution, unless it is known.
cudnnStatus_t FinalizeBackend(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t SetBackend(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* elements);
// The workspace size of a plan that was taken over is that of its micro-batches.
cudnnStatus_t GetBackend(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                         void* elements);
cudnnStatus_t Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack);
// Write a plan into a graph of CUDA by a function of cuDNN. NOT_SUPPORTED where cuDNN lacks it, and
// for a plan that was taken over.
cudnnStatus_t PlanIntoGraph(PlanToGraph Functions::*function, cudnnHandle_t handle,
                            cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                            cudaGraph_t graph);

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_GRAPHS_H_

// SPDX-License-Identifier: Apache-2.0
// The two modes of this cuDNN, and all that tells them apart. Both have the descriptors
// (descriptors.h) and the graph interface (backend.h). Each library has one mode, which defines the
// functions below.
// - computes/: libcudnn.so.9 for tests and emitted programs. It computes layers in their streams,
// refuses the arguments that cuDNN refuses, and counts calls and objects (computes/control.h).
// - answers/: a part of libcuda_libraries.so, for dry runs. It has the workspaces and the times of
// layers, and computes nothing. Graphs that it does not know succeed. The dry run writes a
// libcudnn.so.9 with the versions of symbols that its PyTorch asks for, which needs this library;
// functions that this library lacks return success there (program/tidepool_dryrun/libraries.py).
#ifndef TIDEPOOL_DRYRUN_CUDNN_LIBRARY_H_
#define TIDEPOOL_DRYRUN_CUDNN_LIBRARY_H_

#include <cudnn.h>

#include <cstdint>
#include <optional>

namespace tidepool::cudart_host {

struct BackendAttribute;
struct BackendObject;

// Begins a function. Returns the status that it has to fail with, or success.
cudnnStatus_t EnterCudnn(const char* function);

// Counts handles and descriptors that were made, or destroyed (a negative change).
void CountLive(long long change);

// Returns whether a descriptor can become final as it is.
cudnnStatus_t CheckFinal(const BackendObject& object);

// Returns an attribute of a final descriptor that follows from others, such as the workspace of a
// plan; nothing for those that are as they were set.
std::optional<BackendAttribute> DerivedAttribute(const BackendObject& object,
                                                 cudnnBackendAttributeName_t name);

// Ends a question for an attribute that neither was set nor follows from others.
cudnnStatus_t GiveUnknown(cudnnBackendAttributeType_t type, std::int64_t wanted,
                          std::int64_t* count, void* elements);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_LIBRARY_H_

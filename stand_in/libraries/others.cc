// SPDX-License-Identifier: Apache-2.0
// Libraries of which only handles, versions and words are needed: cuSOLVER, cuSPARSE, NCCL, NVRTC.
#include "stand_in/libraries/answers.h"

using tidepool::cudart_host::DeleteObject;
using tidepool::cudart_host::kNoWords;
using tidepool::cudart_host::MakeObject;

TIDEPOOL_ANSWER int cusolverDnCreate(void** handle) { return MakeObject(handle); }
TIDEPOOL_ANSWER int cusolverDnDestroy(void* handle) { return DeleteObject(handle); }

TIDEPOOL_ANSWER int cusparseCreate(void** handle) { return MakeObject(handle); }
TIDEPOOL_ANSWER int cusparseDestroy(void* handle) { return DeleteObject(handle); }
TIDEPOOL_ANSWER const char* cusparseGetErrorString(int /*status*/) { return kNoWords; }
TIDEPOOL_ANSWER const char* cusparseGetErrorName(int /*status*/) { return kNoWords; }

TIDEPOOL_ANSWER int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
TIDEPOOL_ANSWER const char* ncclGetErrorString(int /*status*/) { return kNoWords; }
TIDEPOOL_ANSWER const char* ncclGetLastError(void* /*communicator*/) { return kNoWords; }

TIDEPOOL_ANSWER const char* nvrtcGetErrorString(int /*status*/) { return kNoWords; }

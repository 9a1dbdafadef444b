// SPDX-License-Identifier: Apache-2.0
// cuSPARSE. NVIDIA does not publish the sizes of its workspaces; here each is a small constant.
#include <cstddef>
#include <cstdint>

#include "dryrun/libraries/answers.h"

namespace {

constexpr std::size_t kWorkspace = 1 << 16;  // bytes

int Store(std::size_t* place) {
  *place = kWorkspace;
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER int cusparseCreate(void** handle) {
  return tidepool::cudart_host::MakeObject(handle);
}
TIDEPOOL_ANSWER int cusparseDestroy(void* handle) {
  return tidepool::cudart_host::DeleteObject(handle);
}
TIDEPOOL_ANSWER const char* cusparseGetErrorString(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}
TIDEPOOL_ANSWER const char* cusparseGetErrorName(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}

TIDEPOOL_ANSWER int cusparseSpMM_bufferSize(void* /*handle*/, int /*op_a*/, int /*op_b*/,
                                            void* /*alpha*/, void* /*a*/, void* /*b*/,
                                            void* /*beta*/, void* /*c*/, int /*type*/,
                                            int /*algorithm*/, std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseSDDMM_bufferSize(void* /*handle*/, int /*op_a*/, int /*op_b*/,
                                             void* /*alpha*/, void* /*a*/, void* /*b*/,
                                             void* /*beta*/, void* /*c*/, int /*type*/,
                                             int /*algorithm*/, std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseSpMV_bufferSize(void* /*handle*/, int /*operation*/, void* /*alpha*/,
                                            void* /*a*/, void* /*x*/, void* /*beta*/, void* /*y*/,
                                            int /*type*/, int /*algorithm*/, std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseSpSV_bufferSize(void* /*handle*/, int /*operation*/, void* /*alpha*/,
                                            void* /*a*/, void* /*x*/, void* /*y*/, int /*type*/,
                                            int /*algorithm*/, void* /*solve*/,
                                            std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseSpSM_bufferSize(void* /*handle*/, int /*op_a*/, int /*op_b*/,
                                            void* /*alpha*/, void* /*a*/, void* /*b*/, void* /*c*/,
                                            int /*type*/, int /*algorithm*/, void* /*solve*/,
                                            std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseXcoosort_bufferSizeExt(void* /*handle*/, int /*m*/, int /*n*/,
                                                   int /*count*/, void* /*rows*/, void* /*columns*/,
                                                   std::size_t* bytes) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseXcsrsort_bufferSizeExt(void* /*handle*/, int /*m*/, int /*n*/,
                                                   int /*count*/, void* /*rows*/, void* /*columns*/,
                                                   std::size_t* bytes) {
  return Store(bytes);
}

// The two calls that first ask for a size, without a workspace.
TIDEPOOL_ANSWER int cusparseSpGEMM_workEstimation(void* /*handle*/, int /*op_a*/, int /*op_b*/,
                                                  void* /*alpha*/, void* /*a*/, void* /*b*/,
                                                  void* /*beta*/, void* /*c*/, int /*type*/,
                                                  int /*algorithm*/, void* /*product*/,
                                                  std::size_t* bytes, void* /*workspace*/) {
  return Store(bytes);
}
TIDEPOOL_ANSWER int cusparseSpGEMM_compute(void* /*handle*/, int /*op_a*/, int /*op_b*/,
                                           void* /*alpha*/, void* /*a*/, void* /*b*/,
                                           void* /*beta*/, void* /*c*/, int /*type*/,
                                           int /*algorithm*/, void* /*product*/, std::size_t* bytes,
                                           void* /*workspace*/) {
  return Store(bytes);
}

// A product of two sparse matrices has elements only where they meet; a dry run sees none.
TIDEPOOL_ANSWER int cusparseSpMatGetSize(void* /*matrix*/, std::int64_t* rows,
                                         std::int64_t* columns, std::int64_t* count) {
  *rows = 0;
  *columns = 0;
  *count = 0;
  return 0;
}

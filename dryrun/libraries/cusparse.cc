// SPDX-License-Identifier: Apache-2.0
// cuSPARSE. NVIDIA does not publish the sizes of its workspaces; here each is a small constant.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dryrun/libraries/answers.h"

namespace {

constexpr std::size_t kWorkspace = 1 << 16;  // bytes

struct Handle {
  int pointers = 0;  // 0: results of functions lie on the host
};

template <typename Size>
int Store(Size* place) {
  *place = kWorkspace;
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER int cusparseCreate(void** handle) {
  return tidepool::cudart_host::MakeObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cusparseDestroy(void* handle) {
  return tidepool::cudart_host::DeleteObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cusparseSetPointerMode(void* handle, int pointers) {
  static_cast<Handle*>(handle)->pointers = pointers;
  return 0;
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

// Sums, and triangular solves with blocks
// ------------------------------------------------------------------------------------------

// The sum of two sparse matrices has at most the elements of both.
TIDEPOOL_ANSWER int cusparseXcsrgeam2Nnz(void* handle, int rows, int columns, void* /*a*/,
                                         int a_count, void* /*a_rows*/, void* /*a_columns*/,
                                         void* /*b*/, int b_count, void* /*b_rows*/,
                                         void* /*b_columns*/, void* /*c*/, void* /*c_rows*/,
                                         int* count, void* /*workspace*/) {
  const std::int64_t most = std::min(std::int64_t{a_count} + b_count, std::int64_t{rows} * columns);
  if (static_cast<Handle*>(handle)->pointers == 0) {
    *count = static_cast<int>(std::min<std::int64_t>(most, INT32_MAX));
  }
  return 0;
}

// NOLINTBEGIN(bugprone-macro-parentheses): the macro makes functions for each type of elements.
#define TIDEPOOL_SPARSE_OF_TYPE(T)                                                               \
  TIDEPOOL_ANSWER int cusparse##T##csrgeam2_bufferSizeExt(                                       \
      void*, int, int, void*, void*, int, void*, void*, void*, void*, void*, int, void*, void*,  \
      void*, void*, void*, void*, void*, std::size_t* bytes) {                                   \
    return Store(bytes);                                                                         \
  }                                                                                              \
  TIDEPOOL_ANSWER int cusparse##T##bsrsv2_bufferSize(void*, int, int, int, int, void*, void*,    \
                                                     void*, void*, int, void*, int* bytes) {     \
    return Store(bytes);                                                                         \
  }                                                                                              \
  TIDEPOOL_ANSWER int cusparse##T##bsrsm2_bufferSize(                                            \
      void*, int, int, int, int, int, int, void*, void*, void*, void*, int, void*, int* bytes) { \
    return Store(bytes);                                                                         \
  }

TIDEPOOL_SPARSE_OF_TYPE(S)
TIDEPOOL_SPARSE_OF_TYPE(D)
TIDEPOOL_SPARSE_OF_TYPE(C)
TIDEPOOL_SPARSE_OF_TYPE(Z)
// NOLINTEND(bugprone-macro-parentheses)

// SPDX-License-Identifier: Apache-2.0
// cuBLAS and cuBLASLt: their versions and words. cublas_products.cc has their products of matrices.
#include <cstddef>
#include <cstring>

#include "dryrun/libraries/answers.h"

namespace {

using tidepool::cudart_host::CudaMajor;
using tidepool::cudart_host::DeleteObject;
using tidepool::cudart_host::MakeObject;

constexpr std::size_t kHeuristicResultBytes = 96;  // cublasLtMatmulHeuristicResult_t

// The versions that come with CUDA 12.4 and 13.0.
int Version() { return CudaMajor() == 12 ? 120402 : 130100; }

}  // namespace

TIDEPOOL_ANSWER int cublasLtCreate(void** handle) { return MakeObject(handle); }
TIDEPOOL_ANSWER int cublasLtDestroy(void* handle) { return DeleteObject(handle); }

TIDEPOOL_ANSWER int cublasGetVersion_v2(void* /*handle*/, int* version) {
  *version = Version();
  return 0;
}
TIDEPOOL_ANSWER std::size_t cublasLtGetVersion() { return static_cast<std::size_t>(Version()); }

// One algorithm, without a workspace.
TIDEPOOL_ANSWER int cublasLtMatmulAlgoGetHeuristic(void* /*handle*/, void* /*operation*/,
                                                   void* /*a*/, void* /*b*/, void* /*c*/,
                                                   void* /*d*/, void* /*preference*/,
                                                   int /*wanted*/, void* results, int* found) {
  std::memset(results, 0, kHeuristicResultBytes);
  *found = 1;
  return 0;
}

// Attributes of that algorithm are zeros.
TIDEPOOL_ANSWER int cublasLtMatmulAlgoConfigGetAttribute(const void* /*algorithm*/, int /*name*/,
                                                         void* place, std::size_t bytes,
                                                         std::size_t* written) {
  std::memset(place, 0, bytes);
  if (written != nullptr) *written = bytes;
  return 0;
}

TIDEPOOL_ANSWER const char* cublasGetStatusString(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}
TIDEPOOL_ANSWER const char* cublasGetStatusName(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}
TIDEPOOL_ANSWER const char* cublasLtGetStatusString(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}
TIDEPOOL_ANSWER const char* cublasLtGetStatusName(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}

// SPDX-License-Identifier: Apache-2.0
// cuSOLVER. NVIDIA does not publish the sizes of its workspaces; here each has as many elements as
// the matrix, or 64 columns of it where that is more, the block of LAPACK.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dryrun/libraries/answers.h"

namespace {

struct Handle {
  void* stream = nullptr;
};

constexpr std::int64_t kBlock = 64;  // columns that LAPACK's blocked algorithms take at a time

std::int64_t Elements(std::int64_t rows, std::int64_t columns) {
  return rows * std::max(columns, kBlock);
}

int Store(int* place, std::int64_t rows, std::int64_t columns) {
  *place = static_cast<int>(std::min<std::int64_t>(Elements(rows, columns), INT32_MAX));
  return 0;
}

// The interface of 64 bits counts bytes; 8 is the size of the type that it is called with most.
int StoreBytes(std::size_t* on_device, std::size_t* on_host, std::int64_t rows,
               std::int64_t columns) {
  *on_device = static_cast<std::size_t>(Elements(rows, columns)) * 8;
  *on_host = 0;
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER int cusolverDnCreate(void** handle) {
  return tidepool::cudart_host::MakeObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cusolverDnDestroy(void* handle) {
  return tidepool::cudart_host::DeleteObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cusolverDnSetStream(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
TIDEPOOL_ANSWER int cusolverDnGetStream(void* handle, void** stream) {
  *stream = static_cast<Handle*>(handle)->stream;
  return 0;
}

// NOLINTBEGIN(bugprone-macro-parentheses): the macros make functions for each type of elements.
#define TIDEPOOL_SOLVER_OF_TYPE(T, Orgqr, Ormqr, Syevd)                                            \
  TIDEPOOL_ANSWER int cusolverDn##T##getrf_bufferSize(void*, int m, int n, void*, int,             \
                                                      int* size) {                                 \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##potrf_bufferSize(void*, int, int n, void*, int, int* size) {  \
    return Store(size, n, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##geqrf_bufferSize(void*, int m, int n, void*, int,             \
                                                      int* size) {                                 \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##sytrf_bufferSize(void*, int n, void*, int, int* size) {       \
    return Store(size, n, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvd_bufferSize(void*, int m, int n, int* size) {            \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvdj_bufferSize(void*, int, int, int m, int n, void*, int,  \
                                                       void*, void*, int, void*, int, int* size,   \
                                                       void*) {                                    \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvdjBatched_bufferSize(void*, int, int m, int n, void*,     \
                                                              int, void*, void*, int, void*, int,  \
                                                              int* size, void*, int batch) {       \
    return Store(size, m, std::int64_t{n} * batch);                                                \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvdaStridedBatched_bufferSize(                              \
      void*, int, int, int m, int n, void*, int, long long, void*, long long, void*, int,          \
      long long, void*, int, long long, int* size, int batch) {                                    \
    return Store(size, m, std::int64_t{n} * batch);                                                \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##Orgqr##_bufferSize(void*, int m, int n, int, void*, int,      \
                                                        void*, int* size) {                        \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##Ormqr##_bufferSize(void*, int, int, int m, int n, int, void*, \
                                                        int, void*, void*, int, int* size) {       \
    return Store(size, m, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##Syevd##d_bufferSize(void*, int, int, int n, void*, int,       \
                                                         void*, int* size) {                       \
    return Store(size, n, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##Syevd##j_bufferSize(void*, int, int, int n, void*, int,       \
                                                         void*, int* size, void*) {                \
    return Store(size, n, n);                                                                      \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##Syevd##jBatched_bufferSize(                                   \
      void*, int, int, int n, void*, int, void*, int* size, void*, int batch) {                    \
    return Store(size, n, std::int64_t{n} * batch);                                                \
  }

TIDEPOOL_SOLVER_OF_TYPE(S, orgqr, ormqr, syev)
TIDEPOOL_SOLVER_OF_TYPE(D, orgqr, ormqr, syev)
TIDEPOOL_SOLVER_OF_TYPE(C, ungqr, unmqr, heev)
TIDEPOOL_SOLVER_OF_TYPE(Z, ungqr, unmqr, heev)
// NOLINTEND(bugprone-macro-parentheses)

TIDEPOOL_ANSWER int cusolverDnXpotrf_bufferSize(void* /*handle*/, void* /*params*/, int /*part*/,
                                                std::int64_t n, int /*type*/, void* /*a*/,
                                                std::int64_t /*lda*/, int /*compute*/,
                                                std::size_t* on_device, std::size_t* on_host) {
  return StoreBytes(on_device, on_host, n, n);
}
TIDEPOOL_ANSWER int cusolverDnXgeqrf_bufferSize(void* /*handle*/, void* /*params*/, std::int64_t m,
                                                std::int64_t n, int /*type*/, void* /*a*/,
                                                std::int64_t /*lda*/, int /*tau_type*/,
                                                void* /*tau*/, int /*compute*/,
                                                std::size_t* on_device, std::size_t* on_host) {
  return StoreBytes(on_device, on_host, m, n);
}
TIDEPOOL_ANSWER int cusolverDnXsyevd_bufferSize(void* /*handle*/, void* /*params*/, int /*job*/,
                                                int /*part*/, std::int64_t n, int /*type*/,
                                                void* /*a*/, std::int64_t /*lda*/, int /*w_type*/,
                                                void* /*w*/, int /*compute*/,
                                                std::size_t* on_device, std::size_t* on_host) {
  return StoreBytes(on_device, on_host, n, n);
}
TIDEPOOL_ANSWER int cusolverDnXsyevBatched_bufferSize(
    void* /*handle*/, void* /*params*/, int /*job*/, int /*part*/, std::int64_t n, int /*type*/,
    void* /*a*/, std::int64_t /*lda*/, int /*w_type*/, void* /*w*/, int /*compute*/,
    std::size_t* on_device, std::size_t* on_host, std::int64_t batch) {
  return StoreBytes(on_device, on_host, n, n * batch);
}
TIDEPOOL_ANSWER int cusolverDnXgeev_bufferSize(void* /*handle*/, void* /*params*/, int /*left*/,
                                               int /*right*/, std::int64_t n, int /*type*/,
                                               void* /*a*/, std::int64_t /*lda*/, int /*w_type*/,
                                               void* /*w*/, int /*vl_type*/, void* /*vl*/,
                                               std::int64_t /*ldvl*/, int /*vr_type*/, void* /*vr*/,
                                               std::int64_t /*ldvr*/, int /*compute*/,
                                               std::size_t* on_device, std::size_t* on_host) {
  return StoreBytes(on_device, on_host, n, n);
}
TIDEPOOL_ANSWER int cusolverDnXsytrs_bufferSize(void* /*handle*/, int /*part*/, std::int64_t n,
                                                std::int64_t columns, int /*type*/, void* /*a*/,
                                                std::int64_t /*lda*/, std::int64_t* /*pivots*/,
                                                int /*b_type*/, void* /*b*/, std::int64_t /*ldb*/,
                                                std::size_t* on_device, std::size_t* on_host) {
  return StoreBytes(on_device, on_host, n, columns);
}

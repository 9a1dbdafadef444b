// SPDX-License-Identifier: Apache-2.0
// The time of factorizations and solvers of cuBLAS and cuSOLVER. Numbers of operations are those of
// LAPACK Working Note 41, appendix C; for eigenvalues and singular values with all vectors those of
// Golub and Van Loan, Matrix Computations. Half of the peak is assumed.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/gpu.h"

TIDEPOOL_ANSWER int cublasGetStream_v2(void* handle, void** stream);
TIDEPOOL_ANSWER int cusolverDnGetStream(void* handle, void** stream);

namespace {

using tidepool::cudart_host::Numbers;
using tidepool::cudart_host::Run;

constexpr double kEfficiency = 0.5;

// The numbers of a function, by its letter.
struct Elements {
  Numbers numbers;
  double bytes;
  double operations;  // on floats or doubles, for each operation on such an element
};
constexpr Elements kS = {Numbers::kSingle, 4, 1};
constexpr Elements kD = {Numbers::kDouble, 8, 1};
constexpr Elements kC = {Numbers::kSingle, 8, 4};
constexpr Elements kZ = {Numbers::kDouble, 16, 4};

// Passes the time of a function that reads and writes this many elements. It writes several
// arrays, so all memory becomes unknown.
int Pass(const char* name, void* stream, const Elements& type, double operations, double elements) {
  Run(name, stream,
      {type.numbers, operations * type.operations, 2 * elements * type.bytes, kEfficiency}, nullptr,
      0);
  return 0;
}

int PassBlas(const char* name, void* handle, const Elements& type, double operations,
             double elements) {
  void* stream = nullptr;
  cublasGetStream_v2(handle, &stream);
  return Pass(name, stream, type, operations, elements);
}

int PassSolver(const char* name, void* handle, const Elements& type, double operations,
               double elements) {
  void* stream = nullptr;
  cusolverDnGetStream(handle, &stream);
  return Pass(name, stream, type, operations, elements);
}

// A triangular matrix on the left or on the right of the m x n unknowns.
double Triangular(int side, double m, double n) { return side == 0 ? m * m * n : m * n * n; }

double Lu(double m, double n) {
  const double less = std::min(m, n);
  return 2 * m * n * less - (m + n) * less * less + 2 * less * less * less / 3;
}

double Cholesky(double n) { return n * n * n / 3; }

double Qr(double m, double n) {
  const double more = std::max(m, n);
  const double less = std::min(m, n);
  return 2 * more * less * less - 2 * less * less * less / 3;
}

double MakeQ(double m, double n, double k) {
  return 4 * m * n * k - 2 * (m + n) * k * k + 4 * k * k * k / 3;
}

// Multiplies m x n numbers by the k reflections of Q.
double ApplyQ(int side, double m, double n, double k) {
  return side == 0 ? 4 * m * n * k - 2 * n * k * k : 4 * m * n * k - 2 * m * k * k;
}

double Solve(double n, double columns) { return 2 * n * n * columns; }

double SymmetricEigen(double n) { return 9 * n * n * n; }
double Eigen(double n) { return 25 * n * n * n; }

double SingularValues(double m, double n) {
  const double more = std::max(m, n);
  const double less = std::min(m, n);
  return 14 * more * less * less + 8 * less * less * less;
}

double Square(double n) { return n * n; }

// The types of cuSOLVER's interface of 64 bits: cudaDataType.
const Elements& ElementsOf(int type) {
  switch (type) {
    case 1:
      return kD;
    case 4:
      return kC;
    case 5:
      return kZ;
    default:
      return kS;
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the macros make functions for each type of elements.
#define TIDEPOOL_FACTORIZATIONS(T)                                                                 \
  TIDEPOOL_ANSWER int cublas##T##trsm_v2(void* handle, int side, int, int, int, int m, int n,      \
                                         void*, void*, int, void*, int) {                          \
    return PassBlas(__func__, handle, k##T, Triangular(side, m, n), Square(side == 0 ? m : n));    \
  }                                                                                                \
  TIDEPOOL_ANSWER int cublas##T##trsmBatched(void* handle, int side, int, int, int, int m, int n,  \
                                             void*, void*, int, void*, int, int count) {           \
    return PassBlas(__func__, handle, k##T, Triangular(side, m, n) * count,                        \
                    Square(side == 0 ? m : n) * count);                                            \
  }                                                                                                \
  TIDEPOOL_ANSWER int cublas##T##getrfBatched(void* handle, int n, void*, int, int*, int*,         \
                                              int count) {                                         \
    return PassBlas(__func__, handle, k##T, Lu(n, n) * count, Square(n) * count);                  \
  }                                                                                                \
  TIDEPOOL_ANSWER int cublas##T##getrsBatched(void* handle, int, int n, int columns, void*, int,   \
                                              int*, void*, int, int*, int count) {                 \
    return PassBlas(__func__, handle, k##T, Solve(n, columns) * count, Square(n) * count);         \
  }                                                                                                \
  TIDEPOOL_ANSWER int cublas##T##geqrfBatched(void* handle, int m, int n, void*, int, void*, int*, \
                                              int count) {                                         \
    return PassBlas(__func__, handle, k##T, Qr(m, n) * count, double{1} * m * n * count);          \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##getrf(void* handle, int m, int n, void*, int, void*, int*,    \
                                           int*) {                                                 \
    return PassSolver(__func__, handle, k##T, Lu(m, n), double{1} * m * n);                        \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##getrs(void* handle, int, int n, int columns, void*, int,      \
                                           int*, void*, int, int*) {                               \
    return PassSolver(__func__, handle, k##T, Solve(n, columns), Square(n));                       \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##potrf(void* handle, int, int n, void*, int, void*, int,       \
                                           int*) {                                                 \
    return PassSolver(__func__, handle, k##T, Cholesky(n), Square(n));                             \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##potrfBatched(void* handle, int, int n, void*, int, int*,      \
                                                  int count) {                                     \
    return PassSolver(__func__, handle, k##T, Cholesky(n) * count, Square(n) * count);             \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##potrs(void* handle, int, int n, int columns, void*, int,      \
                                           void*, int, int*) {                                     \
    return PassSolver(__func__, handle, k##T, Solve(n, columns), Square(n));                       \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##sytrf(void* handle, int, int n, void*, int, int*, void*, int, \
                                           int*) {                                                 \
    return PassSolver(__func__, handle, k##T, Cholesky(n), Square(n));                             \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##geqrf(void* handle, int m, int n, void*, int, void*, void*,   \
                                           int, int*) {                                            \
    return PassSolver(__func__, handle, k##T, Qr(m, n), double{1} * m * n);                        \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvd(void* handle, signed char, signed char, int m, int n,   \
                                           void*, int, void*, void*, int, void*, int, void*, int,  \
                                           void*, int*) {                                          \
    return PassSolver(__func__, handle, k##T, SingularValues(m, n), double{1} * m * n);            \
  }                                                                                                \
  TIDEPOOL_ANSWER int cusolverDn##T##gesvdj(void* handle, int, int, int m, int n, void*, int,      \
                                            void*, void*, int, void*, int, void*, int, int*,       \
                                            void*) {                                               \
    return PassSolver(__func__, handle, k##T, SingularValues(m, n), double{1} * m * n);            \
  }

#define TIDEPOOL_ORTHOGONAL(T, Orgqr, Ormqr, Syev)                                               \
  TIDEPOOL_ANSWER int cusolverDn##T##Orgqr(void* handle, int m, int n, int k, void*, int, void*, \
                                           void*, int, int*) {                                   \
    return PassSolver(__func__, handle, k##T, MakeQ(m, n, k), double{1} * m * n);                \
  }                                                                                              \
  TIDEPOOL_ANSWER int cusolverDn##T##Ormqr(void* handle, int side, int, int m, int n, int k,     \
                                           void*, int, void*, void*, int, void*, int, int*) {    \
    return PassSolver(__func__, handle, k##T, ApplyQ(side, m, n, k), double{1} * m * n);         \
  }                                                                                              \
  TIDEPOOL_ANSWER int cusolverDn##T##Syev##d(void* handle, int, int, int n, void*, int, void*,   \
                                             void*, int, int*) {                                 \
    return PassSolver(__func__, handle, k##T, SymmetricEigen(n), Square(n));                     \
  }                                                                                              \
  TIDEPOOL_ANSWER int cusolverDn##T##Syev##j(void* handle, int, int, int n, void*, int, void*,   \
                                             void*, int, int*, void*) {                          \
    return PassSolver(__func__, handle, k##T, SymmetricEigen(n), Square(n));                     \
  }

TIDEPOOL_FACTORIZATIONS(S)
TIDEPOOL_FACTORIZATIONS(D)
TIDEPOOL_FACTORIZATIONS(C)
TIDEPOOL_FACTORIZATIONS(Z)
TIDEPOOL_ORTHOGONAL(S, orgqr, ormqr, syev)
TIDEPOOL_ORTHOGONAL(D, orgqr, ormqr, syev)
TIDEPOOL_ORTHOGONAL(C, ungqr, unmqr, heev)
TIDEPOOL_ORTHOGONAL(Z, ungqr, unmqr, heev)
// NOLINTEND(bugprone-macro-parentheses)

TIDEPOOL_ANSWER int cusolverDnXpotrf(void* handle, void* /*params*/, int /*part*/, std::int64_t n,
                                     int type, void* /*a*/, std::int64_t /*lda*/, int /*compute*/,
                                     void* /*device*/, std::size_t /*bytes*/, void* /*host*/,
                                     std::size_t /*host_bytes*/, int* /*info*/) {
  const auto side = static_cast<double>(n);
  return PassSolver(__func__, handle, ElementsOf(type), Cholesky(side), Square(side));
}
TIDEPOOL_ANSWER int cusolverDnXpotrs(void* handle, void* /*params*/, int /*part*/, std::int64_t n,
                                     std::int64_t columns, int type, void* /*a*/,
                                     std::int64_t /*lda*/, int /*b_type*/, void* /*b*/,
                                     std::int64_t /*ldb*/, int* /*info*/) {
  const auto side = static_cast<double>(n);
  return PassSolver(__func__, handle, ElementsOf(type), Solve(side, static_cast<double>(columns)),
                    Square(side));
}
TIDEPOOL_ANSWER int cusolverDnXgeqrf(void* handle, void* /*params*/, std::int64_t m, std::int64_t n,
                                     int type, void* /*a*/, std::int64_t /*lda*/, int /*tau_type*/,
                                     void* /*tau*/, int /*compute*/, void* /*device*/,
                                     std::size_t /*bytes*/, void* /*host*/,
                                     std::size_t /*host_bytes*/, int* /*info*/) {
  const auto rows = static_cast<double>(m);
  const auto columns = static_cast<double>(n);
  return PassSolver(__func__, handle, ElementsOf(type), Qr(rows, columns), rows * columns);
}
TIDEPOOL_ANSWER int cusolverDnXsyevd(void* handle, void* /*params*/, int /*job*/, int /*part*/,
                                     std::int64_t n, int type, void* /*a*/, std::int64_t /*lda*/,
                                     int /*w_type*/, void* /*w*/, int /*compute*/, void* /*device*/,
                                     std::size_t /*bytes*/, void* /*host*/,
                                     std::size_t /*host_bytes*/, int* /*info*/) {
  const auto side = static_cast<double>(n);
  return PassSolver(__func__, handle, ElementsOf(type), SymmetricEigen(side), Square(side));
}
TIDEPOOL_ANSWER int cusolverDnXgeev(void* handle, void* /*params*/, int /*left*/, int /*right*/,
                                    std::int64_t n, int type, void* /*a*/, std::int64_t /*lda*/,
                                    int /*w_type*/, void* /*w*/, int /*vl_type*/, void* /*vl*/,
                                    std::int64_t /*ldvl*/, int /*vr_type*/, void* /*vr*/,
                                    std::int64_t /*ldvr*/, int /*compute*/, void* /*device*/,
                                    std::size_t /*bytes*/, void* /*host*/,
                                    std::size_t /*host_bytes*/, int* /*info*/) {
  const auto side = static_cast<double>(n);
  return PassSolver(__func__, handle, ElementsOf(type), Eigen(side), Square(side));
}

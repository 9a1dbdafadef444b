// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in for cuBLAS. They compute in their streams, with sums in double
// precision. Scales are read on the host, when the function is called.
#include <cublas_v2.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "dryrun/stream_work.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace tidepool::cudart_host {
namespace {

cublasStatus_t QueueProduct(cublasHandle_t handle, std::function<void()> work) {
  return QueueWork(handle->stream, std::move(work)) ? CUBLAS_STATUS_SUCCESS
                                                    : CUBLAS_STATUS_EXECUTION_FAILED;
}

// A matrix by columns, or its transpose.
struct Matrix {
  const float* data = nullptr;
  std::ptrdiff_t leading = 0;
  bool is_transposed = false;

  double At(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return static_cast<double>(is_transposed ? data[column + row * leading]
                                             : data[row + column * leading]);
  }
};

struct Product {
  Matrix a;
  Matrix b;
  int rows = 0;
  int columns = 0;
  int inner = 0;
  double alpha = 1;
  double beta = 0;
  float* c = nullptr;
  std::ptrdiff_t leading = 0;
};

// Computes c = alpha * a * b + beta * c. With beta 0 c is not read.
void Multiply(const Product& product) {
  for (int column = 0; column < product.columns; ++column) {
    for (int row = 0; row < product.rows; ++row) {
      double sum = 0;
      for (int i = 0; i < product.inner; ++i) sum += product.a.At(row, i) * product.b.At(i, column);
      float& result = product.c[row + column * product.leading];
      const double scaled = product.alpha * sum;
      result = static_cast<float>(
          product.beta == 0 ? scaled : scaled + product.beta * static_cast<double>(result));
    }
  }
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Multiply;
using tidepool::cudart_host::Product;
using tidepool::cudart_host::QueueProduct;

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_a_transposed = transa != CUBLAS_OP_N;
  const bool is_b_transposed = transb != CUBLAS_OP_N;
  const bool is_valid = m >= 0 && n >= 0 && k >= 0 && alpha != nullptr && beta != nullptr &&
                        lda >= std::max(1, is_a_transposed ? k : m) &&
                        ldb >= std::max(1, is_b_transposed ? n : k) && ldc >= std::max(1, m);
  if (!is_valid) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product = {.a = {a, lda, is_a_transposed},
                           .b = {b, ldb, is_b_transposed},
                           .rows = m,
                           .columns = n,
                           .inner = k,
                           .alpha = static_cast<double>(*alpha),
                           .beta = static_cast<double>(*beta),
                           .c = c,
                           .leading = ldc};
  return QueueProduct(handle, [product] { Multiply(product); });
}

cublasStatus_t cublasSaxpy(cublasHandle_t handle, int n, const float* alpha, const float* x,
                           int incx, float* y, int incy) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr || incx < 1 || incy < 1) return CUBLAS_STATUS_INVALID_VALUE;
  return QueueProduct(handle, [n, scale = static_cast<double>(*alpha), x, incx, y, incy] {
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const double sum =
          static_cast<double>(y[i * incy]) + scale * static_cast<double>(x[i * incx]);
      y[i * incy] = static_cast<float>(sum);
    }
  });
}

cublasStatus_t cublasSscal(cublasHandle_t handle, int n, const float* alpha, float* x, int incx) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr || incx < 1) return CUBLAS_STATUS_INVALID_VALUE;
  return QueueProduct(handle, [n, scale = static_cast<double>(*alpha), x, incx] {
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      x[i * incx] = static_cast<float>(scale * static_cast<double>(x[i * incx]));
    }
  });
}

}  // extern "C"

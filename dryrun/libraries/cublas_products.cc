// SPDX-License-Identifier: Apache-2.0
// Products of matrices of cuBLAS and cuBLASLt: they compute nothing, and take the time of the
// assumed GPU on the clock of events.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/data_types.h"
#include "dryrun/libraries/gpu.h"

namespace {

namespace data_type = tidepool::cudart_host::data_type;
using tidepool::cudart_host::AssumedGpu;
using tidepool::cudart_host::BytesOf;
using tidepool::cudart_host::IsComplex;
using tidepool::cudart_host::Numbers;
using tidepool::cudart_host::Run;
using tidepool::cudart_host::Work;

constexpr int kTensorFloatMath = 3;      // CUBLAS_TF32_TENSOR_OP_MATH
constexpr int kTensorFloatCompute = 77;  // CUBLAS_COMPUTE_32F_FAST_TF32

Numbers NumbersOf(int type, bool is_tensor_float) {
  const int capability = AssumedGpu().capability;
  switch (type) {
    case data_type::kFloat:
    case data_type::kComplexFloat:
      return is_tensor_float && capability >= 80 ? Numbers::kTensorFloat : Numbers::kSingle;
    case data_type::kDouble:
    case data_type::kComplexDouble:
      return Numbers::kDouble;
    case data_type::kHalf:
      return capability >= 70 ? Numbers::kHalf : Numbers::kSingle;
    case data_type::kBfloat16:
      return capability >= 80 ? Numbers::kHalf : Numbers::kSingle;
    default:
      return capability >= 75 ? Numbers::kByte : Numbers::kSingle;
  }
}

struct Handle {
  void* stream = nullptr;
  int math = 0;
  int pointers = 0;
};

Handle& HandleOf(void* handle) { return *static_cast<Handle*>(handle); }

// Products of an m x k and a k x n matrix.
struct Product {
  double m = 0;
  double n = 0;
  double k = 0;
  double count = 1;
  int type = data_type::kFloat;
  int output_type = data_type::kFloat;
  bool is_tensor_float = false;

  double OutputBytes() const { return count * m * n * BytesOf(output_type); }
  Work work() const {
    const double operations = (IsComplex(type) ? 8 : 2) * count * m * n * k;
    return {NumbersOf(type, is_tensor_float), operations,
            count * (m + n) * k * BytesOf(type) + OutputBytes()};
  }
};

// Returns the bytes of an output with columns that begin `leading` numbers apart.
double Extent(const Product& product, double leading, double stride) {
  return ((product.count - 1) * stride + leading * product.n) * BytesOf(product.output_type);
}

int Multiply(const char* name, void* handle, const Product& product, void* output, double leading,
             double stride = 0) {
  Run(name, HandleOf(handle).stream, product.work(), output, Extent(product, leading, stride));
  return 0;
}

bool IsTensorFloat(void* handle) { return HandleOf(handle).math == kTensorFloatMath; }

Product Same(void* handle, int m, int n, int k, int type, int count = 1) {
  return {static_cast<double>(m),
          static_cast<double>(n),
          static_cast<double>(k),
          static_cast<double>(count),
          type,
          type,
          IsTensorFloat(handle)};
}

}  // namespace

TIDEPOOL_ANSWER int cublasCreate_v2(void** handle) {
  return tidepool::cudart_host::MakeObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cublasDestroy_v2(void* handle) {
  return tidepool::cudart_host::DeleteObject<Handle>(handle);
}
TIDEPOOL_ANSWER int cublasSetStream_v2(void* handle, void* stream) {
  HandleOf(handle).stream = stream;
  return 0;
}
TIDEPOOL_ANSWER int cublasGetStream_v2(void* handle, void** stream) {
  *stream = HandleOf(handle).stream;
  return 0;
}
TIDEPOOL_ANSWER int cublasSetMathMode(void* handle, int math) {
  HandleOf(handle).math = math;
  return 0;
}
TIDEPOOL_ANSWER int cublasGetMathMode(void* handle, int* math) {
  *math = HandleOf(handle).math;
  return 0;
}
TIDEPOOL_ANSWER int cublasSetPointerMode_v2(void* handle, int pointers) {
  HandleOf(handle).pointers = pointers;
  return 0;
}
TIDEPOOL_ANSWER int cublasGetPointerMode_v2(void* handle, int* pointers) {
  *pointers = HandleOf(handle).pointers;
  return 0;
}

// Products of one type
// ------------------------------------------------------------------------------------------

#define TIDEPOOL_PRODUCTS(Letter, type)                                                          \
  TIDEPOOL_ANSWER int cublas##Letter##gemm_v2(                                                   \
      void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k, const void* /*alpha*/,      \
      const void* /*a*/, int /*lda*/, const void* /*b*/, int /*ldb*/, const void* /*beta*/,      \
      void* c, int ldc) {                                                                        \
    return Multiply("cublas" #Letter "gemm_v2", handle, Same(handle, m, n, k, type), c, ldc);    \
  }                                                                                              \
  TIDEPOOL_ANSWER int cublas##Letter##gemmStridedBatched(                                        \
      void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k, const void* /*alpha*/,      \
      const void* /*a*/, int /*lda*/, long long /*a_stride*/, const void* /*b*/, int /*ldb*/,    \
      long long /*b_stride*/, const void* /*beta*/, void* c, int ldc, long long stride,          \
      int count) {                                                                               \
    return Multiply("cublas" #Letter "gemmStridedBatched", handle,                               \
                    Same(handle, m, n, k, type, count), c, ldc, static_cast<double>(stride));    \
  }                                                                                              \
  TIDEPOOL_ANSWER int cublas##Letter##gemmBatched(                                               \
      void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k, const void* /*alpha*/,      \
      const void* const* /*a*/, int /*lda*/, const void* const* /*b*/, int /*ldb*/,              \
      const void* /*beta*/, void* const* /*c*/, int ldc, int count) {                            \
    return Multiply("cublas" #Letter "gemmBatched", handle, Same(handle, m, n, k, type, count),  \
                    nullptr, ldc);                                                               \
  }                                                                                              \
  TIDEPOOL_ANSWER int cublas##Letter##gemv_v2(                                                   \
      void* handle, int as, int m, int n, const void* /*alpha*/, const void* /*a*/, int /*lda*/, \
      const void* /*x*/, int /*x_step*/, const void* /*beta*/, void* y, int y_step) {            \
    const int outputs = as == 0 ? m : n;                                                         \
    return Multiply("cublas" #Letter "gemv_v2", handle,                                          \
                    Same(handle, outputs, 1, as == 0 ? n : m, type), y,                          \
                    static_cast<double>(outputs) * y_step);                                      \
  }

TIDEPOOL_PRODUCTS(S, data_type::kFloat)
TIDEPOOL_PRODUCTS(D, data_type::kDouble)
TIDEPOOL_PRODUCTS(C, data_type::kComplexFloat)
TIDEPOOL_PRODUCTS(Z, data_type::kComplexDouble)

// Products of given types
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cublasGemmEx(void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k,
                                 const void* /*alpha*/, const void* /*a*/, int type, int /*lda*/,
                                 const void* /*b*/, int /*b_type*/, int /*ldb*/,
                                 const void* /*beta*/, void* c, int c_type, int ldc, int compute,
                                 int /*algorithm*/) {
  Product product = Same(handle, m, n, k, type);
  product.output_type = c_type;
  product.is_tensor_float |= compute == kTensorFloatCompute;
  return Multiply("cublasGemmEx", handle, product, c, ldc);
}
TIDEPOOL_ANSWER int cublasSgemmEx(void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k,
                                  const void* /*alpha*/, const void* /*a*/, int type, int /*lda*/,
                                  const void* /*b*/, int /*b_type*/, int /*ldb*/,
                                  const void* /*beta*/, void* c, int c_type, int ldc) {
  Product product = Same(handle, m, n, k, type);
  product.output_type = c_type;
  return Multiply("cublasSgemmEx", handle, product, c, ldc);
}
TIDEPOOL_ANSWER int cublasGemmStridedBatchedEx(
    void* handle, int /*a_as*/, int /*b_as*/, int m, int n, int k, const void* /*alpha*/,
    const void* /*a*/, int type, int /*lda*/, long long /*a_stride*/, const void* /*b*/,
    int /*b_type*/, int /*ldb*/, long long /*b_stride*/, const void* /*beta*/, void* c, int c_type,
    int ldc, long long stride, int count, int compute, int /*algorithm*/) {
  Product product = Same(handle, m, n, k, type, count);
  product.output_type = c_type;
  product.is_tensor_float |= compute == kTensorFloatCompute;
  return Multiply("cublasGemmStridedBatchedEx", handle, product, c, ldc,
                  static_cast<double>(stride));
}

// cuBLASLt
// ------------------------------------------------------------------------------------------

namespace {

// Attributes of cublasLt.h.
constexpr int kBatchCount = 5;     // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
constexpr int kBatchStride = 6;    // CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
constexpr int kFirstIsTurned = 3;  // CUBLASLT_MATMUL_DESC_TRANSA

struct Layout {
  int type = data_type::kFloat;
  double rows = 0;
  double columns = 0;
  double leading = 0;
  std::int32_t count = 1;
  std::int64_t stride = 0;
};

struct Operation {
  int compute = 0;
  std::int32_t first_is_turned = 0;
};

}  // namespace

TIDEPOOL_ANSWER int cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows,
                                               std::uint64_t columns, std::int64_t leading) {
  *made = new Layout{type, static_cast<double>(rows), static_cast<double>(columns),
                     static_cast<double>(leading)};
  return 0;
}
TIDEPOOL_ANSWER int cublasLtMatrixLayoutDestroy(void* layout) {
  return tidepool::cudart_host::DeleteObject<Layout>(layout);
}
TIDEPOOL_ANSWER int cublasLtMatrixLayoutSetAttribute(void* object, int name, const void* value,
                                                     std::size_t /*bytes*/) {
  auto& layout = *static_cast<Layout*>(object);
  if (name == kBatchCount) std::memcpy(&layout.count, value, sizeof layout.count);
  if (name == kBatchStride) std::memcpy(&layout.stride, value, sizeof layout.stride);
  return 0;
}
TIDEPOOL_ANSWER int cublasLtMatmulDescCreate(void** made, int compute, int /*scale_type*/) {
  *made = new Operation{compute};
  return 0;
}
TIDEPOOL_ANSWER int cublasLtMatmulDescDestroy(void* operation) {
  return tidepool::cudart_host::DeleteObject<Operation>(operation);
}
TIDEPOOL_ANSWER int cublasLtMatmulDescSetAttribute(void* object, int name, const void* value,
                                                   std::size_t /*bytes*/) {
  auto& operation = *static_cast<Operation*>(object);
  if (name == kFirstIsTurned) std::memcpy(&operation.first_is_turned, value, sizeof(std::int32_t));
  return 0;
}

TIDEPOOL_ANSWER int cublasLtMatmul(void* /*handle*/, void* operation, const void* /*alpha*/,
                                   const void* /*a*/, void* a_layout, const void* /*b*/,
                                   void* /*b_layout*/, const void* /*beta*/, const void* /*c*/,
                                   void* /*c_layout*/, void* d, void* d_layout,
                                   const void* /*algorithm*/, void* /*workspace*/,
                                   std::size_t /*bytes*/, void* stream) {
  const auto& how = *static_cast<const Operation*>(operation);
  const auto& first = *static_cast<const Layout*>(a_layout);
  const auto& output = *static_cast<const Layout*>(d_layout);
  const Product product = {.m = output.rows,
                           .n = output.columns,
                           .k = how.first_is_turned != 0 ? first.rows : first.columns,
                           .count = static_cast<double>(output.count),
                           .type = first.type,
                           .output_type = output.type,
                           .is_tensor_float = how.compute == kTensorFloatCompute};
  Run("cublasLtMatmul", stream, product.work(), d,
      Extent(product, output.leading, static_cast<double>(output.stride)));
  return 0;
}

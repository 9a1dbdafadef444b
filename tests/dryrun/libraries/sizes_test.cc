// SPDX-License-Identifier: Apache-2.0
// Sizes that functions of NVIDIA's libraries tell.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

extern "C" {
int cufftXtMakePlanMany(int, int, long long*, long long*, long long, long long, int, long long*,
                        long long, long long, int, long long, std::size_t*, int);
int cusparseCreate(void**);
int cusparseDestroy(void*);
int cusparseSetPointerMode(void*, int);
int cusparseXcsrgeam2Nnz(void*, int, int, void*, int, void*, void*, void*, int, void*, void*, void*,
                         void*, int*, void*);
int cusparseLtStructuredDescriptorInit(void*, void*, std::int64_t, std::int64_t, std::int64_t,
                                       std::uint32_t, int, int, int);
int cusparseLtSpMMACompressedSize2(void*, const void*, std::size_t*, std::size_t*);
}

namespace tidepool {
namespace {

std::size_t Transform(int type) {
  long long sizes[] = {64, 32};
  std::size_t bytes = 0;
  EXPECT_EQ(
      cufftXtMakePlanMany(1, 2, sizes, nullptr, 1, 0, type, nullptr, 1, 0, type, 3, &bytes, type),
      0);
  return bytes;
}

TEST(SizesTest, ATransformHasAComplexNumberForEachElement) {
  EXPECT_EQ(Transform(4), std::size_t{3} * 64 * 32 * 8);   // CUDA_C_32F
  EXPECT_EQ(Transform(5), std::size_t{3} * 64 * 32 * 16);  // CUDA_C_64F
  EXPECT_EQ(Transform(6), std::size_t{3} * 64 * 32 * 4);   // CUDA_C_16F
}

int Sum(void* handle, int rows, int columns) {
  int count = -1;
  EXPECT_EQ(cusparseXcsrgeam2Nnz(handle, rows, columns, nullptr, 30, nullptr, nullptr, nullptr, 20,
                                 nullptr, nullptr, nullptr, nullptr, &count, nullptr),
            0);
  return count;
}

TEST(SizesTest, ASumHasTheElementsOfBothUpToAllPlaces) {
  void* handle = nullptr;
  ASSERT_EQ(cusparseCreate(&handle), 0);
  EXPECT_EQ(Sum(handle, 10, 10), 50);
  EXPECT_EQ(Sum(handle, 6, 7), 42);
  EXPECT_EQ(cusparseSetPointerMode(handle, 1), 0);
  EXPECT_EQ(Sum(handle, 10, 10), -1) << "the place is on the device";
  EXPECT_EQ(cusparseDestroy(handle), 0);
}

std::size_t Compressed(int type, int order) {
  char matrix[512];
  std::size_t bytes = 0;
  std::size_t workspace = 0;
  cusparseLtStructuredDescriptorInit(nullptr, matrix, 128, 64, order == 2 ? 64 : 128, 16, type,
                                     order, 0);
  EXPECT_EQ(cusparseLtSpMMACompressedSize2(nullptr, matrix, &bytes, &workspace), 0);
  EXPECT_GT(workspace, 0U);
  return bytes;
}

TEST(SizesTest, ACompressedMatrixHasHalfOfTheElementsAndTheirPlaces) {
  EXPECT_EQ(Compressed(2, 2), std::size_t{128} * 64 * 2 * 9 / 16);  // CUDA_R_16F by rows
  EXPECT_EQ(Compressed(0, 1), std::size_t{128} * 64 * 4 * 9 / 16);  // CUDA_R_32F by columns
  EXPECT_EQ(Compressed(3, 2), std::size_t{128} * 64 * 10 / 16);     // CUDA_R_8I
}

}  // namespace
}  // namespace tidepool

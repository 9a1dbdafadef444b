// SPDX-License-Identifier: Apache-2.0
// Divided convolutions equal undivided ones. Numbers are whole, so sums are exact in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bindings/cudnn/wrapped.h"

namespace tidepool::test {
namespace {

constexpr LayerShape kShapes[] = {
    {.n = 7},
    {.n = 7, .format = CUDNN_TENSOR_NHWC},
    {.n = 7, .stride = 2},
    {.n = 6, .pad = 0, .format = CUDNN_TENSOR_NHWC},
    {.n = 7, .h = 8, .w = 9, .pad = 2, .dilation = 2},
    {.n = 5, .c = 6, .k = 6, .groups = 3},
    {.n = 5, .c = 6, .k = 4, .stride = 2, .groups = 2, .format = CUDNN_TENSOR_NHWC},
    {.n = 5, .r = 1, .s = 1, .pad = 0},
    {.n = 1},
    {.n = 6, .type = CUDNN_DATA_DOUBLE, .compute_type = CUDNN_DATA_DOUBLE},
    {.n = 6, .type = CUDNN_DATA_HALF},
};

class EqualTest : public WrappedTest, public ::testing::WithParamInterface<LayerShape> {};

TEST_P(EqualTest, AnswersAreThoseOfTheUndividedBatch) {
  // Two samples have room at a time.
  WrappedTest::Open({{"limit", "2000"}});
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  const Layer layer(GetParam());
  for (const Direction direction : kDirections) {
    const Looked looked = LookUp(handle_, layer, direction);
    ASSERT_EQ(looked.status, CUDNN_STATUS_SUCCESS);
    for (const Scales scales : {Scales{1, 0}, {2, 0}, {1, 1}, {-1, 2}, {0, 1}}) {
      LayerData whole(layer);
      LayerData divided(layer);
      Must(Convolve(plain, layer, direction, 0, whole, scales, 0));
      ASSERT_EQ(Convolve(handle_, layer, direction, looked.algorithm, divided, scales,
                         looked.workspace_bytes),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(divided.OutputOf(direction).Get(), whole.OutputOf(direction).Get())
          << "direction " << static_cast<int>(direction) << " alpha " << scales.alpha << " beta "
          << scales.beta;
    }
  }
  const TidepoolCudnnStatistics statistics = Statistics();
  EXPECT_EQ(statistics.convolutions, 15);
  EXPECT_EQ(statistics.divided, GetParam().n > 1 ? 15 : 0);
  EXPECT_EQ(statistics.fallbacks, 0);
  ::cudnnDestroy(plain);
}

INSTANTIATE_TEST_SUITE_P(Shapes, EqualTest, ::testing::ValuesIn(kShapes));

}  // namespace
}  // namespace tidepool::test

// SPDX-License-Identifier: Apache-2.0
// AlexNets other than vDNN++'s: the grouped one of 2012, and that of "one weird trick".
#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

constexpr std::int64_t kHidden = 4096;
constexpr Pooling kOverlapping = {.kernel = 3, .stride = 2};

Tensor RectifiedNumberedConv(NetworkBuilder& net, int number, const Tensor& input,
                             const Convolution& convolution) {
  return net.Relu(absl::StrCat("relu", number),
                  net.Conv(absl::StrCat("conv", number), input, convolution));
}

Tensor RectifiedLinear(NetworkBuilder& net, int number, const Tensor& input) {
  return net.Relu(absl::StrCat("relu", number),
                  net.Linear(absl::StrCat("fc", number), input, kHidden));
}

Convolution InTwoGroups(Convolution convolution) {
  convolution.groups = 2;
  return convolution;
}

}  // namespace

void AddGroupedAlexNet(NetworkBuilder& net, std::int64_t image) {
  Tensor x = net.Input({kColours, image, image});
  x = RectifiedNumberedConv(net, 1, x,
                            {.outputs = 96, .kernel_height = 11, .kernel_width = 11, .stride = 4});
  x = net.MaxPool("pool1", net.LocalResponseNorm("norm1", x), kOverlapping);
  x = RectifiedNumberedConv(net, 2, x, InTwoGroups(Square(256, 5)));
  x = net.MaxPool("pool2", net.LocalResponseNorm("norm2", x), kOverlapping);
  x = RectifiedNumberedConv(net, 3, x, Square(384, 3));
  x = RectifiedNumberedConv(net, 4, x, InTwoGroups(Square(384, 3)));
  x = RectifiedNumberedConv(net, 5, x, InTwoGroups(Square(256, 3)));
  x = Flattened(net.MaxPool("pool5", x, kOverlapping));
  x = net.Dropout("drop6", RectifiedLinear(net, 6, x));
  x = net.Dropout("drop7", RectifiedLinear(net, 7, x));
  AddClassifierEnd(net, net.Linear("fc8", x, kClasses));
}

void AddAlexNetV2(NetworkBuilder& net, std::int64_t image) {
  Tensor x = net.Input({kColours, image, image});
  x = RectifiedNumberedConv(net, 1, x,
                            {.outputs = 64,
                             .kernel_height = 11,
                             .kernel_width = 11,
                             .stride = 4,
                             .padding_height = 2,
                             .padding_width = 2});
  x = net.MaxPool("pool1", x, kOverlapping);
  x = RectifiedNumberedConv(net, 2, x, Square(192, 5));
  x = net.MaxPool("pool2", x, kOverlapping);
  x = RectifiedNumberedConv(net, 3, x, Square(384, 3));
  x = RectifiedNumberedConv(net, 4, x, Square(256, 3));
  x = RectifiedNumberedConv(net, 5, x, Square(256, 3));
  x = Flattened(net.MaxPool("pool5", x, kOverlapping));
  x = RectifiedLinear(net, 6, net.DropoutCopy("drop6", x));
  x = RectifiedLinear(net, 7, net.Dropout("drop7", x));
  AddClassifierEnd(net, net.Linear("fc8", x, kClasses));
}

}  // namespace tidepool::models

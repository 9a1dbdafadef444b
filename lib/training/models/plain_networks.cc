// SPDX-License-Identifier: Apache-2.0
// Chains: AlexNet, the VGGs, and FCN, a VGG with upsampling at the end.
#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

Tensor FullyConnected(NetworkBuilder& net, const std::string& number, const Tensor& input) {
  const Tensor output = net.Linear(absl::StrCat("fc", number), input, 4096);
  return net.Relu(absl::StrCat("relu", number), output);
}

void AddFullyConnectedEnd(NetworkBuilder& net, const Tensor& features) {
  Tensor x = FullyConnected(net, "6", Flattened(features));
  x = FullyConnected(net, "7", x);
  AddClassifierEnd(net, net.Linear("fc8", x, kClasses));
}

}  // namespace

void AddAlexNet(NetworkBuilder& net, std::int64_t image) {
  const Pooling pooling = {.kernel = 3, .stride = 2};
  const auto conv = [&](const std::string& number, const Tensor& input, const Convolution& shape) {
    return net.Relu(absl::StrCat("relu", number),
                    net.Conv(absl::StrCat("conv", number), input, shape));
  };
  Tensor x = net.Input({kColours, image, image});
  x = conv("1", x, {.outputs = 96, .kernel_height = 11, .kernel_width = 11, .stride = 4});
  x = net.MaxPool("pool1", x, pooling);
  x = conv("2", x, Square(256, 5));
  x = net.MaxPool("pool2", x, pooling);
  x = conv("3", x, Square(384, 3));
  x = conv("4", x, Square(384, 3));
  x = conv("5", x, Square(256, 3));
  x = net.MaxPool("pool5", x, pooling);
  AddFullyConnectedEnd(net, x);
}

VggFeatures AddVggFeatures(NetworkBuilder& net, std::int64_t image, const VggGroups& convolutions) {
  constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};
  VggFeatures features;
  Tensor x = net.Input({kColours, image, image});
  for (std::size_t group = 0; group < kChannels.size(); ++group) {
    for (int i = 1; i <= convolutions[group]; ++i) {
      const std::string number = absl::StrCat(group + 1, "_", i);
      x = net.Conv(absl::StrCat("conv", number), x, Square(kChannels[group], 3));
      x = net.Relu(absl::StrCat("relu", number), x);
    }
    x = net.MaxPool(absl::StrCat("pool", group + 1), x, {});
    features.pools[group] = x;
  }
  return features;
}

void AddVgg(NetworkBuilder& net, std::int64_t image, const VggGroups& convolutions) {
  AddFullyConnectedEnd(net, AddVggFeatures(net, image, convolutions).pools.back());
}

void AddFastBetweenSlow(NetworkBuilder& net, std::int64_t image) {
  const auto conv = [&](const std::string& number, const Tensor& input, const Convolution& shape) {
    return net.Relu(absl::StrCat("relu", number),
                    net.Conv(absl::StrCat("conv", number), input, shape));
  };
  Tensor x = conv("1", net.Input({kColours, image, image}), Square(64, 3));
  for (int i = 1; i <= 5; ++i) {
    x = conv(absl::StrCat("2_", i, "_fast"), x, Square(64, 1));
    x = conv(absl::StrCat("2_", i, "_slow"), x, Square(64, 5));
  }
  x = net.MaxPool("pool1", x, {.kernel = image, .stride = image});
  x = conv("3", x, Square(3, 1));
  AddClassifierEnd(net, net.Linear("fc1", x, 2));
}

void AddFcn8s(NetworkBuilder& net, std::int64_t image) {
  constexpr std::int64_t kSegments = 21;  // the classes of PASCAL VOC and the background
  const VggFeatures features = AddVggFeatures(net, image, {2, 2, 3, 3, 3});
  const auto score = [&](const std::string& name, const Tensor& input) {
    return net.Conv(name, input, Square(kSegments, 1));
  };
  const auto up_to = [&](const std::string& name, const Tensor& input, const Shape& size) {
    return net.TransposedConv(name, input, {.outputs = kSegments, .kernel = 4}, size);
  };
  Tensor x = features.pools[4];
  x = net.Dropout("drop6", net.Relu("relu6", net.Conv("fc6", x, Square(4096, 7))));
  x = net.Dropout("drop7", net.Relu("relu7", net.Conv("fc7", x, Square(4096, 1))));
  x = up_to("upscore2", score("score_fr", x), features.pools[3].shape);
  x = net.Add("fuse_pool4", x, score("score_pool4", features.pools[3]));
  x = up_to("upscore_pool4", x, features.pools[2].shape);
  x = net.Add("fuse_pool3", x, score("score_pool3", features.pools[2]));
  AddClassifierEnd(
      net, net.TransposedConv("upscore8", x, {.outputs = kSegments, .kernel = 16, .stride = 8},
                              {.height = image, .width = image}));
}

}  // namespace tidepool::models

// SPDX-License-Identifier: Apache-2.0
// Networks of blocks that add to their input, or concatenate with it: ResNet and DenseNet.
#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

// Convolutions before a normalisation have no bias.
Convolution Unbiased(Convolution convolution) {
  convolution.bias = false;
  return convolution;
}

Tensor NormalisedConv(NetworkBuilder& net, const std::string& block, int number,
                      const Tensor& input, const Convolution& convolution) {
  const Tensor output =
      net.Conv(absl::StrCat(block, ".conv", number), input, Unbiased(convolution));
  return net.BatchNorm(absl::StrCat(block, ".bn", number), output);
}

Tensor RectifiedConv(NetworkBuilder& net, const std::string& block, int number, const Tensor& input,
                     const Convolution& convolution) {
  return net.Relu(absl::StrCat(block, ".relu", number),
                  NormalisedConv(net, block, number, input, convolution));
}

struct ResNetBlock {
  std::string name;
  std::int64_t channels;
  std::int64_t outputs;
  std::int64_t stride;
  bool is_bottleneck;
  bool has_stride_first;
};

Tensor AddResNetBlock(NetworkBuilder& net, const Tensor& input, const ResNetBlock& block) {
  Tensor x = input;
  int last = 2;
  if (block.is_bottleneck) {
    const std::int64_t first = block.has_stride_first ? block.stride : 1;
    x = RectifiedConv(net, block.name, 1, x, Square(block.channels, 1, first));
    x = RectifiedConv(net, block.name, 2, x, Square(block.channels, 3, block.stride / first));
    x = NormalisedConv(net, block.name, last = 3, x, Square(block.outputs, 1));
  } else {
    x = RectifiedConv(net, block.name, 1, x, Square(block.channels, 3, block.stride));
    x = NormalisedConv(net, block.name, last, x, Square(block.channels, 3));
  }
  Tensor identity = input;
  if (block.stride != 1 || input.shape.channels != block.outputs) {
    identity = net.Conv(absl::StrCat(block.name, ".downsample"), input,
                        Unbiased(Square(block.outputs, 1, block.stride)));
    identity = net.BatchNorm(absl::StrCat(block.name, ".downsample.bn"), identity);
  }
  x = net.AddTo(absl::StrCat(block.name, ".add"), x, identity);
  return net.Relu(absl::StrCat(block.name, ".relu", last), x);
}

// Adds the beginning of both families: 7x7 of stride 2 and a pool of stride 2.
Tensor AddStem(NetworkBuilder& net, std::int64_t image, std::int64_t channels) {
  Tensor x = net.Input({kColours, image, image});
  x = net.Conv("conv1", x, Unbiased(Square(channels, 7, 2)));
  x = net.Relu("relu1", net.BatchNorm("bn1", x));
  return net.MaxPool("pool1", x, {.kernel = 3, .stride = 2, .padding = 1});
}

void AddAveragedEnd(NetworkBuilder& net, const Tensor& features, std::int64_t classes) {
  const Tensor x = net.GlobalAveragePool("avgpool", features);
  AddClassifierEnd(net, net.Linear("fc", x, classes));
}

struct DenseBlock {
  std::string name;
  int layers;
  std::int64_t growth;
  bool has_bottlenecks;
};

// Adds one of DenseNet's layers: `growth` more channels from all earlier features.
Tensor AddDenseLayer(NetworkBuilder& net, const std::string& name,
                     const std::vector<Tensor>& features, const DenseBlock& block) {
  Tensor x = net.Concat(absl::StrCat(name, ".concat"), features);
  x = net.Relu(absl::StrCat(name, ".relu1"), net.BatchNorm(absl::StrCat(name, ".bn1"), x));
  if (block.has_bottlenecks) {
    x = net.Conv(absl::StrCat(name, ".conv1"), x, Unbiased(Square(4 * block.growth, 1)));
    x = net.Relu(absl::StrCat(name, ".relu2"), net.BatchNorm(absl::StrCat(name, ".bn2"), x));
  }
  return net.Conv(absl::StrCat(name, ".conv2"), x, Unbiased(Square(block.growth, 3)));
}

Tensor AddDenseBlock(NetworkBuilder& net, const Tensor& input, const DenseBlock& block) {
  std::vector<Tensor> features = {input};
  for (int i = 1; i <= block.layers; ++i) {
    features.push_back(AddDenseLayer(net, absl::StrCat(block.name, ".", i), features, block));
  }
  return net.Concat(absl::StrCat(block.name, ".concat"), features);
}

// Adds the layers between two blocks: DenseNet halves the channels, DenseNet-40 keeps them.
Tensor AddTransition(NetworkBuilder& net, const std::string& name, const Tensor& input,
                     std::int64_t channels) {
  Tensor x = net.BatchNorm(absl::StrCat(name, ".bn"), input);
  x = net.Relu(absl::StrCat(name, ".relu"), x);
  x = net.Conv(absl::StrCat(name, ".conv"), x, Unbiased(Square(channels, 1)));
  return net.AveragePool(absl::StrCat(name, ".pool"), x, {});
}

}  // namespace

void AddResNet(NetworkBuilder& net, std::int64_t image, const ResNetShape& shape) {
  Tensor x = AddStem(net, image, 64);
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    const std::int64_t channels = std::int64_t{64} << stage;
    for (int i = 0; i < shape.blocks[stage]; ++i) {
      x = AddResNetBlock(net, x,
                         {.name = absl::StrCat("layer", stage + 1, ".", i),
                          .channels = channels,
                          .outputs = shape.has_bottlenecks ? 4 * channels : channels,
                          .stride = i == 0 && stage > 0 ? 2 : 1,
                          .is_bottleneck = shape.has_bottlenecks,
                          .has_stride_first = shape.has_stride_first});
    }
  }
  AddAveragedEnd(net, x, kClasses);
}

void AddDenseNet(NetworkBuilder& net, std::int64_t image, const DenseNetShape& shape) {
  Tensor x = AddStem(net, image, shape.first_channels);
  for (std::size_t block = 0; block < shape.layers.size(); ++block) {
    x = AddDenseBlock(net, x,
                      {.name = absl::StrCat("block", block + 1),
                       .layers = shape.layers[block],
                       .growth = shape.growth,
                       .has_bottlenecks = true});
    if (block + 1 < shape.layers.size()) {
      x = AddTransition(net, absl::StrCat("transition", block + 1), x, x.shape.channels / 2);
    }
  }
  AddAveragedEnd(net, net.Relu("relu5", net.BatchNorm("bn5", x)), kClasses);
}

void AddDenseNet40(NetworkBuilder& net, std::int64_t image, std::int64_t growth) {
  constexpr int kBlocks = 3;
  constexpr std::int64_t kCifarClasses = 10;
  Tensor x = net.Conv("conv1", net.Input({kColours, image, image}), Unbiased(Square(16, 3)));
  for (int block = 1; block <= kBlocks; ++block) {
    x = AddDenseBlock(net, x,
                      {.name = absl::StrCat("block", block),
                       .layers = 12,
                       .growth = growth,
                       .has_bottlenecks = false});
    if (block < kBlocks) {
      x = AddTransition(net, absl::StrCat("transition", block), x, x.shape.channels);
    }
  }
  AddAveragedEnd(net, net.Relu("relu4", net.BatchNorm("bn4", x)), kCifarClasses);
}

}  // namespace tidepool::models

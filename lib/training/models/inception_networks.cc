// SPDX-License-Identifier: Apache-2.0
// Networks of modules with parallel branches: GoogLeNet and Inception v3.
#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

// A convolution, its normalisation and its ReLU.
Tensor BasicConv(NetworkBuilder& net, const std::string& name, const Tensor& input,
                 Convolution convolution) {
  convolution.bias = false;
  const Tensor output = net.Conv(absl::StrCat(name, ".conv"), input, convolution);
  return net.Relu(absl::StrCat(name, ".relu"), net.BatchNorm(absl::StrCat(name, ".bn"), output));
}

Convolution Rectangle(std::int64_t outputs, std::int64_t height, std::int64_t width) {
  return {.outputs = outputs,
          .kernel_height = height,
          .kernel_width = width,
          .padding_height = height / 2,
          .padding_width = width / 2};
}

Convolution Unpadded(std::int64_t outputs, std::int64_t kernel, std::int64_t stride = 1) {
  return {.outputs = outputs, .kernel_height = kernel, .kernel_width = kernel, .stride = stride};
}

// Adds convolutions in sequence.
Tensor Branch(NetworkBuilder& net, const std::string& name, const Tensor& input,
              const std::vector<Convolution>& convolutions) {
  Tensor x = input;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    x = BasicConv(net, absl::StrCat(name, ".", i + 1), x, convolutions[i]);
  }
  return x;
}

void AddDroppedEnd(NetworkBuilder& net, const Tensor& features) {
  const Tensor x = net.Dropout("dropout", net.GlobalAveragePool("avgpool", features));
  AddClassifierEnd(net, net.Linear("fc", x, kClasses));
}

// Channels of one of GoogLeNet's modules: the 1x1 branch, the two 3x3 branches (each after a 1x1),
// and the pool.
struct GoogLeNetModule {
  const char* name;
  std::int64_t one;
  std::int64_t reduced_three, three;
  std::int64_t reduced_five, five;
  std::int64_t pool;
};

Tensor AddGoogLeNetModule(NetworkBuilder& net, const Tensor& input, const GoogLeNetModule& module) {
  const std::string name = module.name;
  const Tensor one = Branch(net, name + ".branch1", input, {Square(module.one, 1)});
  const Tensor three = Branch(net, name + ".branch2", input,
                              {Square(module.reduced_three, 1), Square(module.three, 3)});
  const Tensor five = Branch(net, name + ".branch3", input,
                             {Square(module.reduced_five, 1), Square(module.five, 3)});
  const Tensor pooled = net.MaxPool(name + ".pool", input, {3, 1, 1, true});
  const Tensor pool = Branch(net, name + ".branch4", pooled, {Square(module.pool, 1)});
  return net.Concat(name + ".concat", {one, three, five, pool});
}

// The modules of Inception v3 have the names of torchvision.
Tensor AddInceptionA(NetworkBuilder& net, const std::string& name, const Tensor& input,
                     std::int64_t pool_channels) {
  const Tensor one = Branch(net, name + ".1x1", input, {Square(64, 1)});
  const Tensor five = Branch(net, name + ".5x5", input, {Square(48, 1), Square(64, 5)});
  const Tensor three =
      Branch(net, name + ".3x3", input, {Square(64, 1), Square(96, 3), Square(96, 3)});
  const Tensor pooled = net.AveragePool(name + ".pool", input, {3, 1, 1});
  const Tensor pool = Branch(net, name + ".pooled", pooled, {Square(pool_channels, 1)});
  return net.Concat(name + ".concat", {one, five, three, pool});
}

Tensor AddInceptionB(NetworkBuilder& net, const std::string& name, const Tensor& input) {
  const Tensor three = Branch(net, name + ".3x3", input, {Unpadded(384, 3, 2)});
  const Tensor twice =
      Branch(net, name + ".3x3twice", input, {Square(64, 1), Square(96, 3), Unpadded(96, 3, 2)});
  const Tensor pool = net.MaxPool(name + ".pool", input, {3, 2});
  return net.Concat(name + ".concat", {three, twice, pool});
}

Tensor AddInceptionC(NetworkBuilder& net, const std::string& name, const Tensor& input,
                     std::int64_t channels) {
  const Tensor one = Branch(net, name + ".1x1", input, {Square(192, 1)});
  const Tensor seven =
      Branch(net, name + ".7x7", input,
             {Square(channels, 1), Rectangle(channels, 1, 7), Rectangle(192, 7, 1)});
  const Tensor twice =
      Branch(net, name + ".7x7twice", input,
             {Square(channels, 1), Rectangle(channels, 7, 1), Rectangle(channels, 1, 7),
              Rectangle(channels, 7, 1), Rectangle(192, 1, 7)});
  const Tensor pooled = net.AveragePool(name + ".pool", input, {3, 1, 1});
  const Tensor pool = Branch(net, name + ".pooled", pooled, {Square(192, 1)});
  return net.Concat(name + ".concat", {one, seven, twice, pool});
}

Tensor AddInceptionD(NetworkBuilder& net, const std::string& name, const Tensor& input) {
  const Tensor three = Branch(net, name + ".3x3", input, {Square(192, 1), Unpadded(320, 3, 2)});
  const Tensor seven =
      Branch(net, name + ".7x7", input,
             {Square(192, 1), Rectangle(192, 1, 7), Rectangle(192, 7, 1), Unpadded(192, 3, 2)});
  const Tensor pool = net.MaxPool(name + ".pool", input, {3, 2});
  return net.Concat(name + ".concat", {three, seven, pool});
}

// Adds a 1x3 and a 3x1 convolution of one input and concatenates them.
Tensor AddSplit(NetworkBuilder& net, const std::string& name, const Tensor& input) {
  const Tensor wide = BasicConv(net, name + ".wide", input, Rectangle(384, 1, 3));
  const Tensor high = BasicConv(net, name + ".high", input, Rectangle(384, 3, 1));
  return net.Concat(name + ".concat", {wide, high});
}

Tensor AddInceptionE(NetworkBuilder& net, const std::string& name, const Tensor& input) {
  const Tensor one = Branch(net, name + ".1x1", input, {Square(320, 1)});
  const Tensor three =
      AddSplit(net, name + ".3x3.split", Branch(net, name + ".3x3", input, {Square(384, 1)}));
  const Tensor twice =
      AddSplit(net, name + ".3x3twice.split",
               Branch(net, name + ".3x3twice", input, {Square(448, 1), Square(384, 3)}));
  const Tensor pooled = net.AveragePool(name + ".pool", input, {3, 1, 1});
  const Tensor pool = Branch(net, name + ".pooled", pooled, {Square(192, 1)});
  return net.Concat(name + ".concat", {one, three, twice, pool});
}

}  // namespace

void AddGoogLeNet(NetworkBuilder& net, std::int64_t image) {
  const Pooling pooling = {.kernel = 3, .stride = 2, .round_up = true};
  Tensor x = net.Input({kColours, image, image});
  x = BasicConv(net, "conv1", x, Square(64, 7, 2));
  x = net.MaxPool("pool1", x, pooling);
  x = BasicConv(net, "conv2", x, Square(64, 1));
  x = BasicConv(net, "conv3", x, Square(192, 3));
  x = net.MaxPool("pool2", x, pooling);
  x = AddGoogLeNetModule(net, x, {"3a", 64, 96, 128, 16, 32, 32});
  x = AddGoogLeNetModule(net, x, {"3b", 128, 128, 192, 32, 96, 64});
  x = net.MaxPool("pool3", x, pooling);
  x = AddGoogLeNetModule(net, x, {"4a", 192, 96, 208, 16, 48, 64});
  x = AddGoogLeNetModule(net, x, {"4b", 160, 112, 224, 24, 64, 64});
  x = AddGoogLeNetModule(net, x, {"4c", 128, 128, 256, 24, 64, 64});
  x = AddGoogLeNetModule(net, x, {"4d", 112, 144, 288, 32, 64, 64});
  x = AddGoogLeNetModule(net, x, {"4e", 256, 160, 320, 32, 128, 128});
  x = net.MaxPool("pool4", x, {.round_up = true});
  x = AddGoogLeNetModule(net, x, {"5a", 256, 160, 320, 32, 128, 128});
  x = AddGoogLeNetModule(net, x, {"5b", 384, 192, 384, 48, 128, 128});
  AddDroppedEnd(net, x);
}

void AddInceptionV3(NetworkBuilder& net, std::int64_t image) {
  Tensor x = net.Input({kColours, image, image});
  x = BasicConv(net, "1a", x, Unpadded(32, 3, 2));
  x = BasicConv(net, "2a", x, Unpadded(32, 3));
  x = BasicConv(net, "2b", x, Square(64, 3));
  x = net.MaxPool("pool1", x, {3, 2});
  x = BasicConv(net, "3b", x, Square(80, 1));
  x = BasicConv(net, "4a", x, Unpadded(192, 3));
  x = net.MaxPool("pool2", x, {3, 2});
  x = AddInceptionA(net, "5b", x, 32);
  x = AddInceptionA(net, "5c", x, 64);
  x = AddInceptionA(net, "5d", x, 64);
  x = AddInceptionB(net, "6a", x);
  x = AddInceptionC(net, "6b", x, 128);
  x = AddInceptionC(net, "6c", x, 160);
  x = AddInceptionC(net, "6d", x, 160);
  x = AddInceptionC(net, "6e", x, 192);
  x = AddInceptionD(net, "7a", x);
  x = AddInceptionE(net, "7b", x);
  x = AddInceptionE(net, "7c", x);
  AddDroppedEnd(net, x);
}

}  // namespace tidepool::models

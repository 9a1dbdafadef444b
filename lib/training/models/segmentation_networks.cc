// SPDX-License-Identifier: Apache-2.0
// U-Net.
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

Tensor AddConvPair(NetworkBuilder& net, const std::string& name, const Tensor& input,
                   std::int64_t channels) {
  Tensor x = input;
  for (int i = 1; i <= 2; ++i) {
    x = net.Conv(absl::StrCat(name, ".conv", i), x,
                 {.outputs = channels, .kernel_height = 3, .kernel_width = 3});
    x = net.Relu(absl::StrCat(name, ".relu", i), x);
  }
  return x;
}

// Doubles the size, and concatenates with the middle of the features before the pool.
Tensor AddUpwards(NetworkBuilder& net, const std::string& name, const Tensor& input,
                  const Tensor& before) {
  const std::int64_t channels = before.shape.channels;
  const Tensor up =
      net.TransposedConv(name + ".up", input, {.outputs = channels, .bias = true},
                         {.height = 2 * input.shape.height, .width = 2 * input.shape.width});
  return AddConvPair(net, name, net.Concat(name + ".concat", {up, before}), channels);
}

}  // namespace

void AddUnet(NetworkBuilder& net, std::int64_t image) {
  constexpr int kLevels = 4;
  constexpr std::int64_t kFirstChannels = 64;
  constexpr std::int64_t kSegments = 2;  // cell and background
  std::vector<Tensor> before;
  Tensor x = net.Input({1, image, image});
  for (int level = 1; level <= kLevels; ++level) {
    before.push_back(
        AddConvPair(net, absl::StrCat("down", level), x, kFirstChannels << (level - 1)));
    x = net.MaxPool(absl::StrCat("pool", level), before.back(), {});
  }
  x = AddConvPair(net, "bottom", x, kFirstChannels << kLevels);
  for (int level = kLevels; level >= 1; --level) {
    x = AddUpwards(net, absl::StrCat("up", level), x, before[static_cast<std::size_t>(level) - 1]);
  }
  AddClassifierEnd(net, net.Conv("score", x, Square(kSegments, 1)));
}

}  // namespace tidepool::models

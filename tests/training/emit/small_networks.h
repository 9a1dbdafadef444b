// SPDX-License-Identifier: Apache-2.0
// Networks of the families of the zoo, small enough to train on the host in a test.
#ifndef TIDEPOOL_TESTS_TRAINING_EMIT_SMALL_NETWORKS_H_
#define TIDEPOOL_TESTS_TRAINING_EMIT_SMALL_NETWORKS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/training/models/network_builder.h"
#include "lib/training/models/networks.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::testing {

inline constexpr std::int64_t kSmallBatch = 8;
inline constexpr std::int64_t kSmallClasses = 4;
inline constexpr std::int64_t kSmallImage = 8;

inline models::Convolution SmallSquare(std::int64_t outputs, std::int64_t kernel,
                                       std::int64_t stride = 1) {
  models::Convolution convolution = models::Square(outputs, kernel, stride);
  convolution.bias = false;
  return convolution;
}

// Convolutions and linear layers with biases, and max pools.
inline void AddSmallVgg(models::NetworkBuilder& net) {
  models::Tensor x = net.Input({models::kColours, kSmallImage, kSmallImage});
  x = net.Relu("relu1", net.Conv("conv1", x, models::Square(6, 3)));
  x = net.Relu("relu2", net.Conv("conv2", x, models::Square(6, 3)));
  x = net.MaxPool("pool1", x, {});
  x = net.Relu("relu3", net.Conv("conv3", x, models::Square(8, 3)));
  x = net.MaxPool("pool2", x, {});
  x = net.Tanh("tanh4", net.Linear("fc4", models::Flattened(x), 16));
  models::AddClassifierEnd(net, net.Linear("fc5", x, kSmallClasses));
}

inline models::Tensor Normalized(models::NetworkBuilder& net, const std::string& name,
                                 const models::Tensor& input, const models::Convolution& shape) {
  return net.BatchNorm("bn" + name, net.Conv("conv" + name, input, shape));
}

// A block with its input as a summand, and one with a convolution of stride 2 beside it.
inline void AddSmallResNet(models::NetworkBuilder& net) {
  models::Tensor x = net.Input({models::kColours, kSmallImage, kSmallImage});
  x = net.Relu("relu1", Normalized(net, "1", x, SmallSquare(6, 3)));
  models::Tensor y = net.Relu("relu2", Normalized(net, "2", x, SmallSquare(6, 3)));
  y = Normalized(net, "3", y, SmallSquare(6, 3));
  x = net.Relu("relu3", net.AddTo("sum3", y, x));
  const models::Tensor beside = Normalized(net, "4", x, SmallSquare(8, 1, 2));
  y = Normalized(net, "5", x, SmallSquare(8, 3, 2));
  x = net.Relu("relu5", net.AddTo("sum5", y, beside));
  x = net.GlobalAveragePool("pool", x);
  models::AddClassifierEnd(net, net.Linear("fc", x, kSmallClasses));
}

// Each layer reads all features before it.
inline void AddSmallDenseNet(models::NetworkBuilder& net) {
  models::Tensor x = net.Input({models::kColours, kSmallImage, kSmallImage});
  std::vector<models::Tensor> features = {net.Conv("conv0", x, SmallSquare(6, 3))};
  for (const std::string name : {"1", "2"}) {
    x = net.Concat("concat" + name, features);
    x = net.Relu("relu" + name, net.BatchNorm("bn" + name, x));
    features.push_back(net.Conv("conv" + name, x, SmallSquare(3, 3)));
  }
  x = net.Concat("concat3", features);
  x = net.AveragePool("pool3", net.Conv("conv3", x, SmallSquare(6, 1)), {});
  models::AddClassifierEnd(net, net.Linear("fc", models::Flattened(x), kSmallClasses));
}

// Two branches, a pool with windows beyond the edge, local response normalisation and dropout.
inline void AddSmallInception(models::NetworkBuilder& net) {
  models::Tensor x = net.Input({models::kColours, kSmallImage, kSmallImage});
  x = net.Relu("relu1", net.Conv("conv1", x, models::Square(6, 3)));
  x = net.LocalResponseNorm("norm1", x);
  x = net.MaxPool("pool1", x, {.kernel = 3, .stride = 2, .round_up = true});
  const models::Tensor left = net.Relu("relu2", net.Conv("conv2", x, models::Square(4, 1)));
  const models::Tensor right = net.Relu("relu3", net.Conv("conv3", x, models::Square(6, 3)));
  x = net.AveragePool("pool", net.Concat("concat", {left, right}), {});
  x = net.DropoutCopy("drop1", models::Flattened(x));
  x = net.Dropout("drop2", net.Relu("relu4", net.Linear("fc4", x, 64)));
  models::AddClassifierEnd(net, net.Linear("fc5", x, kSmallClasses));
}

// A transposed convolution with a row and a column beyond its windows, beside a larger image that
// is cropped. Each pixel has a class.
inline void AddSmallUnet(models::NetworkBuilder& net) {
  models::Tensor x = net.Input({models::kColours, kSmallImage, kSmallImage});
  const models::Tensor before = net.Relu("relu1", net.Conv("conv1", x, models::Square(8, 3)));
  x = net.MaxPool("pool1", before, {});
  x = net.Relu("relu2",
               net.Conv("conv2", x, {.outputs = 16, .kernel_height = 2, .kernel_width = 2}));
  const models::Tensor up =
      net.TransposedConv("up3", x, {.outputs = 8, .bias = true},
                         {.height = kSmallImage - 1, .width = kSmallImage - 1});
  x = net.Relu("relu3",
               net.Conv("conv3", net.Concat("concat3", {up, before}), models::Square(6, 3)));
  models::AddClassifierEnd(net, net.Conv("score", x, models::Square(kSmallClasses, 1)));
}

// Returns the network at all batches up to kSmallBatch.
inline GraphFamily SmallFamily(void (*add)(models::NetworkBuilder& net),
                               ModelOptions options = {}) {
  options.gpu = "k40";
  std::vector<TaskGraph> graphs;
  for (std::int64_t batch = 1; batch <= kSmallBatch; ++batch) {
    options.batch = batch;
    models::NetworkBuilder builder("small", options, KnownGpus().front());
    add(builder);
    absl::StatusOr<models::Network> network = std::move(builder).Finish();
    EXPECT_TRUE(network.ok()) << network.status();
    if (network.ok()) graphs.push_back(std::move(network->graph));
  }
  absl::StatusOr<GraphFamily> family = MakeFamily(graphs);
  EXPECT_TRUE(family.ok()) << family.status();
  return family.ok() ? *std::move(family) : GraphFamily();
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EMIT_SMALL_NETWORKS_H_

// SPDX-License-Identifier: Apache-2.0
// The networks of moDNN (Chen et al., TPDS 2019, section 7), with their batches.
#ifndef TIDEPOOL_TESTS_SUPPORT_MODNN_NETWORKS_H_
#define TIDEPOOL_TESTS_SUPPORT_MODNN_NETWORKS_H_

#include <array>
#include <cstdint>

namespace tidepool::testing {

struct ModnnNetwork {
  const char* name;
  std::int64_t batch;
  std::int64_t image;  // the side of an input
};

inline constexpr std::array<ModnnNetwork, 6> kModnnNetworks = {{{"vgg-16", 256, 224},
                                                                {"vgg-19", 256, 224},
                                                                {"vgg-101", 128, 224},
                                                                {"resnet-34", 256, 224},
                                                                {"resnet-152", 256, 224},
                                                                {"fcn-8s", 128, 224}}};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_MODNN_NETWORKS_H_

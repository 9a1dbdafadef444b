// SPDX-License-Identifier: Apache-2.0
// Runs the tests of this folder on the stand-in: two small devices with small granules. Built
// without this file they run on a GPU.
#include <gtest/gtest.h>

#include "tests/memory/device/cuda/stand_in.h"

namespace tidepool {
namespace {

class StandIn : public ::testing::Environment {
 public:
  void SetUp() override { ConfigureStandIn({}); }
};

const ::testing::Environment* const registered =
    ::testing::AddGlobalTestEnvironment(new StandIn());  // gtest deletes it

}  // namespace
}  // namespace tidepool

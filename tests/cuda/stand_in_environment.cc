// The tests of this folder run on the stand-in: two devices, small and with small granules. Built
// without this file they run on a GPU.
#include <gtest/gtest.h>

#include "tests/cuda/stand_in.h"

namespace tidepool {
namespace {

class StandIn : public ::testing::Environment {
 public:
  void SetUp() override { ConfigureStandIn({}); }
};

const ::testing::Environment* const registered =
    ::testing::AddGlobalTestEnvironment(new StandIn());  // which gtest deletes

}  // namespace
}  // namespace tidepool

// What the stand-in is like: as a test says, or else as the environment does.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_SETTINGS_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_SETTINGS_H_

#include "tests/support/cudart_host/call_counts.h"
#include "tests/support/cudart_host/control.h"
#include "tidepool/host_device.h"

namespace tidepool::cudart_host {

// A variable that cannot be understood is reported on stderr and ignored.
CudartHostConfig ConfigOfEnvironment();
// Orders the faults of CUDART_HOST_FAIL.
void OrderFaultsOfEnvironment(CallCounts& counts);

HostDeviceOptions DeviceOptions(const CudartHostConfig& config);
bool IsValid(const CudartHostConfig& config);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_SETTINGS_H_

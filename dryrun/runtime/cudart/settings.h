// SPDX-License-Identifier: Apache-2.0
// The configuration of the stand-in: set by a test, or else by the environment.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_SETTINGS_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_SETTINGS_H_

#include <vector>

#include "dryrun/runtime/cudart/call_counts.h"
#include "dryrun/runtime/cudart/control.h"
#include "tidepool/host_device.h"

namespace tidepool::cudart_host {

// Reads the environment. Malformed variables are reported on stderr and ignored.
CudartHostConfig ConfigOfEnvironment();
// Returns the numbers in the machine of the devices that the program sees, of `devices` in all.
// CUDA_VISIBLE_DEVICES lists them, up to the first one that does not exist.
std::vector<int> VisibleDevices(int devices);
// Returns the number in the machine of a device that the program sees.
int NumberInMachine(int ordinal);
// Orders the faults that CUDART_HOST_FAIL lists.
void OrderFaultsOfEnvironment(CallCounts& counts);

HostDeviceOptions DeviceOptions(const CudartHostConfig& config);
bool IsValid(const CudartHostConfig& config);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_SETTINGS_H_

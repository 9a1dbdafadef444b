// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/c_device.h"

namespace tidepool::c_api {

absl::StatusOr<std::unique_ptr<CDevice>> MakeCDevice(const bindings::Settings& settings) {
  using bindings::DeviceKind;
  const bool is_cuda = settings.device == DeviceKind::kCuda ||
                       (settings.device == DeviceKind::kAny && HasCudaDevice());
  return is_cuda ? MakeCudaSide(settings) : MakeHostSide(settings);
}

}  // namespace tidepool::c_api

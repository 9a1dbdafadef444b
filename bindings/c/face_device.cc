// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/face_device.h"

namespace tidepool::c_face {

absl::StatusOr<std::unique_ptr<FaceDevice>> MakeFaceDevice(const bindings::Settings& settings) {
  using bindings::DeviceKind;
  const bool is_cuda = settings.device == DeviceKind::kCuda ||
                       (settings.device == DeviceKind::kAny && HasCudaDevice());
  return is_cuda ? MakeCudaSide(settings) : MakeHostSide(settings);
}

}  // namespace tidepool::c_face

// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA devices, for builds without the CUDA Toolkit.
#include "bindings/c/c_device.h"

namespace tidepool::c_api {

bool HasCudaDevice() { return false; }

absl::StatusOr<std::unique_ptr<CDevice>> MakeCudaSide(const bindings::Settings& /*settings*/) {
  return absl::UnavailableError(
      "this library was built without the CUDA Toolkit: use option device=host, or a library that "
      "was built with it");
}

}  // namespace tidepool::c_api

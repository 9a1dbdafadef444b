// SPDX-License-Identifier: Apache-2.0
// The driver's functions for virtual memory, contexts and kernels. They are found at run time, so
// no driver is linked.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_H_

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/device/cuda/call_text.h"
#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {

struct Driver {
  // Finds the functions. Unimplemented if the driver lacks one of them.
  static absl::StatusOr<Driver> Load();

  // Returns the error of a call, as cuda::Check does for the runtime.
  template <typename... Arguments>
  absl::Status Check(CUresult result, const char* function, const Arguments&... arguments) const {
    if (result == CUDA_SUCCESS) return absl::OkStatus();
    return StatusOf(result, CallText(function, arguments...));
  }
  absl::Status StatusOf(CUresult result, const std::string& call) const;

  PFN_cuGetErrorName_v6000 get_error_name = nullptr;
  PFN_cuGetErrorString_v6000 get_error_string = nullptr;
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetAttribute_v2000 device_get_attribute = nullptr;
  PFN_cuMemGetAllocationGranularity_v10020 get_granularity = nullptr;
  PFN_cuMemAddressReserve_v10020 address_reserve = nullptr;
  PFN_cuMemAddressFree_v10020 address_free = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
};

// The functions that record all work of a context, since version 12.5 of the driver.
struct ContextDriver {
  // Unimplemented if the driver lacks one of them.
  static absl::StatusOr<ContextDriver> Load();

  PFN_cuCtxGetCurrent_v4000 get_current = nullptr;
  CUresult (*record_event)(CUcontext context, CUevent event) = nullptr;
};

// The functions that change the context of a thread.
struct SwitchDriver {
  // Unimplemented if the driver lacks one of them.
  static absl::StatusOr<SwitchDriver> Load();

  // Returns the error of a call. The runtime knows the names of the driver's errors.
  template <typename... Arguments>
  absl::Status Check(CUresult result, const char* function, const Arguments&... arguments) const {
    return cuda::Check(static_cast<cudaError_t>(result), function, arguments...);
  }

  PFN_cuCtxGetCurrent_v4000 get_current = nullptr;
  PFN_cuCtxSetCurrent_v4000 set_current = nullptr;
  PFN_cuDevicePrimaryCtxGetState_v7000 get_state = nullptr;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain = nullptr;
};

// The functions that load and launch kernels.
struct KernelDriver {
  // Unimplemented if the driver lacks one of them.
  static absl::StatusOr<KernelDriver> Load();

  PFN_cuCtxGetCurrent_v4000 get_current = nullptr;
  PFN_cuModuleLoadData_v2000 load_data = nullptr;
  PFN_cuModuleUnload_v2000 unload = nullptr;
  PFN_cuModuleGetFunction_v2000 get_function = nullptr;
  PFN_cuLaunchKernel_v4000 launch = nullptr;
};

// Returns the calling thread's context, which calls of the driver need. The runtime binds that of
// the current device to a thread in its first call that needs one; so does this function.
absl::StatusOr<CUcontext> BindContext(PFN_cuCtxGetCurrent_v4000 get_current);

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_H_

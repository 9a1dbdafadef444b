// SPDX-License-Identifier: Apache-2.0
// Finds the functions of the driver through the runtime.
#include "lib/memory/device/cuda/driver.h"

#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

// Drivers of the first version have all functions but those of ContextDriver.
constexpr unsigned kDriverVersion = 12000;
constexpr unsigned kContextDriverVersion = 12050;

cudaError_t Find(const char* name, [[maybe_unused]] unsigned version, void** entry,
                 cudaDriverEntryPointQueryResult* result) {
#if CUDART_VERSION >= 12050
  return cudaGetDriverEntryPointByVersion(name, entry, version, cudaEnableDefault, result);
#else
  return cudaGetDriverEntryPoint(name, entry, cudaEnableDefault, result);
#endif
}

template <typename Function>
absl::Status Find(const char* name, unsigned version, Function& function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  absl::Status status =
      cuda::Check(Find(name, version, &entry, &result), "cudaGetDriverEntryPoint", name);
  if (!status.ok()) return status;
  if (result != cudaDriverEntryPointSuccess || entry == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the driver has no ", name));
  }
  function = reinterpret_cast<Function>(entry);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Driver> Driver::Load() {
  Driver driver;
  absl::Status status;
  // Keeps the first error.
  const auto find = [&](const char* name, auto& function) {
    if (status.ok()) status = Find(name, kDriverVersion, function);
  };
  find("cuGetErrorName", driver.get_error_name);
  find("cuGetErrorString", driver.get_error_string);
  find("cuDeviceGet", driver.device_get);
  find("cuDeviceGetAttribute", driver.device_get_attribute);
  find("cuMemGetAllocationGranularity", driver.get_granularity);
  find("cuMemAddressReserve", driver.address_reserve);
  find("cuMemAddressFree", driver.address_free);
  find("cuMemCreate", driver.create);
  find("cuMemRelease", driver.release);
  find("cuMemMap", driver.map);
  find("cuMemUnmap", driver.unmap);
  find("cuMemSetAccess", driver.set_access);
  if (!status.ok()) return status;
  return driver;
}

absl::StatusOr<ContextDriver> ContextDriver::Load() {
  ContextDriver driver;
  absl::Status status = Find("cuCtxGetCurrent", kDriverVersion, driver.get_current);
  if (status.ok()) status = Find("cuCtxRecordEvent", kContextDriverVersion, driver.record_event);
  if (!status.ok()) return status;
  return driver;
}

absl::StatusOr<SwitchDriver> SwitchDriver::Load() {
  SwitchDriver driver;
  PFN_cuInit_v2000 initialize = nullptr;
  absl::Status status = Find("cuInit", kDriverVersion, initialize);
  if (status.ok()) status = Find("cuCtxGetCurrent", kDriverVersion, driver.get_current);
  if (status.ok()) status = Find("cuCtxSetCurrent", kDriverVersion, driver.set_current);
  if (status.ok()) status = Find("cuDevicePrimaryCtxGetState", kDriverVersion, driver.get_state);
  if (status.ok()) status = Find("cuDevicePrimaryCtxRetain", kDriverVersion, driver.retain);
  // The runtime may not have done so: it asks for the current device without it.
  if (status.ok()) status = driver.Check(initialize(0), "cuInit", 0);
  if (!status.ok()) return status;
  return driver;
}

absl::StatusOr<KernelDriver> KernelDriver::Load() {
  KernelDriver driver;
  absl::Status status = Find("cuCtxGetCurrent", kDriverVersion, driver.get_current);
  if (status.ok()) status = Find("cuModuleLoadData", kDriverVersion, driver.load_data);
  if (status.ok()) status = Find("cuModuleUnload", kDriverVersion, driver.unload);
  if (status.ok()) status = Find("cuModuleGetFunction", kDriverVersion, driver.get_function);
  if (status.ok()) status = Find("cuLaunchKernel", kDriverVersion, driver.launch);
  if (!status.ok()) return status;
  return driver;
}

absl::StatusOr<CUcontext> BindContext(PFN_cuCtxGetCurrent_v4000 get_current) {
  CUcontext context = nullptr;
  const auto ask = [&] {
    return Check(static_cast<cudaError_t>(get_current(&context)), "cuCtxGetCurrent");
  };
  absl::Status status = ask();
  if (status.ok() && context == nullptr) {
    int device = 0;
    status = Check(cudaGetDevice(&device), "cudaGetDevice");
    if (status.ok()) status = Check(cudaSetDevice(device), "cudaSetDevice", device);
    if (status.ok()) status = ask();
  }
  if (!status.ok()) return status;
  return context;
}

absl::Status Driver::StatusOf(CUresult result, const std::string& call) const {
  const char* name = nullptr;
  const char* words = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &words);
  return StatusOfDriver(result, name == nullptr ? absl::StrCat("error ", result) : name,
                        words == nullptr ? "no description" : words, call);
}

}  // namespace tidepool::cuda

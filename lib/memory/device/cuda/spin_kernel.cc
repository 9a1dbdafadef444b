// SPDX-License-Identifier: Apache-2.0
// The kernel is text that the driver compiles, so the build needs no compiler for GPUs.
#include "lib/memory/device/cuda/spin_kernel.h"

#include "lib/memory/device/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

constexpr const char* kName = "tidepool_spend_time";
constexpr const char* kText = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry tidepool_spend_time(.param .u64 nanoseconds)
{
  .reg .u64 %end, %now, %time;
  .reg .pred %early;
  ld.param.u64 %time, [nanoseconds];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %now, %time;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;
  ret;
}
)";

absl::Status CheckResult(CUresult result, const char* function, const char* argument) {
  return Check(static_cast<cudaError_t>(result), function, argument);
}

}  // namespace

SpinKernel::~SpinKernel() {
  if (loaded_.has_value()) Unload(*loaded_);
}

absl::Status SpinKernel::Launch(std::int64_t nanoseconds, cudaStream_t stream) {
  const absl::StatusOr<Loaded> loaded = Get();
  if (!loaded.ok()) return loaded.status();
  const absl::StatusOr<CUcontext> context = BindContext(loaded->driver.get_current);
  if (!context.ok()) return context.status();
  auto time = static_cast<std::uint64_t>(nanoseconds);
  void* arguments[] = {&time};
  return CheckResult(
      loaded->driver.launch(loaded->function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
      "cuLaunchKernel", kName);
}

absl::StatusOr<SpinKernel::Loaded> SpinKernel::Get() {
  const locks::MutexLock lock(&mutex_);
  if (!loaded_.has_value()) {
    absl::StatusOr<Loaded> loaded = Load();
    if (!loaded.ok()) return loaded;
    loaded_ = *loaded;
  }
  return *loaded_;
}

absl::StatusOr<SpinKernel::Loaded> SpinKernel::Load() {
  const absl::StatusOr<KernelDriver> driver = KernelDriver::Load();
  if (!driver.ok()) return driver.status();
  const absl::StatusOr<CUcontext> context = BindContext(driver->get_current);
  if (!context.ok()) return context.status();
  Loaded loaded = {.driver = *driver};
  absl::Status status =
      CheckResult(driver->load_data(&loaded.module, kText), "cuModuleLoadData", kName);
  if (!status.ok()) return status;
  status = CheckResult(driver->get_function(&loaded.function, loaded.module, kName),
                       "cuModuleGetFunction", kName);
  if (status.ok()) return loaded;
  Unload(loaded);
  return status;
}

void SpinKernel::Unload(const Loaded& loaded) {
  TryTwice([&] { return static_cast<cudaError_t>(loaded.driver.unload(loaded.module)); });
}

}  // namespace tidepool::cuda

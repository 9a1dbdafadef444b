// SPDX-License-Identifier: Apache-2.0
// A CUDA device: a handle is a cudaStream_t.
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/c/c_device.h"
#include "bindings/support/cuda_end.h"
#include "tidepool/cuda_device.h"
#include "tidepool/nvtx_observer.h"

namespace tidepool::c_api {
namespace {

class CudaSide final : public CDevice {
 public:
  CudaSide(std::unique_ptr<CudaDevice> device, StreamPromise promise)
      : device_(std::move(device)), promise_(promise) {}

  Device& device() override { return *device_; }
  int ordinal() const override { return device_->ordinal(); }
  // Numbers of devices depend on CUDA_VISIBLE_DEVICES.
  absl::StatusOr<std::string> NameForProcesses() const override {
    std::array<char, 32> text = {};
    const cudaError_t error = cudaDeviceGetPCIBusId(text.data(), text.size(), ordinal());
    if (error == cudaSuccess) return std::string(text.data());
    static_cast<void>(cudaGetLastError());
    return absl::InternalError(absl::StrCat("cudaDeviceGetPCIBusId: ", cudaGetErrorName(error)));
  }
  std::int64_t FreeBytes() const override { return device_->FreeBytes().value_or(0); }
  std::string owner() const override { return "CUDA"; }

  absl::StatusOr<Stream> NameOf(void* native) override {
    return device_->WrapStream(static_cast<cudaStream_t>(native), promise_);
  }
  absl::StatusOr<Stream> NameOfEnding(void* native) override {
    return device_->WrapStream(static_cast<cudaStream_t>(native), StreamPromise::kNone);
  }
  bool IsOfThread(const void* native) const override { return native == cudaStreamPerThread; }
  absl::StatusOr<void*> NativeOf(Stream stream) const override {
    const absl::StatusOr<cudaStream_t> native = device_->NativeStream(stream);
    if (!native.ok()) return native.status();
    return static_cast<void*>(*native);
  }
  absl::Status Unwrap(Stream stream) override { return device_->UnwrapStream(stream); }
  void NoteCapture(bool begins) override { device_->NoteCapture(begins); }
  absl::StatusOr<bool> IsCapturing(void* native) const override {
    auto status = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(static_cast<cudaStream_t>(native), &status);
    if (error == cudaSuccess) return status != cudaStreamCaptureStatusNone;
    static_cast<void>(cudaGetLastError());
    return absl::InternalError(absl::StrCat("cudaStreamIsCapturing: ", cudaGetErrorName(error)));
  }
#if CUDART_VERSION >= 12000
  std::uint64_t NumberOf(void* native) const override {
    unsigned long long number = 0;
    if (cudaStreamGetId(static_cast<cudaStream_t>(native), &number) == cudaSuccess) return number;
    static_cast<void>(cudaGetLastError());
    return 0;
  }
#else
  std::uint64_t NumberOf(void* /*native*/) const override { return 0; }
#endif
  absl::Status InRelaxedCapture(absl::FunctionRef<absl::Status()> call) const override {
    auto mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    absl::Status status = call();
    cudaThreadExchangeStreamCaptureMode(&mode);
    return status;
  }
  absl::Status ForgetStreams() override {
    // The first call reports an error that the program left in CUDA.
    if (device_->ForgetWrappedStreams().ok()) return absl::OkStatus();
    return device_->ForgetWrappedStreams();
  }
  std::unique_ptr<PoolObserver> MakeToolObserver(PoolObserver* next) const override {
    return MakeNvtxObserver(*device_, next);
  }
  bool HasLost(const Pool& pool) const override {
    return bindings::HasCudaEnded() || bindings::WasDeviceReset(pool);
  }

 private:
  const std::unique_ptr<CudaDevice> device_;
  const StreamPromise promise_;
};

// Returns the number of devices; 0 when CUDA cannot be used.
int CountDevices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

int CurrentDevice() {
  int current = 0;
  if (cudaGetDevice(&current) == cudaSuccess) return current;
  static_cast<void>(cudaGetLastError());
  return 0;
}

}  // namespace

bool HasCudaDevice() { return CountDevices() > 0; }

absl::StatusOr<std::unique_ptr<CDevice>> MakeCudaSide(const bindings::Settings& settings) {
  CudaDeviceOptions options;
  options.ordinal = settings.ordinal.has_value() ? *settings.ordinal : CurrentDevice();
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create(options);
  if (!device.ok()) return device.status();
  return std::make_unique<CudaSide>(
      *std::move(device), settings.streams_stay ? StreamPromise::kUnwraps : StreamPromise::kNone);
}

}  // namespace tidepool::c_api

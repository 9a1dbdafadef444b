// SPDX-License-Identifier: Apache-2.0
// Counts references, and ends each manager in the way that the state of CUDA allows.
#include "bindings/cnmem/context.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/support/cuda_end.h"

namespace tidepool::cnmem {
namespace {

// Keeps a manager after its device was reset. Destroying its handles and addresses would be wrong:
// CUDA may have given them to other objects by now.
void KeepForever(std::unique_ptr<DeviceManager> manager) {
  static auto& kept = *new std::vector<std::unique_ptr<DeviceManager>>();
  manager->Report();
  kept.push_back(std::move(manager));
}

}  // namespace

// Programs may free memory until their very end: constant initialisation makes the mutex usable
// even after its destructor.
constinit locks::Mutex Context::mutex_;
constinit std::atomic<Context*> Context::current_ = nullptr;

absl::Status Context::Begin(const std::vector<DeviceRequest>& requests, const Settings& settings) {
  const locks::MutexLock lock(&mutex_);
  if (Current() != nullptr) {
    return absl::InvalidArgumentError(
        "the library is initialized already: call cnmemFinalize before the next cnmemInit");
  }
  auto context = std::make_unique<Context>();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count == 1) context->only_ordinal_ = 0;
  static_cast<void>(cudaGetLastError());
  context->prints_errors_ = settings.errors;
  for (const DeviceRequest& request : requests) {
    absl::StatusOr<std::unique_ptr<DeviceManager>> manager =
        DeviceManager::Create(request, settings);
    if (!manager.ok()) return manager.status();
    const auto ordinal = static_cast<std::size_t>(request.ordinal);
    if (ordinal >= context->by_ordinal_.size()) context->by_ordinal_.resize(ordinal + 1);
    context->by_ordinal_[ordinal] = *std::move(manager);
  }
  current_.store(context.release(), std::memory_order_release);
  return absl::OkStatus();
}

bool Context::Retain() {
  const locks::MutexLock lock(&mutex_);
  Context* const context = Current();
  if (context == nullptr) return false;
  ++context->references_;
  return true;
}

bool Context::Release(absl::Status* status) {
  const locks::MutexLock lock(&mutex_);
  Context* const context = Current();
  if (context == nullptr) return false;
  if (--context->references_ > 0) return true;
  current_.store(nullptr, std::memory_order_release);
  if (!context->IsOfThisProcess()) return true;
  if (bindings::HasCudaEnded()) {
    context->Report();
    return true;
  }
  const std::unique_ptr<Context> last(context);
  for (auto& manager : last->by_ordinal_) {
    if (manager == nullptr) continue;
    if (manager->WasReset()) {
      KeepForever(std::move(manager));
    } else {
      status->Update(manager->Close());
    }
  }
  return true;
}

absl::StatusOr<DeviceManager*> Context::CurrentDevice() const {
  int ordinal = only_ordinal_;
  if (ordinal < 0) {
    const cudaError_t error = cudaGetDevice(&ordinal);
    if (error != cudaSuccess) [[unlikely]] {
      static_cast<void>(cudaGetLastError());
      return absl::UnavailableError(absl::StrCat("cudaGetDevice: ", cudaGetErrorString(error)));
    }
  }
  const auto index = static_cast<std::size_t>(ordinal);
  if (index < by_ordinal_.size() && by_ordinal_[index] != nullptr) [[likely]] {
    return by_ordinal_[index].get();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device ", ordinal, " is current, expected a device that was given to cnmemInit"));
}

void Context::Report() const {
  for (const auto& manager : by_ordinal_) {
    if (manager != nullptr) manager->Report();
  }
}

void Context::ReportAtExit() {
  const Context* const context = Current();
  if (context != nullptr && context->IsOfThisProcess()) context->Report();
}

}  // namespace tidepool::cnmem

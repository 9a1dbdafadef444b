// SPDX-License-Identifier: Apache-2.0
// The exported functions: they check arguments and nothing else, in CNMeM's order, because programs
// can observe the order.
#include "bindings/cnmem/include/cnmem.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bindings/cnmem/context.h"
#include "bindings/cnmem/status.h"
#include "tidepool/log.h"

using tidepool::cnmem::Context;
using tidepool::cnmem::DeviceManager;
using tidepool::cnmem::DeviceRequest;

namespace {

[[gnu::noinline]] cnmemStatus_t Failed(const char* function, cnmemStatus_t code, const char* text,
                                       bool prints) {
  if (prints) {
    tidepool::Log(tidepool::LogLevel::kError,
                  absl::StrCat(function, ": ", cnmemGetErrorString(code), ": ", text));
  }
  return code;
}

cnmemStatus_t Failed(const char* function, const absl::Status& status, bool prints) {
  return Failed(function, tidepool::cnmem::CodeOf(status), std::string(status.message()).c_str(),
                prints);
}

cnmemStatus_t NotInitialized(const char* function) {
  return Failed(function, CNMEM_STATUS_NOT_INITIALIZED,
                "the library is not initialized: call cnmemInit first",
                tidepool::cnmem::ErrorsOfEnvironment());
}

cnmemStatus_t Invalid(const char* function, const char* text, const Context& context) {
  return Failed(function, CNMEM_STATUS_INVALID_ARGUMENT, text, context.prints_errors());
}

// Runs `call`. Exceptions must not leave a C function, so they become error codes.
template <typename Call>
cnmemStatus_t Guarded(const char* function, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Failed(function, CNMEM_STATUS_OUT_OF_MEMORY, "the host has no memory left",
                  tidepool::cnmem::ErrorsOfEnvironment());
  } catch (...) {
    return Failed(function, CNMEM_STATUS_UNKNOWN_ERROR, "unexpected exception",
                  tidepool::cnmem::ErrorsOfEnvironment());
  }
}

// Calls `use` with the manager of the current device.
template <typename Use>
cnmemStatus_t OnCurrentDevice(const Context& context, const char* function, Use use) {
  return Guarded(function, [&] {
    const absl::StatusOr<DeviceManager*> device = context.CurrentDevice();
    const absl::Status status = device.ok() ? use(**device) : device.status();
    if (status.ok()) [[likely]]
      return CNMEM_STATUS_SUCCESS;
    return Failed(function, status, context.prints_errors());
  });
}

cnmemStatus_t Release(const char* function) {
  return Guarded(function, [&] {
    absl::Status status;
    if (!Context::Release(&status)) return NotInitialized(function);
    // Lost memory is always reported, even if errors are not printed.
    return status.ok() ? CNMEM_STATUS_SUCCESS : Failed(function, status, true);
  });
}

absl::Status AddStreams(const cnmemDevice_t& device, DeviceRequest& request) {
  if (device.numStreams < 0 || (device.numStreams > 0 && device.streams == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("numStreams is ", device.numStreams,
                     device.streams == nullptr ? " and streams is null" : "",
                     ", expected an array of at least 0 streams"));
  }
  for (int i = 0; i < device.numStreams; ++i) {
    request.streams.push_back(
        {device.streams[i], device.streamSizes == nullptr ? 0 : device.streamSizes[i]});
  }
  return absl::OkStatus();
}

// Collects the requests for each device. A device that is listed twice gets the sum of its sizes.
absl::StatusOr<std::vector<DeviceRequest>> Requests(int count, const cnmemDevice_t* devices,
                                                    unsigned flags) {
  if (count <= 0 || devices == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("numDevices is ", count,
                                                   devices == nullptr ? " and devices is null" : "",
                                                   ", expected an array of at least 1 device"));
  }
  std::vector<DeviceRequest> requests;
  for (int i = 0; i < count; ++i) {
    const int ordinal = devices[i].device;
    auto found = std::find_if(requests.begin(), requests.end(), [&](const DeviceRequest& request) {
      return request.ordinal == ordinal;
    });
    if (found == requests.end()) {
      requests.push_back({.ordinal = ordinal, .sizes = {}, .streams = {}, .flags = flags});
      found = requests.end() - 1;
    }
    found->sizes.push_back(devices[i].size);
    if (absl::Status status = AddStreams(devices[i], *found); !status.ok()) return status;
  }
  return requests;
}

}  // namespace

extern "C" {

cnmemStatus_t cnmemInit(int numDevices, const cnmemDevice_t* devices, unsigned flags) {
  return Guarded("cnmemInit", [&] {
    const tidepool::cnmem::Settings settings = tidepool::cnmem::ReadSettings();
    const absl::StatusOr<std::vector<DeviceRequest>> requests =
        Requests(numDevices, devices, flags);
    const absl::Status status =
        requests.ok() ? Context::Begin(*requests, settings) : requests.status();
    return status.ok() ? CNMEM_STATUS_SUCCESS : Failed("cnmemInit", status, settings.errors);
  });
}

cnmemStatus_t cnmemFinalize(void) { return Release(__func__); }

cnmemStatus_t cnmemRetain(void) {
  return Context::Retain() ? CNMEM_STATUS_SUCCESS : NotInitialized(__func__);
}

cnmemStatus_t cnmemRelease(void) { return Release(__func__); }

cnmemStatus_t cnmemRegisterStream(cudaStream_t stream) {
  const Context* const context = Context::Current();
  if (context == nullptr) return NotInitialized(__func__);
  return OnCurrentDevice(*context, __func__,
                         [&](DeviceManager& device) { return device.Register(stream); });
}

cnmemStatus_t cnmemMalloc(void** ptr, size_t size, cudaStream_t stream) {
  const Context* const context = Context::Current();
  if (context == nullptr) return NotInitialized(__func__);
  if (size == 0) {
    if (ptr != nullptr) *ptr = nullptr;
    return CNMEM_STATUS_SUCCESS;
  }
  if (ptr == nullptr) return Invalid(__func__, "ptr is null, expected an address", *context);
  return OnCurrentDevice(*context, __func__, [&](DeviceManager& device) {
    const absl::StatusOr<void*> address = device.Allocate(size, stream);
    if (address.ok()) [[likely]] {
      *ptr = *address;
      return absl::OkStatus();
    }
    if (tidepool::cnmem::CodeOf(address.status()) == CNMEM_STATUS_OUT_OF_MEMORY) *ptr = nullptr;
    return address.status();
  });
}

cnmemStatus_t cnmemFree(void* ptr, cudaStream_t stream) {
  const Context* const context = Context::Current();
  if (context == nullptr) return NotInitialized(__func__);
  if (ptr == nullptr) return CNMEM_STATUS_SUCCESS;
  return OnCurrentDevice(*context, __func__,
                         [&](DeviceManager& device) { return device.Free(ptr, stream); });
}

cnmemStatus_t cnmemMemGetInfo(size_t* freeMem, size_t* totalMem, cudaStream_t stream) {
  const Context* const context = Context::Current();
  if (context == nullptr) return NotInitialized(__func__);
  if (freeMem == nullptr)
    return Invalid(__func__, "freeMem is null, expected an address", *context);
  if (totalMem == nullptr)
    return Invalid(__func__, "totalMem is null, expected an address", *context);
  return OnCurrentDevice(*context, __func__, [&](const DeviceManager& device) {
    const absl::StatusOr<tidepool::cnmem::MemoryState> state = device.State(stream);
    if (!state.ok()) return state.status();
    *freeMem = static_cast<size_t>(state->free_bytes);
    *totalMem = static_cast<size_t>(state->total_bytes);
    return absl::OkStatus();
  });
}

cnmemStatus_t cnmemPrintMemoryState(FILE* file, cudaStream_t stream) {
  const Context* const context = Context::Current();
  if (context == nullptr) return NotInitialized(__func__);
  if (file == nullptr) return Invalid(__func__, "file is null, expected an open one", *context);
  return OnCurrentDevice(*context, __func__, [&](const DeviceManager& device) {
    const absl::StatusOr<tidepool::cnmem::MemoryState> state = device.State(stream);
    if (state.ok()) std::fputs(tidepool::cnmem::ToText(*state).c_str(), file);
    return state.status();
  });
}

const char* cnmemGetErrorString(cnmemStatus_t status) {
  switch (status) {
    case CNMEM_STATUS_SUCCESS:
      return "CNMEM_STATUS_SUCCESS";
    case CNMEM_STATUS_CUDA_ERROR:
      return "CNMEM_STATUS_CUDA_ERROR";
    case CNMEM_STATUS_INVALID_ARGUMENT:
      return "CNMEM_STATUS_INVALID_ARGUMENT";
    case CNMEM_STATUS_NOT_INITIALIZED:
      return "CNMEM_STATUS_NOT_INITIALIZED";
    case CNMEM_STATUS_OUT_OF_MEMORY:
      return "CNMEM_STATUS_OUT_OF_MEMORY";
    case CNMEM_STATUS_UNKNOWN_ERROR:
      break;
  }
  return "CNMEM_STATUS_UNKNOWN_ERROR";
}

}  // extern "C"

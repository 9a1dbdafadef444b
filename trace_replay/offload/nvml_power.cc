// SPDX-License-Identifier: Apache-2.0
// Declares the four functions itself: a machine that compiles the tool need not have nvml.h.
#include "trace_replay/offload/nvml_power.h"

#include <dlfcn.h>

#include <memory>
#include <optional>
#include <utility>

namespace tidepool::tool {
namespace {

using NvmlDevice = void*;
constexpr int kSuccess = 0;

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto start = Find<int (*)()>("nvmlInit_v2");
    handle_of_ = Find<HandleOf>("nvmlDeviceGetHandleByPciBusId_v2");
    power_of_ = Find<PowerOf>("nvmlDeviceGetPowerUsage");
    end_ = Find<int (*)()>("nvmlShutdown");
    has_started_ = start != nullptr && handle_of_ != nullptr && power_of_ != nullptr &&
                   end_ != nullptr && start() == kSuccess;
  }
  ~Nvml() {
    if (has_started_) end_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlDevice DeviceAt(const std::string& bus_id) const {
    NvmlDevice device = nullptr;
    const bool is_there = has_started_ && handle_of_(bus_id.c_str(), &device) == kSuccess;
    return is_there ? device : nullptr;
  }

  std::optional<double> Watts(NvmlDevice device) const {
    constexpr double kWattsPerMilliwatt = 1e-3;
    unsigned milliwatts = 0;
    if (power_of_(device, &milliwatts) != kSuccess) return std::nullopt;
    return milliwatts * kWattsPerMilliwatt;
  }

 private:
  using HandleOf = int (*)(const char*, NvmlDevice*);
  using PowerOf = int (*)(NvmlDevice, unsigned*);

  template <typename Function>
  Function Find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  HandleOf handle_of_ = nullptr;
  PowerOf power_of_ = nullptr;
  int (*end_)() = nullptr;
  bool has_started_ = false;
};

}  // namespace

PowerSource NvmlPower(const std::string& bus_id) {
  auto nvml = std::make_shared<Nvml>();
  const NvmlDevice device = nvml->DeviceAt(bus_id);
  if (device == nullptr || !nvml->Watts(device).has_value()) return nullptr;
  return [nvml = std::move(nvml), device] { return nvml->Watts(device); };
}

}  // namespace tidepool::tool

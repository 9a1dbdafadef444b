// SPDX-License-Identifier: Apache-2.0
// NVML (libnvidia-ml.so.1) for the devices of the stand-in: names, memory and versions, no load.
// The devices come from the environment, and the memory in use from the runtime of the process.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define TIDEPOOL_NVML extern "C" __attribute__((visibility("default")))

namespace {

// Values of nvml.h.
constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;

constexpr const char* kDriverVersion = "580.00";
constexpr int kCudaVersion = 13000;

std::string Text(const char* variable, const char* otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : text;
}

std::uint64_t Number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

unsigned DeviceCount() {
  return static_cast<unsigned>(std::min<std::uint64_t>(Number("CUDART_HOST_DEVICES", 1), 64));
}

// A handle is the place of the device in an array.
char handles[64];
void* HandleOf(unsigned device) { return &handles[device]; }
unsigned DeviceOf(const void* handle) {
  return static_cast<unsigned>(static_cast<const char*>(handle) - handles);
}

int Copy(const std::string& text, char* place, unsigned bytes) {
  if (text.size() + 1 > bytes) return kInsufficientSize;
  std::memcpy(place, text.c_str(), text.size() + 1);
  return kSuccess;
}

template <typename Value>
int Store(Value* place, Value value) {
  if (place == nullptr) return kInvalidArgument;
  *place = value;
  return kSuccess;
}

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryWithVersion {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

// nvmlGpuFabricInfo_v2_t without its last word, which an older caller lacks.
struct FabricInformation {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

// Asks the runtime of this process, if it has one: other processes share no memory with it.
Memory MemoryOf(unsigned device) {
  const std::uint64_t total = Number("CUDART_HOST_MEMORY", std::uint64_t{1} << 30);
  using FreeBytes = long long (*)(int);
  const auto ask = reinterpret_cast<FreeBytes>(dlsym(RTLD_DEFAULT, "cudartHostFreeBytes"));
  const long long found = ask == nullptr ? -1 : ask(static_cast<int>(device));
  const std::uint64_t free_bytes = found < 0 ? total : static_cast<std::uint64_t>(found);
  return {total, free_bytes, total - free_bytes};
}

}  // namespace

TIDEPOOL_NVML int nvmlInit_v2() { return kSuccess; }
TIDEPOOL_NVML int nvmlInit() { return kSuccess; }
TIDEPOOL_NVML int nvmlInitWithFlags(unsigned /*flags*/) { return kSuccess; }
TIDEPOOL_NVML int nvmlShutdown() { return kSuccess; }
TIDEPOOL_NVML const char* nvmlErrorString(int status) {
  return status == kSuccess ? "Success" : "Not Supported by a stand-in for a GPU";
}

TIDEPOOL_NVML int nvmlSystemGetDriverVersion(char* place, unsigned bytes) {
  return Copy(kDriverVersion, place, bytes);
}
TIDEPOOL_NVML int nvmlSystemGetNVMLVersion(char* place, unsigned bytes) {
  return Copy(std::string("13.") + kDriverVersion, place, bytes);
}
TIDEPOOL_NVML int nvmlSystemGetCudaDriverVersion(int* version) {
  return Store(version, kCudaVersion);
}
TIDEPOOL_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return Store(version, kCudaVersion);
}

TIDEPOOL_NVML int nvmlDeviceGetCount_v2(unsigned* count) { return Store(count, DeviceCount()); }
TIDEPOOL_NVML int nvmlDeviceGetCount(unsigned* count) { return Store(count, DeviceCount()); }
TIDEPOOL_NVML int nvmlDeviceGetHandleByIndex_v2(unsigned device, void** handle) {
  return device < DeviceCount() ? Store(handle, HandleOf(device)) : kInvalidArgument;
}
TIDEPOOL_NVML int nvmlDeviceGetHandleByIndex(unsigned device, void** handle) {
  return nvmlDeviceGetHandleByIndex_v2(device, handle);
}
// Devices have the buses of the runtime's addresses: 0000:BUS:00.0.
TIDEPOOL_NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  unsigned bus = 0;
  if (id == nullptr || std::sscanf(id, "%*x:%x", &bus) != 1) return kInvalidArgument;
  return bus < DeviceCount() ? Store(handle, HandleOf(bus)) : kNotFound;
}
// The runtime gives no names of single devices.
TIDEPOOL_NVML int nvmlDeviceGetHandleByUUID(const char* /*name*/, void** /*handle*/) {
  return kNotFound;
}
TIDEPOOL_NVML int nvmlDeviceGetIndex(void* handle, unsigned* device) {
  return Store(device, DeviceOf(handle));
}
TIDEPOOL_NVML int nvmlDeviceGetMinorNumber(void* handle, unsigned* device) {
  return Store(device, DeviceOf(handle));
}
TIDEPOOL_NVML int nvmlDeviceGetName(void* /*handle*/, char* place, unsigned bytes) {
  return Copy(Text("CUDART_HOST_NAME", "tidepool stand-in"), place, bytes);
}
TIDEPOOL_NVML int nvmlDeviceGetUUID(void* handle, char* place, unsigned bytes) {
  char text[48];
  std::snprintf(text, sizeof(text), "GPU-00000000-0000-0000-0000-%012u", DeviceOf(handle));
  return Copy(text, place, bytes);
}
TIDEPOOL_NVML int nvmlDeviceGetCudaComputeCapability(void* /*handle*/, int* major, int* minor) {
  const auto capability = static_cast<int>(Number("CUDART_HOST_CAPABILITY", 70));
  Store(minor, capability % 10);
  return Store(major, capability / 10);
}

TIDEPOOL_NVML int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  return Store(memory, MemoryOf(DeviceOf(handle)));
}
TIDEPOOL_NVML int nvmlDeviceGetMemoryInfo_v2(void* handle, MemoryWithVersion* memory) {
  if (memory == nullptr) return kInvalidArgument;
  const Memory found = MemoryOf(DeviceOf(handle));
  *memory = {memory->version, found.total, 0, found.free, found.used};
  return kSuccess;
}
TIDEPOOL_NVML int nvmlDeviceGetUtilizationRates(void* /*handle*/, Utilization* utilization) {
  return Store(utilization, Utilization{0, 0});
}
TIDEPOOL_NVML int nvmlDeviceGetTemperature(void* /*handle*/, int /*sensor*/, unsigned* degrees) {
  return Store(degrees, 30U);
}
TIDEPOOL_NVML int nvmlDeviceGetPowerUsage(void* /*handle*/, unsigned* milliwatts) {
  return Store(milliwatts, static_cast<unsigned>(Number("CUDART_HOST_MILLIWATTS", 0)));
}
TIDEPOOL_NVML int nvmlDeviceGetClockInfo(void* /*handle*/, int /*clock*/, unsigned* megahertz) {
  return Store(megahertz, 0U);
}

TIDEPOOL_NVML int nvmlDeviceGetComputeRunningProcesses(void* /*handle*/, unsigned* count,
                                                       void* /*processes*/) {
  return Store(count, 0U);
}
TIDEPOOL_NVML int nvmlDeviceGetComputeRunningProcesses_v3(void* /*handle*/, unsigned* count,
                                                          void* /*processes*/) {
  return Store(count, 0U);
}

TIDEPOOL_NVML int nvmlDeviceGetNvLinkRemoteDeviceType(void* /*handle*/, unsigned /*link*/,
                                                      int* /*type*/) {
  return kNotSupported;
}
TIDEPOOL_NVML int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* /*handle*/, unsigned /*link*/,
                                                      void* /*information*/) {
  return kNotSupported;
}
// Devices are in no fabric of several nodes.
TIDEPOOL_NVML int nvmlDeviceGetGpuFabricInfoV(void* /*handle*/, FabricInformation* information) {
  if (information == nullptr) return kInvalidArgument;
  std::memset(information->cluster, 0, sizeof information->cluster);
  information->status = kSuccess;
  information->clique = 0;
  information->state = 0;  // NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
  return kSuccess;
}

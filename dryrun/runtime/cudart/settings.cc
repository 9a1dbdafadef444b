// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/settings.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tidepool::cudart_host {
namespace {

constexpr int kMostDevices = 64;

void Report(const char* variable, std::string_view value, const char* expected) {
  std::fprintf(stderr, "cudart_host: %s=%.*s is ignored, expected %s\n", variable,
               static_cast<int>(value.size()), value.data(), expected);
}

// Stores the variable in `value` if it is a number of at least `least`.
template <typename Number>
void Read(const char* variable, Number least, Number& value) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return;
  double number = 0;
  if (absl::SimpleAtod(text, &number) && number >= static_cast<double>(least) && number < 1e18) {
    value = static_cast<Number>(number);
  } else {
    Report(variable, text, "a number from the least valid value up to 1e18");
  }
}

void ReadAddresses(int& addresses) {
  const char* variable = "CUDART_HOST_ADDRESSES";
  const char* text = std::getenv(variable);
  if (text == nullptr) return;
  const std::string_view order = text;
  if (order == "ascending") {
    addresses = static_cast<int>(AddressOrder::kAscending);
  } else if (order == "falling") {
    addresses = static_cast<int>(AddressOrder::kFalling);
  } else {
    Report(variable, order, "ascending or falling");
  }
}

// The third number is that of tensor cores. The stand-ins for libraries report other texts.
void ReadOperations(double& operations) {
  const char* const rates = std::getenv("CUDART_HOST_ASSUMED_OPERATIONS_PER_SECOND");
  double doubles = 0;
  double floats = 0;
  if (rates == nullptr) return;
  if (std::sscanf(rates, "%lf,%lf,%lf", &doubles, &floats, &operations) != 3) operations = 0;
}

bool IsFault(const std::vector<std::string>& parts, std::int64_t& n, int& error) {
  return parts.size() == 3 && absl::SimpleAtoi(parts[1], &n) && n > 0 &&
         absl::SimpleAtoi(parts[2], &error) && error > 0;
}

}  // namespace

CudartHostConfig ConfigOfEnvironment() {
  CudartHostConfig config = {.devices = 1,
                             .memory_bytes = 1LL << 30,
                             .granularity = 2LL << 20,
                             .has_virtual_memory = 1,
                             .copy_bytes_per_second = 0,
                             .copy_latency_nanoseconds = 0,
                             .capability = 70,
                             .has_kernels = 0,
                             .kernel_nanoseconds = 0,
                             .multiprocessors = 108,
                             .threads_per_multiprocessor = 2048,
                             .shared_bytes_per_block = 166912,
                             .l2_bytes = 40 << 20,
                             .has_data = 1,
                             .assumed_bytes_per_second = 0,
                             .assumed_operations_per_second = 0,
                             .assumed_link_bytes_per_second = 0,
                             .addresses = 0,
                             .dies_of_destroyed_streams = 0,
                             .has_one_host_thread = 0,
                             .network_memory = 0,
                             .is_integrated = 0,
                             .context_bytes = 0};
  const CudartHostConfig defaults = config;
  Read("CUDART_HOST_DEVICES", 0, config.devices);
  Read("CUDART_HOST_MEMORY", 1LL, config.memory_bytes);
  Read("CUDART_HOST_GRANULARITY", 1LL, config.granularity);
  Read("CUDART_HOST_VIRTUAL_MEMORY", 0, config.has_virtual_memory);
  Read("CUDART_HOST_COPY_BYTES_PER_SECOND", 0.0, config.copy_bytes_per_second);
  Read("CUDART_HOST_COPY_LATENCY_NANOSECONDS", 0LL, config.copy_latency_nanoseconds);
  Read("CUDART_HOST_CAPABILITY", 10, config.capability);
  Read("CUDART_HOST_KERNELS", 0, config.has_kernels);
  Read("CUDART_HOST_KERNEL_NANOSECONDS", 0LL, config.kernel_nanoseconds);
  Read("CUDART_HOST_MULTIPROCESSORS", 1, config.multiprocessors);
  Read("CUDART_HOST_THREADS_PER_MULTIPROCESSOR", 1024, config.threads_per_multiprocessor);
  Read("CUDART_HOST_SHARED_MEMORY", 49152, config.shared_bytes_per_block);
  Read("CUDART_HOST_L2", 0, config.l2_bytes);
  Read("CUDART_HOST_DATA", 0, config.has_data);
  Read("CUDART_HOST_ASSUMED_BYTES_PER_SECOND", 0.0, config.assumed_bytes_per_second);
  ReadOperations(config.assumed_operations_per_second);
  Read("CUDART_HOST_ASSUMED_LINK_BYTES_PER_SECOND", 0.0, config.assumed_link_bytes_per_second);
  ReadAddresses(config.addresses);
  Read("CUDART_HOST_DIES_OF_DESTROYED_STREAMS", 0, config.dies_of_destroyed_streams);
  Read("CUDART_HOST_ONE_HOST_THREAD", 0, config.has_one_host_thread);
  Read("CUDART_HOST_NETWORK_MEMORY", 0, config.network_memory);
  Read("CUDART_HOST_INTEGRATED", 0, config.is_integrated);
  Read("CUDART_HOST_CONTEXT", 0LL, config.context_bytes);
  if (IsValid(config)) {
    config.devices = static_cast<int>(VisibleDevices(config.devices).size());
    return config;
  }
  std::fprintf(stderr,
               "cudart_host: the CUDART_HOST_ variables are ignored, expected at most 64 devices "
               "and a granularity that is a power of two of whole pages\n");
  return defaults;
}

std::vector<int> VisibleDevices(int devices) {
  std::vector<int> visible;
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int number = 0; number < devices; ++number) visible.push_back(number);
    return visible;
  }
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  for (const std::string& word : words) {
    int number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 0 || number >= devices) break;
    visible.push_back(number);
  }
  return visible;
}

int NumberInMachine(int ordinal) {
  static const std::vector<int> visible = VisibleDevices(kMostDevices);
  const auto index = static_cast<std::size_t>(ordinal);
  return index < visible.size() ? visible[index] : ordinal;
}

void OrderFaultsOfEnvironment(CallCounts& counts) {
  const char* text = std::getenv("CUDART_HOST_FAIL");
  if (text == nullptr) return;
  const std::vector<std::string> faults = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& fault : faults) {
    std::int64_t n = 0;
    int error = 0;
    const std::vector<std::string> parts = absl::StrSplit(fault, ':');
    if (IsFault(parts, n, error)) {
      counts.Order(parts[0] == "any" ? std::string() : parts[0], n, error);
    } else {
      Report("CUDART_HOST_FAIL", fault, "FUNCTION:N:ERROR with positive numbers");
    }
  }
}

HostDeviceOptions DeviceOptions(const CudartHostConfig& config) {
  return {.memory_bytes = config.memory_bytes - config.context_bytes,
          .granularity = config.granularity,
          .copy_bytes_per_second = config.copy_bytes_per_second,
          .copy_latency_ns = config.copy_latency_nanoseconds,
          .addresses = static_cast<AddressOrder>(config.addresses)};
}

bool IsValid(const CudartHostConfig& config) {
  return config.devices >= 0 && config.devices <= kMostDevices && config.addresses >= 0 &&
         config.addresses <= 2 && config.context_bytes >= 0 &&
         HostDevice::Create(DeviceOptions(config)).ok();
}

}  // namespace tidepool::cudart_host

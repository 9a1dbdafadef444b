// SPDX-License-Identifier: Apache-2.0
// Calls the driver to reserve, create and map, and gives all devices with access their rights.
#include "lib/memory/device/cuda/driver_backing.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/cuda/driver.h"

namespace tidepool::cuda {
namespace {

std::size_t Size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }
CUdeviceptr Number(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// Memory for network cards can be registered with them (GPUDirect RDMA).
CUmemAllocationProp OnDevice(int ordinal, bool is_for_network = false) {
  CUmemAllocationProp properties = {};
  properties.allocFlags.gpuDirectRDMACapable = is_for_network ? 1 : 0;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

CUmemAccessDesc AllAccessFor(int ordinal) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

class DriverBacking final : public device::VirtualBacking {
 public:
  DriverBacking(Driver driver, const CUmemAllocationProp& properties, std::int64_t granularity,
                const std::vector<int>& may_use, std::atomic<std::int64_t>* used_bytes)
      : driver_(driver),
        granularity_(granularity),
        properties_(properties),
        used_bytes_(*used_bytes) {
    access_.push_back(AllAccessFor(properties.location.id));
    for (const int other : may_use) access_.push_back(AllAccessFor(other));
  }

  absl::StatusOr<void*> Reserve(std::int64_t bytes) override {
    CUdeviceptr address = 0;
    absl::Status status =
        driver_.Check(driver_.address_reserve(&address, Size(bytes), Size(granularity_), 0, 0),
                      "cuMemAddressReserve", bytes, granularity_);
    if (!status.ok()) return status;
    return std::bit_cast<void*>(address);
  }

  absl::Status Release(void* address, std::int64_t bytes) override {
    return driver_.Check(driver_.address_free(Number(address), Size(bytes)), "cuMemAddressFree",
                         address, bytes);
  }

  absl::StatusOr<std::uint64_t> Create(std::int64_t bytes) override {
    CUmemGenericAllocationHandle handle = 0;
    absl::Status status =
        driver_.Check(driver_.create(&handle, Size(bytes), &properties_, 0), "cuMemCreate", bytes);
    if (!status.ok()) return status;
    used_bytes_ += bytes;
    return handle;
  }

  absl::Status ReleaseHandle(std::uint64_t handle) override {
    return driver_.Check(driver_.release(handle), "cuMemRelease", handle);
  }

  // The driver frees released memory itself once it is mapped nowhere.
  void Reclaim(std::uint64_t /*handle*/, std::int64_t bytes) override { used_bytes_ -= bytes; }

  absl::Status Map(void* address, std::uint64_t handle, std::int64_t bytes) override {
    absl::Status status = driver_.Check(driver_.map(Number(address), Size(bytes), 0, handle, 0),
                                        "cuMemMap", address, bytes, handle);
    if (!status.ok()) return status;
    status = driver_.Check(
        driver_.set_access(Number(address), Size(bytes), access_.data(), access_.size()),
        "cuMemSetAccess", address, bytes);
    if (status.ok()) return status;
    const absl::Status unmapped = UnmapOrRetry(address, bytes);
    if (unmapped.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), ", and the memory stays mapped: ",
                                     std::string(unmapped.message())));
  }

  absl::Status Unmap(void* address, std::uint64_t /*handle*/, std::int64_t bytes) override {
    return driver_.Check(driver_.unmap(Number(address), Size(bytes)), "cuMemUnmap", address, bytes);
  }

 private:
  absl::Status UnmapOrRetry(void* address, std::int64_t bytes) {
    const absl::Status status = Unmap(address, 0, bytes);
    return status.ok() ? status : Unmap(address, 0, bytes);
  }

  const Driver driver_;
  const std::int64_t granularity_;
  const CUmemAllocationProp properties_;
  std::vector<CUmemAccessDesc> access_;
  std::atomic<std::int64_t>& used_bytes_;
};

absl::StatusOr<bool> Has(const Driver& driver, int ordinal, CUdevice_attribute attribute,
                         const char* name) {
  CUdevice device = 0;
  absl::Status status = driver.Check(driver.device_get(&device, ordinal), "cuDeviceGet", ordinal);
  if (!status.ok()) return status;
  int value = 0;
  status = driver.Check(driver.device_get_attribute(&value, attribute, device),
                        "cuDeviceGetAttribute", name, ordinal);
  if (!status.ok()) return status;
  return value != 0;
}

// Maps one granule with all access, and gives it back.
absl::Status TryOut(DriverBacking& backing, std::int64_t granularity) {
  const absl::StatusOr<void*> address = backing.Reserve(granularity);
  if (!address.ok()) return address.status();
  const absl::StatusOr<std::uint64_t> handle = backing.Create(granularity);
  absl::Status status = handle.status();
  if (handle.ok()) {
    status = backing.Map(*address, *handle, granularity);
    if (status.ok()) status = backing.Unmap(*address, *handle, granularity);
    status.Update(backing.ReleaseHandle(*handle));
    backing.Reclaim(*handle, granularity);
  }
  status.Update(backing.Release(*address, granularity));
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<device::VirtualMemory>> MakeVirtualMemory(
    int ordinal, const std::vector<int>& may_use, std::atomic<std::int64_t>* used_bytes) {
  const absl::StatusOr<Driver> driver = Driver::Load();
  if (absl::IsUnimplemented(driver.status())) return nullptr;
  if (!driver.ok()) return driver.status();
  const absl::StatusOr<bool> has_virtual_memory =
      Has(*driver, ordinal, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
          "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED");
  if (!has_virtual_memory.ok()) return has_virtual_memory.status();
  if (!*has_virtual_memory) return nullptr;
  std::size_t bytes = 0;
  const CUmemAllocationProp properties = OnDevice(ordinal);
  absl::Status status =
      driver->Check(driver->get_granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                    "cuMemGetAllocationGranularity", ordinal);
  if (!status.ok()) return status;
  const auto granularity = static_cast<std::int64_t>(bytes);
  const auto make = [&](bool is_for_network) {
    return std::make_unique<DriverBacking>(*driver, OnDevice(ordinal, is_for_network), granularity,
                                           may_use, used_bytes);
  };
  // The driver of WSL 2 says that it has memory for network cards, and refuses access to it.
  std::unique_ptr<DriverBacking> backing;
  if (Has(*driver, ordinal, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
          "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED")
          .value_or(false)) {
    backing = make(true);
    if (!TryOut(*backing, granularity).ok()) backing.reset();
  }
  if (backing == nullptr) backing = make(false);
  return std::make_unique<device::VirtualMemory>(granularity, std::move(backing));
}

}  // namespace tidepool::cuda

// SPDX-License-Identifier: Apache-2.0
// The host device: a handle is the name of a stream as a pointer, and null a stream of the pool.
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/c/c_device.h"
#include "tidepool/host_device.h"

namespace tidepool::c_api {
namespace {

class HostSide final : public CDevice {
 public:
  HostSide(std::unique_ptr<HostDevice> device, Stream default_stream)
      : device_(std::move(device)), default_(default_stream) {}

  Device& device() override { return *device_; }
  int ordinal() const override { return -1; }
  absl::StatusOr<std::string> NameForProcesses() const override { return "host"; }
  std::int64_t FreeBytes() const override {
    return device_->memory_bytes() - device_->used_bytes();
  }
  std::string owner() const override { return "the host device"; }

  absl::StatusOr<Stream> NameOf(void* native) override {
    if (native == nullptr) return default_;
    const Stream name{.id = reinterpret_cast<std::uintptr_t>(native)};
    if (device_->HasStream(name)) return name;
    return absl::NotFoundError(
        absl::StrCat("stream 0x", absl::Hex(name.id),
                     " is unknown, expected NULL or a stream of tidepool_stream_create"));
  }
  bool IsOfThread(const void* /*native*/) const override { return false; }
  absl::StatusOr<void*> NativeOf(Stream stream) const override {
    if (stream == default_) return nullptr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is no address.
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream.id));
  }
  absl::StatusOr<Stream> NameOfEnding(void* native) override { return NameOf(native); }
  absl::Status Unwrap(Stream /*stream*/) override {
    return absl::InvalidArgumentError("the host device has no graphs");
  }
  void NoteCapture(bool /*begins*/) override {}
  absl::StatusOr<bool> IsCapturing(void* /*native*/) const override { return false; }
  std::uint64_t NumberOf(void* /*native*/) const override { return 0; }
  absl::Status InRelaxedCapture(absl::FunctionRef<absl::Status()> call) const override {
    return call();
  }
  absl::Status ForgetStreams() override { return absl::OkStatus(); }
  std::unique_ptr<PoolObserver> MakeToolObserver(PoolObserver* /*next*/) const override {
    return nullptr;
  }
  bool HasLost(const Pool& /*pool*/) const override { return false; }

 private:
  const std::unique_ptr<HostDevice> device_;
  const Stream default_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CDevice>> MakeHostSide(const bindings::Settings& settings) {
  HostDeviceOptions options;
  options.memory_bytes = settings.device_memory_bytes;
  absl::StatusOr<std::unique_ptr<HostDevice>> device = HostDevice::Create(options);
  if (!device.ok()) return device.status();
  const absl::StatusOr<Stream> stream = (*device)->CreateStream();
  if (!stream.ok()) return stream.status();
  return std::make_unique<HostSide>(*std::move(device), *stream);
}

}  // namespace tidepool::c_api

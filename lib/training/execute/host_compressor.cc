// SPDX-License-Identifier: Apache-2.0
// A copy packs, sleeps for the rest of its time, and unpacks, all in one function of its stream.
#include "tidepool/training/host_compressor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace {

using Clock = std::chrono::steady_clock;

// The rates of a device in one direction.
struct Rates {
  double link = 0;
  double engine = 0;
  double latency = 0;
};

class CodecCompressor final : public HostCompressor {
 public:
  CodecCompressor(absl::Span<Device* const> devices, Machine machine,
                  std::unique_ptr<ZeroValueCodec> codec)
      : devices_(devices.begin(), devices.end()),
        machine_(std::move(machine)),
        codec_(std::move(codec)) {}

  absl::Status Copy(const CompressedCopy& copy) override {
    if (copy.device >= devices_.size() || !machine_.devices[copy.device].compressor.exists()) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", copy.device, " has no compressor, expected one that has"));
    }
    return devices_[copy.device]->CallHost(copy.stream, [this, copy] { Carry(copy); });
  }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  Rates RatesOf(const CompressedCopy& copy) const {
    const MachineDevice& device = machine_.devices[copy.device];
    const MachineLink& link = machine_.links[device.link];
    if (copy.direction == CopyDirection::kFromDevice) {
      return {link.out_bytes_per_second, device.compressor.out_bytes_per_second,
              link.latency_seconds};
    }
    return {link.in_bytes_per_second, device.compressor.in_bytes_per_second, link.latency_seconds};
  }

  void Carry(const CompressedCopy& copy) {
    const Clock::time_point begin = Clock::now();
    const auto bytes = static_cast<std::size_t>(copy.bytes);
    const absl::Span<std::byte> packed = PackedMemory(ZeroValueBound(bytes));
    const absl::StatusOr<std::size_t> size =
        codec_->Compress({static_cast<const std::byte*>(copy.from), bytes}, packed);
    const bool is_smaller = size.ok() && *size < bytes;
    const std::size_t sent = is_smaller ? *size : bytes;
    WaitForLink(copy, sent, begin);
    Unpack(copy, is_smaller, packed.first(is_smaller ? sent : 0));
    sent_bytes_ += static_cast<std::int64_t>(sent);
  }

  // Returns memory of the calling thread. It is empty where the host has none, and then the codec
  // refuses it, so the bytes are sent as they are. The thread of a stream keeps its memory: new
  // memory for each copy would cost more than the codec.
  static absl::Span<std::byte> PackedMemory(std::size_t bytes) {
    thread_local std::unique_ptr<std::byte[]> memory;
    thread_local std::size_t size = 0;
    if (size < bytes) {
      memory.reset();
      memory.reset(new (std::nothrow) std::byte[bytes]);
      size = memory == nullptr ? 0 : bytes;
    }
    return {memory.get(), size};
  }

  void WaitForLink(const CompressedCopy& copy, std::size_t sent, Clock::time_point begin) const {
    const Rates rates = RatesOf(copy);
    const std::chrono::duration<double> time(
        rates.latency + std::max(static_cast<double>(sent) / rates.link,
                                 static_cast<double>(copy.bytes) / rates.engine));
    std::this_thread::sleep_until(begin + time);
  }

  // The stream was packed a moment ago; if it were damaged, the bytes would still be at hand.
  void Unpack(const CompressedCopy& copy, bool is_packed, absl::Span<const std::byte> sent) const {
    const auto bytes = static_cast<std::size_t>(copy.bytes);
    if (is_packed && codec_->Decompress(sent, {static_cast<std::byte*>(copy.to), bytes}).ok()) {
      return;
    }
    std::memcpy(copy.to, copy.from, bytes);
  }

  const std::vector<Device*> devices_;
  const Machine machine_;
  const std::unique_ptr<ZeroValueCodec> codec_;
  std::atomic<std::int64_t> sent_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostCompressor>> HostCompressor::Create(
    absl::Span<Device* const> devices, const Machine& machine) {
  if (devices.size() > machine.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(devices.size(), " devices, expected at most ",
                                                   machine.devices.size(), ", as the machine has"));
  }
  absl::StatusOr<std::unique_ptr<ZeroValueCodec>> codec = ZeroValueCodec::Create({});
  if (!codec.ok()) return codec.status();
  return std::make_unique<CodecCompressor>(devices, machine, *std::move(codec));
}

}  // namespace tidepool

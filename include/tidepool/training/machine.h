// SPDX-License-Identifier: Apache-2.0
// Machine: the devices, links and host cores that a schedule runs on, as numbers. Simulators and
// checkers take it; policies ask it how long a copy takes.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_TRAINING_MACHINE_H_
#define TIDEPOOL_TRAINING_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/export.h"

namespace tidepool {

// Limits of a machine. A schedule names at most as many devices (kMostScheduleDevices).
inline constexpr std::size_t kMostMachineDevices = 64;
inline constexpr std::size_t kMostComputeStreams = 16;  // of one device
inline constexpr std::size_t kMostHostCores = 256;

// How the devices on a link divide it among their copies.
enum class LinkSharing : std::uint8_t {
  // All copies in progress advance at equal parts of the rate, as on a PCIe switch (fluid model).
  kEqualParts,
  // One copy at a time has the whole link. The copy that could begin first goes first; of two that
  // could begin at the same time, the earlier one in the order of steps.
  kFirstComeFirstServed,
};
// Returns the name in files: "equal-parts", "first-come-first-served".
TIDEPOOL_EXPORT std::string_view LinkSharingName(LinkSharing sharing);

// A connection between the host and one or more devices.
struct MachineLink {
  // Bytes per second from the devices and to them: at least 1, possibly infinite.
  double out_bytes_per_second = 12e9;
  double in_bytes_per_second = 12e9;
  double latency_seconds = 0;  // before each copy, up to kMostTaskSeconds
  // Whether copies out and copies in run beside each other, each direction at its full rate.
  // Otherwise each device has one copy at a time, and both directions divide the link.
  bool full_duplex = true;
  LinkSharing sharing = LinkSharing::kEqualParts;  // among devices

  friend bool operator==(const MachineLink&, const MachineLink&) = default;
};

// Connections between devices, such as NVLink. Each device receives over one of its own, or all
// over a bus.
struct PeerLinks {
  // Bytes per second that a device receives, or that the bus carries: at least 1, possibly
  // infinite. 0: devices reach each other through the host alone.
  double bytes_per_second = 0;
  double latency_seconds = 0;  // before each copy, up to kMostTaskSeconds
  bool is_bus = false;
  LinkSharing sharing = LinkSharing::kEqualParts;  // of the bus, among devices that receive
  // Bytes per second of received data that a device adds to its own: at least 1, possibly infinite.
  // The addition follows the copy, and holds the connection.
  double addition_bytes_per_second = std::numeric_limits<double>::infinity();

  bool exist() const { return bytes_per_second > 0; }
  friend bool operator==(const PeerLinks&, const PeerLinks&) = default;
};

// A compressor between the memory of a device and its link, as the compressing DMA engine of Rhu et
// al., "Compressing DMA Engine: Leveraging Activation Sparsity for Training Deep Neural Networks",
// HPCA 2018, and as the decompression engine in the copy engine of Blackwell GPUs, which NVIDIA
// gives up to 600 GB/s. It drops zero words: a copy of B bytes, of which a share d of the 32-bit
// words is not zero, sends a bit for each word and the other words,
//     sent = B min(1, d + 1/32).
// The engine works while the link sends, so the slower of the two is the time of the copy,
//     seconds = latency + max(sent / link, B / engine).
// It takes no memory and delays no task. Compression by kernels, as with nvCOMP, takes
// multiprocessors from tasks besides, which no number here counts. Copies of several devices that
// share a link divide it as if each took that time of it.
struct CopyCompressor {
  // Bytes per second of data that is not compressed, on the way out and on the way in: both at
  // least 1, possibly infinite, or both 0: there is no compressor.
  double out_bytes_per_second = 0;
  double in_bytes_per_second = 0;

  bool exists() const { return out_bytes_per_second > 0; }
  friend bool operator==(const CopyCompressor&, const CopyCompressor&) = default;
};
// Returns the bytes that a compressed copy sends for each byte of data, for a density of 0 to 1.
TIDEPOOL_EXPORT double SentShare(double density);

struct MachineDevice {
  std::int64_t memory_bytes = 0;
  std::size_t link = 0;             // index in the machine's links
  std::size_t compute_streams = 1;  // 1 to kMostComputeStreams tasks run at the same time
  CopyCompressor compressor = {};   // of schedules with fixed addresses or pages

  friend bool operator==(const MachineDevice&, const MachineDevice&) = default;
};

// The cores of the host that run tasks, such as updates of weights. A core runs one task at a time.
struct MachineHost {
  // Page-locked memory for copies, inputs and weights of the host.
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
  std::size_t cores = 0;  // up to kMostHostCores; 0: the host runs no tasks
  // Bytes per second of one core: of data that it reads to add it up, and of data that it updates
  // or writes. At least 1, possibly infinite.
  double accumulation_bytes_per_second = 10e9;
  double update_bytes_per_second = 10e9;

  friend bool operator==(const MachineHost&, const MachineHost&) = default;
};

struct Machine {
  std::vector<MachineDevice> devices = {{}};
  std::vector<MachineLink> links = {{}};
  MachineHost host = {};
  PeerLinks peers = {};

  friend bool operator==(const Machine&, const Machine&) = default;
};

// Returns OK when the machine is valid: it has 1 to kMostMachineDevices devices and 1 to as many
// links, every device names one of them, and all numbers are in the ranges above. Otherwise
// InvalidArgument, with the device or link, the value and the range. Thread-safe. O(devices).
TIDEPOOL_EXPORT absl::Status ValidateMachine(const Machine& machine);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_MACHINE_H_

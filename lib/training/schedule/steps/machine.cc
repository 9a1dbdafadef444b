// SPDX-License-Identifier: Apache-2.0
// Checks machines.
#include "tidepool/training/machine.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 2> kLinkSharingNames = {"equal-parts",
                                                               "first-come-first-served"};

// Refuses NaN too. Sums of times would overflow at lower rates.
absl::Status CheckRate(const std::string& owner, const char* name, double rate) {
  if (rate >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(owner, ": ", name, " of ", rate, " bytes per second, expected at least 1"));
}

absl::Status CheckCount(const std::string& owner, std::size_t count, std::size_t least,
                        std::size_t most) {
  if (count >= least && count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(count, " ", owner, ", expected ", least, " to ", most));
}

absl::Status CheckMemory(const std::string& owner, std::int64_t bytes) {
  if (bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(owner, ": memory of ", bytes, " bytes, expected 0 or more"));
}

absl::Status CheckTransfers(const std::string& owner, double latency, LinkSharing sharing) {
  if (!(latency >= 0 && latency <= kMostTaskSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner, ": a latency of ", latency, " seconds, expected 0 to 10^9"));
  }
  if (sharing > LinkSharing::kFirstComeFirstServed) {
    return absl::InvalidArgumentError(absl::StrCat(owner, ": sharing ", static_cast<int>(sharing),
                                                   ", expected equal parts or first come"));
  }
  return absl::OkStatus();
}

absl::Status CheckLink(const MachineLink& link, std::size_t number) {
  const std::string owner = absl::StrCat("link ", number);
  absl::Status status = CheckRate(owner, "a rate out", link.out_bytes_per_second);
  if (status.ok()) status = CheckRate(owner, "a rate in", link.in_bytes_per_second);
  return status.ok() ? CheckTransfers(owner, link.latency_seconds, link.sharing) : status;
}

// A machine without connections between devices has the defaults.
absl::Status CheckPeers(const PeerLinks& peers) {
  if (peers == PeerLinks()) return absl::OkStatus();
  const std::string owner = "links of peers";
  absl::Status status = CheckRate(owner, "a rate", peers.bytes_per_second);
  if (status.ok()) status = CheckRate(owner, "additions", peers.addition_bytes_per_second);
  return status.ok() ? CheckTransfers(owner, peers.latency_seconds, peers.sharing) : status;
}

absl::Status CheckDevice(const Machine& machine, std::size_t number) {
  const MachineDevice& device = machine.devices[number];
  const std::string owner = absl::StrCat("device ", number);
  if (device.link >= machine.links.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        owner, ": link ", device.link, ", expected a number below ", machine.links.size()));
  }
  absl::Status status = CheckMemory(owner, device.memory_bytes);
  if (status.ok()) {
    status = CheckCount(absl::StrCat("compute streams of ", owner), device.compute_streams, 1,
                        kMostComputeStreams);
  }
  const CopyCompressor& compressor = device.compressor;
  if (!status.ok() || compressor == CopyCompressor()) return status;
  status = CheckRate(owner, "a compressor", compressor.out_bytes_per_second);
  if (!status.ok()) return status;
  return CheckRate(owner, "a decompressor", compressor.in_bytes_per_second);
}

absl::Status CheckHost(const MachineHost& host) {
  absl::Status status = CheckMemory("host", host.memory_bytes);
  if (status.ok()) status = CheckCount("cores of the host", host.cores, 0, kMostHostCores);
  if (status.ok()) {
    status = CheckRate("host", "accumulation", host.accumulation_bytes_per_second);
  }
  if (status.ok()) status = CheckRate("host", "updates", host.update_bytes_per_second);
  return status;
}

}  // namespace

std::string_view LinkSharingName(LinkSharing sharing) {
  return kLinkSharingNames[static_cast<std::size_t>(sharing)];
}

double SentShare(double density) {
  constexpr double kMaskShare = 1.0 / 32;
  return std::min(1.0, density + kMaskShare);
}

absl::Status ValidateMachine(const Machine& machine) {
  absl::Status status = CheckCount("devices", machine.devices.size(), 1, kMostMachineDevices);
  if (status.ok()) status = CheckCount("links", machine.links.size(), 1, kMostMachineDevices);
  for (std::size_t i = 0; i < machine.links.size() && status.ok(); ++i) {
    status = CheckLink(machine.links[i], i);
  }
  for (std::size_t i = 0; i < machine.devices.size() && status.ok(); ++i) {
    status = CheckDevice(machine, i);
  }
  if (status.ok()) status = CheckHost(machine.host);
  return status.ok() ? CheckPeers(machine.peers) : status;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/lower/program_streams.h"

namespace tidepool::schedule {
namespace {

using StreamKind = ProgramStream::Kind;

std::size_t AddStream(Program& program, StreamKind kind, std::size_t device, std::size_t number,
                      std::size_t channel = 0) {
  program.streams.push_back({kind, device, number, channel});
  return program.streams.size() - 1;
}

// Adds two channels of each link: out and in. One transfer at a time uses the first for both.
void AddChannels(const Machine& machine, Program& program) {
  for (std::size_t link = 0; link < machine.links.size(); ++link) {
    const ProgramChannel channel = {link, 0, machine.links[link].latency_seconds,
                                    machine.links[link].sharing};
    program.channels.push_back(channel);
    program.channels.push_back(channel);
  }
}

// Adds a stream for each device that receives, with a channel of its own or that of the bus.
void AddPeers(const Machine& machine, std::size_t devices, Program& program) {
  const ProgramChannel channel = {machine.links.size(), 0, machine.peers.latency_seconds,
                                  machine.peers.sharing};
  for (std::size_t device = 0; device < devices; ++device) {
    if (device == 0 || !machine.peers.is_bus) program.channels.push_back(channel);
    AddStream(program, StreamKind::kPeer, device, 0, program.channels.size() - 1);
  }
}

}  // namespace

StreamNumbers AddStreams(const Machine& machine, std::size_t devices, Program& program) {
  StreamNumbers numbers;
  AddChannels(machine, program);
  for (std::size_t device = 0; device < devices; ++device) {
    const MachineDevice& own = machine.devices[device];
    StreamNumbers::Device& streams = numbers.devices_.emplace_back();
    streams.compute = program.streams.size();
    for (std::size_t i = 0; i < own.compute_streams; ++i) {
      AddStream(program, StreamKind::kCompute, device, i);
    }
    const std::size_t channel = 2 * own.link;
    if (machine.links[own.link].full_duplex) {
      streams.out = AddStream(program, StreamKind::kOut, device, 0, channel);
      streams.in = AddStream(program, StreamKind::kIn, device, 0, channel + 1);
    } else {
      streams.out = streams.in = AddStream(program, StreamKind::kBothWays, device, 0, channel);
    }
  }
  numbers.host_ = program.streams.size();
  for (std::size_t core = 0; core < machine.host.cores; ++core) {
    AddStream(program, StreamKind::kHost, kHostDevice, core);
  }
  numbers.peers_ = program.streams.size();
  if (machine.peers.exist()) AddPeers(machine, devices, program);
  return numbers;
}

void CountStreamsOfChannels(Program& program) {
  std::vector<bool> are_used(program.streams.size());
  for (const ProgramOperation& operation : program.operations) {
    if (operation.kind == ProgramOperation::Kind::kTask || are_used[operation.stream]) continue;
    are_used[operation.stream] = true;
    ++program.channels[program.streams[operation.stream].channel].streams;
  }
}

}  // namespace tidepool::schedule

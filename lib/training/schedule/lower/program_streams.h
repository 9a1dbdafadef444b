// SPDX-License-Identifier: Apache-2.0
// The streams of a program, and their numbers.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PROGRAM_STREAMS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PROGRAM_STREAMS_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"

namespace tidepool::schedule {

// Numbers of streams. With one transfer at a time, out and in of a device are the same stream.
class StreamNumbers {
 public:
  std::size_t Compute(std::size_t device, std::size_t number) const {
    return devices_[device].compute + number;
  }
  std::size_t Out(std::size_t device) const { return devices_[device].out; }
  std::size_t In(std::size_t device) const { return devices_[device].in; }
  // Returns the stream of a device that receives; the machine has connections between devices.
  std::size_t Peer(std::size_t device) const { return peers_ + device; }
  std::size_t Host(std::size_t core) const { return host_ + core; }

 private:
  friend StreamNumbers AddStreams(const Machine& machine, std::size_t devices, Program& program);

  struct Device {
    std::size_t compute = 0;
    std::size_t out = 0;
    std::size_t in = 0;
  };

  std::vector<Device> devices_;
  std::size_t host_ = 0;
  std::size_t peers_ = 0;
};

// Adds the streams of the first `devices` devices of a machine, those of the host's cores and of
// connections between devices, and the channels of the links.
StreamNumbers AddStreams(const Machine& machine, std::size_t devices, Program& program);

// Counts for each channel the streams that have operations.
void CountStreamsOfChannels(Program& program);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_PROGRAM_STREAMS_H_

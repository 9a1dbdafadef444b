// SPDX-License-Identifier: Apache-2.0
// The times of copies over a link, raw and compressed by the device.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_COPY_RATES_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_COPY_RATES_H_

#include <cstdint>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::transfers {

struct CopyRates {
  double out_bytes_per_second = 0;
  double in_bytes_per_second = 0;
  double latency_seconds = 0;
  bool full_duplex = true;
  CopyCompressor compressor = {};

  // Returns whether compressed copies of data with this density are faster in one direction at
  // least, and slower in none.
  bool GainFromCompression(double density) const;
  // Return the seconds of a copy of data with this density; -1: raw.
  double OutSeconds(std::int64_t bytes, double density) const;
  double InSeconds(std::int64_t bytes, double density) const;
};

// Returns the rates of a device of a valid machine.
CopyRates RatesOfDevice(const Machine& machine, std::size_t device);

// Returns `densities`, one for each datum, with -1 for data that schedules may not compress. Data
// has -1 too if compression makes it no faster in one direction, or slower in the other. Empty: all
// copies are raw.
std::vector<double> DensitiesThatPay(const TaskGraph& graph, const CopyRates& rates,
                                     std::vector<double> densities);

// Sets the density of each copy out of `schedule`. With the order of its steps it takes no longer
// then, where no devices share the link. `densities` are empty or those of DensitiesThatPay.
void CompressCopies(const std::vector<double>& densities, Schedule& schedule);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_COPY_RATES_H_

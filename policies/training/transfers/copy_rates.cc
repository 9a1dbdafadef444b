// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/copy_rates.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tidepool::transfers {
namespace {

// Returns the seconds of a copy without latency, with the rates of one direction.
double SecondsOf(std::int64_t bytes, double density, double link, double engine) {
  const auto all = static_cast<double>(bytes);
  if (density < 0) return all / link;
  return std::max(all * SentShare(density) / link, all / engine);
}

// The host does not decompress.
bool MayCompress(const GraphData& data) {
  return data.before != DataHome::kHost && !ExistsAfter(data) &&
         data.kind != DataKind::kWeightGradient;
}

}  // namespace

bool CopyRates::GainFromCompression(double density) const {
  constexpr std::int64_t kBytes = 1 << 20;
  const double out = OutSeconds(kBytes, density) - OutSeconds(kBytes, -1);
  const double in = InSeconds(kBytes, density) - InSeconds(kBytes, -1);
  return compressor.exists() && out <= 0 && in <= 0 && out + in < 0;
}

double CopyRates::OutSeconds(std::int64_t bytes, double density) const {
  return latency_seconds +
         SecondsOf(bytes, density, out_bytes_per_second, compressor.out_bytes_per_second);
}

double CopyRates::InSeconds(std::int64_t bytes, double density) const {
  return latency_seconds +
         SecondsOf(bytes, density, in_bytes_per_second, compressor.in_bytes_per_second);
}

CopyRates RatesOfDevice(const Machine& machine, std::size_t device) {
  const MachineLink& link = machine.links[machine.devices[device].link];
  return {.out_bytes_per_second = link.out_bytes_per_second,
          .in_bytes_per_second = link.in_bytes_per_second,
          .latency_seconds = link.latency_seconds,
          .full_duplex = link.full_duplex,
          .compressor = machine.devices[device].compressor};
}

std::vector<double> DensitiesThatPay(const TaskGraph& graph, const CopyRates& rates,
                                     std::vector<double> densities) {
  if (!rates.compressor.exists() || densities.empty()) return {};
  for (std::size_t data = 0; data < densities.size(); ++data) {
    const bool pays = MayCompress(graph.data[data]) && rates.GainFromCompression(densities[data]);
    if (!pays) densities[data] = -1;
  }
  const bool any =
      std::any_of(densities.begin(), densities.end(), [](double density) { return density >= 0; });
  return any ? std::move(densities) : std::vector<double>();
}

void CompressCopies(const std::vector<double>& densities, Schedule& schedule) {
  if (densities.empty()) return;
  for (ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kOffload) step.density = densities[step.index];
  }
}

}  // namespace tidepool::transfers

// SPDX-License-Identifier: Apache-2.0
// `run --probe-every`: densities are probed, and compression is chosen again.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_DENSITY_PROBES_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_DENSITY_PROBES_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/adaptive_compression.h"
#include "trace_replay/offload/fixed_iteration.h"
#include "trace_replay/offload/make_schedule.h"

namespace tidepool::tool {

class DensityProbes {
 public:
  // `scheduled` outlives the probes.
  static absl::StatusOr<DensityProbes> Create(const ScheduledGraph& scheduled,
                                              const Timeline& simulated);

  void Note(std::size_t data, const DensityEstimate& estimate) { adaptive_.Note(data, estimate); }
  // Counts the compressed copies of an iteration that ended, and gives the next one another
  // schedule where a density has left its band.
  absl::Status AfterIteration(FixedIteration& iteration);

  nlohmann::ordered_json Json() const;
  std::vector<std::vector<std::string>> Rows() const;  // for a table

 private:
  DensityProbes(const ScheduledGraph& scheduled, AdaptiveCompression adaptive)
      : scheduled_(&scheduled), adaptive_(std::move(adaptive)) {}

  const ScheduledGraph* scheduled_;
  AdaptiveCompression adaptive_;
  std::vector<std::int64_t> compressed_;  // copies, by iteration
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_DENSITY_PROBES_H_

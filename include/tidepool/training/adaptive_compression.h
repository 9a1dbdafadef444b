// SPDX-License-Identifier: Apache-2.0
// AdaptiveCompression: chooses the compressed copies of a schedule again while a network trains.
//
// "During training, occasionally checking the activation density (fraction of non-zero elements) of
// each layer and choosing layers with low density to compress could reduce degradation of
// performance due to compression" (Shriram et al., IPDPS 2019, section V-C).
//
// A choice of copies is based on a density c of each datum, with an error h. The band of the datum
// is [c - h, c + h]: h is the error of the probe that found c (density_probe.h), or 0.02 where that
// is more, or where c was assumed. A later estimate d with the error e has left the band when [d -
// e, d + e] and the band have no common point. As long as no estimate leaves its band, the choice
// is kept.
//
//     executor.Run()                      with ExecutorOptions::on_density = Note
//     if (auto timeline = ChooseAgain())
//       executor.Reschedule(PlaceInPool(graph, timeline->resolved, machine, placing)->schedule)
//
// `placing` has the plan of the timeline.
#ifndef TIDEPOOL_TRAINING_ADAPTIVE_COMPRESSION_H_
#define TIDEPOOL_TRAINING_ADAPTIVE_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/copies/density_probe.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/timeline.h"

namespace tidepool {

struct AdaptiveCompressionOptions {
  Machine machine = {};
  PlacingOptions placing = {};  // of the simulation
  // The share of nonzero words of each datum for which the schedule was made; empty: 1 for all.
  std::vector<double> densities = {};
};

// Not thread-safe.
class TIDEPOOL_EXPORT AdaptiveCompression {
 public:
  // Copies the graph and the simulated schedule (Timeline::resolved), which the executor carries
  // out. Data that it left on the device stays there. InvalidArgument for options out of range, and
  // unless there is one density per datum.
  static absl::StatusOr<AdaptiveCompression> Create(const TaskGraph& graph,
                                                    const Timeline& simulated,
                                                    const AdaptiveCompressionOptions& options);

  // Keeps the latest density of a datum of the graph. O(1).
  void Note(std::size_t data, const DensityEstimate& estimate);

  // Returns nothing if no latest density has left its band. Otherwise the latest densities and
  // their errors are the new bands. Chooses for them as MakeSchedule does, and returns the
  // simulated iteration of the new schedule, which makes the same requests at the same places.
  // Returns nothing too if such an iteration would not fit, or data would stay on the device
  // because the host has no room. The schedule then stays as it is. Errors are Simulate's. Takes
  // the time of a choice: at most 512 simulations.
  absl::StatusOr<std::optional<Timeline>> ChooseAgain();

  // The current schedule.
  const Schedule& schedule() const { return schedule_; }
  std::int64_t noted() const { return noted_; }      // calls of Note
  std::int64_t choices() const { return choices_; }  // new schedules

 private:
  struct Band {
    double density = 1;
    double error = 0;
    std::optional<DensityEstimate> latest = std::nullopt;
  };

  AdaptiveCompression(const TaskGraph& graph, Schedule schedule,
                      const AdaptiveCompressionOptions& options,
                      std::shared_ptr<const PlacementPlan> plan);
  static bool HasLeft(const Band& band);
  void Renew();

  TaskGraph graph_;
  Schedule schedule_;
  Machine machine_;
  PlacingOptions placing_;
  std::vector<Band> bands_;  // by data
  std::int64_t noted_ = 0;
  std::int64_t choices_ = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_ADAPTIVE_COMPRESSION_H_

// SPDX-License-Identifier: Apache-2.0
// SearchTrainingExactly: the fastest schedule of a small training iteration, by SearchExactly, for
// several rounds, devices, compute streams and compressed copies too.
#ifndef TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_TRAINING_H_
#define TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/exact_search/exact_search.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

struct ExactTraining {
  // Tasks have one algorithm. With rounds, that of the samples of one round on one device.
  TaskGraph graph;
  Machine machine = {};
  // A granule of memory. Sizes and memories are multiples of it, so the times of copies should be
  // whole seconds, and so are those of tasks.
  std::int64_t unit = 512;
  // Copies that divide a link may end between whole seconds, but at whole ticks.
  int ticks_of_a_second = 1;
  // The first devices of the machine run all rounds each, and exchange gradients of weights over
  // the connections between devices. These have no latency. Devices with one link, and those on a
  // bus, divide it in equal parts, or have one copy at a time on it, in any order: with
  // kFirstComeFirstServed no schedule is faster. A schedule of the optimum may be slower.
  std::size_t devices = 1;
  // Cores of the host run the updates, in whole seconds, in place of the exchange.
  bool host_updates = false;
  std::int64_t rounds = 1;
  std::int64_t round_batch = 0;  // for ScheduleRound
  bool recomputes = true;
  bool keeps_order = true;             // whether tasks run in the order of the graph
  std::vector<double> densities = {};  // by data; empty, or 1: copies are raw
};

struct ExactTrainingAnswer {
  ExactAnswer::Kind kind = ExactAnswer::Kind::kNoSchedule;
  double seconds = 0;
  Schedule schedule = {};  // in pages, with its steps in the order of its rounds and times
  std::size_t states = 0;
};

// Returns the least time of any schedule of the graph, with these freedoms: data is copied as a
// whole at any time, and compressed or raw; tasks that may run again do so at any time; updates
// follow the last round, in any order where devices exchange gradients. Of each gradient as many
// parts as there are devices are exchanged, each added up on any device and received from any that
// has the sum; either each device updates a weight, or it receives the new values. A round takes
// its input when there is room, also before the round before has ended.
ExactTrainingAnswer SearchTrainingExactly(const ExactTraining& training, std::size_t most_states);

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_TRAINING_H_

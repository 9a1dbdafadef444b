// SPDX-License-Identifier: Apache-2.0
// SearchExactly: the least time of a small problem of operations and memory, by a walk through all
// states. It knows no graphs and no schedules, and shares no code with makers of schedules.
#ifndef TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_SEARCH_H_
#define TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_SEARCH_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::testing {

// A set of places or of operations.
using ExactSet = std::bitset<192>;

inline constexpr std::size_t kNoDevice = SIZE_MAX;  // of a place: the host, which has all memory

// A value of a datum on one device or on the host.
struct ExactPlace {
  std::size_t device = kNoDevice;
  int units = 0;  // of memory
};

struct ExactOperation {
  // It runs on the first of `actors` actors, from `actor` on, that is idle.
  std::size_t actor = 0;
  std::size_t actors = 1;
  int seconds = 0;
  ExactSet reads = {};   // have their values when it starts, and keep them while it runs
  ExactSet absent = {};  // are not there when it starts
  // Gone from its start on: values that it changes in place. No operation uses them then.
  ExactSet clears = {};
  ExactSet takes = {};  // memory from its start on, with values from its end on
  std::size_t device = 0;
  int units = 0;        // of memory of the device while it runs
  ExactSet after = {};  // operations that have started before
  bool is_due = true;   // runs exactly once; otherwise as often as there is a use
};

struct ExactProblem {
  std::vector<ExactPlace> places;
  std::vector<ExactOperation> operations;
  std::vector<int> memory_units;  // by device
  std::size_t actors = 0;
  // Sets of actors that advance at equal parts of one rate while several of them run.
  std::vector<std::vector<std::size_t>> dividers = {};
  ExactSet begin;       // places with values at the start
  ExactSet end;         // and at the end, beside others
  ExactSet may_vanish;  // places that may be given up though an operation could still use them
};

struct ExactAction {
  int seconds = 0;
  bool is_drop = false;
  std::size_t index = 0;  // of the operation, or of the place that is dropped
  std::size_t actor = 0;  // that runs the operation
};

struct ExactAnswer {
  // kNotWhole: dividers lead to times between whole seconds.
  enum class Kind { kOptimum, kNoSchedule, kTooManyStates, kNotWhole };

  Kind kind = Kind::kNoSchedule;
  int seconds = 0;
  std::vector<ExactAction> actions = {};  // in the order of their times
  std::size_t states = 0;
};

// Returns the least time at which all due operations have run and all places of `end` have values.
// Starts and drops come at the start or at ends of operations: any other start could be earlier. A
// later one may help where actors divide a rate, but the steps of a schedule never wait for a time.
// The states are walked in the order of time and of a bound on the rest (A*). Exponential.
ExactAnswer SearchExactly(const ExactProblem& problem, std::size_t most_states);

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_EXACT_SEARCH_EXACT_SEARCH_H_

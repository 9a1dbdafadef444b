// SPDX-License-Identifier: Apache-2.0
// Times of a program in which no copies divide a link: the longest path.
#include <algorithm>

#include "lib/training/simulate/shared_links.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

// Queue order is an order of all waits, so one pass is enough.
std::vector<OperationTimes> LongestPaths(const Program& program) {
  std::vector<OperationTimes> times(program.operations.size());
  std::vector<double> tails(program.streams.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ProgramOperation& operation = program.operations[i];
    double start = tails[operation.stream];
    const ProgramWait* wait = program.waits.data() + operation.first_wait;
    for (std::uint32_t left = operation.waits; left > 0; --left, ++wait) {
      start = std::max(start, times[wait->operation].end);
    }
    times[i] = {start, start + operation.seconds};
    tails[operation.stream] = times[i].end;
  }
  return times;
}

}  // namespace

std::vector<OperationTimes> TimeProgram(const Program& program) {
  const bool are_shared =
      std::any_of(program.channels.begin(), program.channels.end(),
                  [](const ProgramChannel& channel) { return channel.streams > 1; });
  return are_shared ? simulate::TimesOnSharedLinks(program) : LongestPaths(program);
}

}  // namespace tidepool

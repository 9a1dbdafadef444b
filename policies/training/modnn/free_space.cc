// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/free_space.h"

namespace tidepool::modnn {

FreeSpace::FreeSpace(const Iteration& iteration, std::size_t task)
    : iteration_(iteration), is_unused_(iteration.graph().data.size()) {
  for (std::size_t data = 0; data < is_unused_.size(); ++data) {
    if (iteration.HasValues(data) && iteration.IsThere(data) && !iteration.WasUsed(data)) Add(data);
  }
  Pass(task);
}

bool FreeSpace::Holds(std::size_t task) const {
  std::int64_t bytes =
      unused_bytes_ +
      iteration_.Rounded(iteration_.graph().tasks[task].algorithms.front().workspace_bytes);
  for (const std::size_t data : iteration_.uses().DataOf(task)) {
    if (!iteration_.Stays(data) && !is_unused_[data]) bytes += iteration_.Bytes(data);
  }
  return bytes <= iteration_.memory().capacity();
}

void FreeSpace::Pass(std::size_t task) {
  for (const std::size_t data : iteration_.uses().DataOf(task)) Remove(data);
  for (const std::size_t data : iteration_.graph().tasks[task].writes) {
    if (iteration_.uses().LastUse(data) != task) Add(data);
  }
}

void FreeSpace::Add(std::size_t data) {
  if (iteration_.Stays(data) || is_unused_[data]) return;
  is_unused_[data] = true;
  unused_bytes_ += iteration_.Bytes(data);
}

void FreeSpace::Remove(std::size_t data) {
  if (!is_unused_[data]) return;
  is_unused_[data] = false;
  unused_bytes_ -= iteration_.Bytes(data);
}

}  // namespace tidepool::modnn

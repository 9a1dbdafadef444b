// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/prepare_task.h"

#include <algorithm>
#include <vector>

#include "policies/training/modnn/offload_scheme.h"

namespace tidepool::modnn {
namespace {

class Preparation {
 public:
  Preparation(Iteration& iteration, std::size_t task)
      : iteration_(iteration),
        task_(task),
        workspace_bytes_(
            iteration.Rounded(iteration.graph().tasks[task].algorithms.front().workspace_bytes)) {}

  std::optional<MemoryMap::Block> Prepare() {
    if (!PlaceAll(MayLeave::kByBothCriteria) &&
        (iteration_.settings().as_printed || !PlaceAll(MayLeave::kAnyOther))) {
      Defragment();
    }
    iteration_.WaitUntil(ready_);
    return workspace_;
  }

 private:
  // Returns the data that has no memory, the largest first.
  std::vector<std::size_t> Homeless() const {
    std::vector<std::size_t> homeless;
    for (const std::size_t data : iteration_.DataOf(task_)) {
      if (!iteration_.IsThere(data)) homeless.push_back(data);
    }
    std::stable_sort(homeless.begin(), homeless.end(), [&](std::size_t a, std::size_t b) {
      return iteration_.Bytes(a) > iteration_.Bytes(b);
    });
    return homeless;
  }

  // Places all that has no memory yet, or nothing. Returns false where a scheme is missing.
  bool PlaceAll(MayLeave may_leave) {
    const std::vector<std::size_t> homeless = Homeless();
    std::vector<MemoryMap::Block> blocks;
    const auto make_room = [&](std::int64_t bytes, std::size_t owner) {
      const auto block = MakeRoom(iteration_, bytes, owner, may_leave, {task_, task_});
      if (block.has_value()) blocks.push_back(*block);
      return block.has_value();
    };
    bool fits = std::all_of(homeless.begin(), homeless.end(), [&](std::size_t data) {
      return make_room(iteration_.Bytes(data), data);
    });
    if (fits && workspace_bytes_ > 0) fits = make_room(workspace_bytes_, kWorkspace);
    if (!fits) {
      for (const MemoryMap::Block block : blocks) iteration_.memory().TakeBack(block);
      return false;
    }
    if (workspace_bytes_ > 0) {
      workspace_ = blocks.back();
      iteration_.WaitUntil(iteration_.memory().FreeFrom(*workspace_));
    }
    for (std::size_t i = 0; i < homeless.size(); ++i) {
      ready_ = std::max(ready_, iteration_.Place(homeless[i], blocks[i]));
    }
    return true;
  }

  // Lets all data leave, and brings that of the task back: then it lies without holes.
  void Defragment() {
    const MemoryMap& memory = iteration_.memory();
    std::vector<std::size_t> leaving;
    for (MemoryMap::Block block = memory.First(); block != kNoBlock; block = memory.Next(block)) {
      if (!memory.IsFree(block)) leaving.push_back(memory.OwnerOf(block));
    }
    for (const std::size_t data : leaving) iteration_.Leave(data);
    PlaceAll(MayLeave::kByBothCriteria);
  }

  Iteration& iteration_;
  const std::size_t task_;
  const std::int64_t workspace_bytes_;
  std::optional<MemoryMap::Block> workspace_;
  double ready_ = 0;
};

}  // namespace

std::optional<MemoryMap::Block> PrepareTask(Iteration& iteration, std::size_t task) {
  return Preparation(iteration, task).Prepare();
}

}  // namespace tidepool::modnn

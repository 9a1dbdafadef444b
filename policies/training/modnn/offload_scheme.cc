// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/offload_scheme.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tidepool::modnn {
namespace {

// The order of schemes, the best first. It never falls while a scheme grows.
using Cost = std::tuple<double, std::int64_t, std::size_t>;

// Grows one scheme from a block towards higher addresses.
class SchemeWalk {
 public:
  SchemeWalk(const Iteration& iteration, std::int64_t bytes, MayLeave may_leave,
             const NextTasks& next)
      : iteration_(iteration),
        memory_(iteration.memory()),
        bytes_(bytes),
        may_leave_(may_leave),
        next_(next) {}

  // Takes the scheme that begins with `first`, if it is cheaper than the best so far.
  void Try(MemoryMap::Block first) {
    scheme_.leaving.clear();
    scheme_.free_from = 0;
    scheme_.bytes_out = 0;
    end_out_ = iteration_.copies().EndOut();
    next_use_ = graph::kNoTask;
    std::int64_t room = 0;
    for (MemoryMap::Block block = first; block != kNoBlock; block = memory_.Next(block)) {
      if (!memory_.IsFree(block) && !Take(memory_.OwnerOf(block))) return;
      if (!IsCheaper()) return;
      room += memory_.Bytes(block);
      if (room < bytes_) continue;
      const std::int64_t begin = memory_.Offset(first);
      scheme_.free_from = std::max(scheme_.free_from, memory_.FreeFrom(begin, begin + room));
      if (IsCheaper()) {
        best_ = scheme_;
        least_ = CostOf();
      }
      return;
    }
  }

  std::optional<OffloadScheme> TakeBest() { return std::move(best_); }

 private:
  bool MayTake(std::size_t data) const {
    if (data == kWorkspace) return false;
    if (may_leave_ == MayLeave::kByBothCriteria && !iteration_.WasUsed(data)) return false;
    return iteration_.users().FirstFrom(data, next_.first) > next_.last;
  }

  // Returns false for data that may not leave.
  bool Take(std::size_t data) {
    if (!MayTake(data)) return false;
    scheme_.leaving.push_back(data);
    scheme_.free_from = std::max(scheme_.free_from, iteration_.UsedUntil(data));
    next_use_ = std::min(next_use_, iteration_.users().FirstFrom(data, next_.first));
    if (iteration_.HasCopy(data)) return true;  // it is only freed
    const std::int64_t bytes = iteration_.graph().data[data].bytes;
    end_out_ =
        std::max(end_out_, iteration_.WrittenAt(data)) + iteration_.copies().SecondsOut(bytes);
    scheme_.free_from = std::max(scheme_.free_from, end_out_);
    scheme_.bytes_out += bytes;
    return true;
  }

  Cost CostOf() const {
    return {std::max(scheme_.free_from, iteration_.now()), scheme_.bytes_out,
            graph::kNoTask - next_use_};
  }
  bool IsCheaper() const { return !best_.has_value() || CostOf() < least_; }

  const Iteration& iteration_;
  const MemoryMap& memory_;
  const std::int64_t bytes_;
  const MayLeave may_leave_;
  const NextTasks next_;
  OffloadScheme scheme_;
  double end_out_ = 0;
  std::size_t next_use_ = graph::kNoTask;  // of the scheme's data
  std::optional<OffloadScheme> best_;
  Cost least_;
};

}  // namespace

std::optional<OffloadScheme> FindScheme(const Iteration& iteration, std::int64_t bytes,
                                        MayLeave may_leave, const NextTasks& next) {
  SchemeWalk walk(iteration, bytes, may_leave, next);
  const MemoryMap& memory = iteration.memory();
  for (MemoryMap::Block block = memory.First(); block != kNoBlock; block = memory.Next(block)) {
    walk.Try(block);
  }
  return walk.TakeBest();
}

std::optional<MemoryMap::Block> MakeRoom(Iteration& iteration, std::int64_t bytes,
                                         std::size_t owner, MayLeave may_leave,
                                         const NextTasks& next) {
  if (const auto block = iteration.memory().Allocate(bytes, owner); block.has_value()) return block;
  const std::optional<OffloadScheme> scheme = FindScheme(iteration, bytes, may_leave, next);
  if (!scheme.has_value()) return std::nullopt;
  for (const std::size_t data : scheme->leaving) iteration.Leave(data);
  return iteration.memory().Allocate(bytes, owner);
}

}  // namespace tidepool::modnn

// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/offload_scheme.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tidepool::modnn {
namespace {

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

  // Returns the scheme that begins with `first`, or nothing when a block that may not leave comes
  // too early.
  std::optional<OffloadScheme> From(MemoryMap::Block first) {
    OffloadScheme scheme;
    end_out_ = iteration_.copies().EndOut();
    next_use_ = graph::kNoTask;
    std::int64_t room = 0;
    for (MemoryMap::Block block = first; block != kNoBlock; block = memory_.Next(block)) {
      if (!memory_.IsFree(block) && !Take(memory_.OwnerOf(block), scheme)) return std::nullopt;
      room += memory_.Bytes(block);
      if (room < bytes_) continue;
      const std::int64_t begin = memory_.Offset(first);
      scheme.free_from = std::max(scheme.free_from, memory_.FreeFrom(begin, begin + room));
      return scheme;
    }
    return std::nullopt;
  }

  // Returns the first task that uses data of the last scheme again.
  std::size_t next_use() const { return next_use_; }

 private:
  bool MayTake(std::size_t data) const {
    if (data == kWorkspace) return false;
    if (may_leave_ == MayLeave::kByBothCriteria && !iteration_.WasUsed(data)) return false;
    return iteration_.users().FirstFrom(data, next_.first) > next_.last;
  }

  bool Take(std::size_t data, OffloadScheme& scheme) {
    if (!MayTake(data)) return false;
    scheme.leaving.push_back(data);
    scheme.free_from = std::max(scheme.free_from, iteration_.UsedUntil(data));
    next_use_ = std::min(next_use_, iteration_.users().FirstFrom(data, next_.first));
    if (iteration_.HasCopy(data)) return true;  // it is only freed
    const std::int64_t bytes = iteration_.graph().data[data].bytes;
    end_out_ =
        std::max(end_out_, iteration_.WrittenAt(data)) + iteration_.copies().SecondsOut(bytes);
    scheme.free_from = std::max(scheme.free_from, end_out_);
    scheme.bytes_out += bytes;
    return true;
  }

  const Iteration& iteration_;
  const MemoryMap& memory_;
  const std::int64_t bytes_;
  const MayLeave may_leave_;
  const NextTasks next_;
  double end_out_ = 0;
  std::size_t next_use_ = graph::kNoTask;
};

}  // namespace

std::optional<OffloadScheme> FindScheme(const Iteration& iteration, std::int64_t bytes,
                                        MayLeave may_leave, const NextTasks& next) {
  using Cost = std::tuple<double, std::int64_t, std::size_t>;
  SchemeWalk walk(iteration, bytes, may_leave, next);
  std::optional<OffloadScheme> best;
  Cost least;
  const MemoryMap& memory = iteration.memory();
  for (MemoryMap::Block block = memory.First(); block != kNoBlock; block = memory.Next(block)) {
    std::optional<OffloadScheme> scheme = walk.From(block);
    if (!scheme.has_value()) continue;
    const Cost cost = {std::max(scheme->free_from, iteration.now()), scheme->bytes_out,
                       graph::kNoTask - walk.next_use()};
    if (best.has_value() && least <= cost) continue;
    best = std::move(scheme);
    least = cost;
  }
  return best;
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

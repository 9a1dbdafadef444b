// SPDX-License-Identifier: Apache-2.0
// The policy tflms: Le et al., "TFLMS: Large model support in TensorFlow by graph rewriting",
// arXiv 1807.02037. No operation waits for memory, so it may not fit where other policies do.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/sweep.h"
#include "policies/training/chain/transfer_schedule.h"

namespace tidepool::chain_policies {
namespace {

// The times when the first `tensors` activations are offloaded, and each is fetched when the
// backward operation `ahead` before its own starts.
class TflmsTimes {
 public:
  TflmsTimes(const Chain& chain, std::size_t tensors, std::size_t ahead)
      : chain_(chain), tensors_(tensors), ahead_(ahead) {
    RunForward();
    RunBackward();
  }

  bool Fits() const { return ForwardFits() && BackwardFits(); }
  const ChainTimes& times() const { return times_; }

 private:
  std::size_t operations() const { return chain_.forward_seconds.size(); }
  double CopySeconds(std::size_t i) const {
    return static_cast<double>(chain_.x[i]) / chain_.link_bytes_per_second;
  }
  double BackwardEnd(std::size_t j) const {
    return times_.backward_starts[j] + chain_.backward_seconds[j];
  }

  void RunForward();
  void RunBackward();
  bool ForwardFits() const;
  bool BackwardFits() const;

  const Chain& chain_;
  const std::size_t tensors_;
  const std::size_t ahead_;
  ChainTimes times_;
  std::vector<double> left_;  // when x_0, x_1 and so on have left; ascending
  double link_ = 0;
};

void TflmsTimes::RunForward() {
  double seconds = 0;
  for (std::size_t i = 0; i < operations(); ++i) {
    times_.forward_starts.push_back(seconds);
    if (i < tensors_) {
      times_.offload_starts.push_back(std::max(link_, seconds));
      link_ = times_.offload_starts.back() + CopySeconds(i);
    }
    seconds += chain_.forward_seconds[i];
    if (i < tensors_) left_.push_back(std::max(link_, seconds));
  }
  times_.seconds = seconds;
}

// Prefetches wait in the link's queue for all offloads.
void TflmsTimes::RunBackward() {
  times_.backward_starts.resize(operations());
  std::vector<double> fetched(tensors_);
  std::size_t next = tensors_;  // x_(next - 1) is the next to be fetched
  for (std::size_t j = operations(); j-- > 0;) {
    // Prefetches that start with B_j, except that B_j waits for its own.
    const auto fetch = [&](double seconds) {
      --next;
      times_.prefetch_starts.push_back(std::max(link_, seconds));
      link_ = times_.prefetch_starts.back() + CopySeconds(next);
      fetched[next] = link_;
    };
    const double ready = times_.seconds;
    if (next == j + 1) fetch(ready);
    times_.backward_starts[j] = j < tensors_ ? std::max(ready, fetched[j]) : ready;
    while (next > 0 && next - 1 + ahead_ >= j) fetch(times_.backward_starts[j]);
    times_.seconds = BackwardEnd(j);
  }
}

bool TflmsTimes::ForwardFits() const {
  std::int64_t used = chain_.x[0];
  std::size_t gone = 0;
  for (std::size_t i = 0; i < operations(); ++i) {
    for (; gone < tensors_ && left_[gone] <= times_.forward_starts[i]; ++gone) {
      used -= chain_.x[gone];
    }
    used += chain_.x[i + 1];
    if (used + chain_.forward_extra[i] > chain_.memory_bytes) return false;
  }
  return true;
}

// All prefetches come after all offloads. So the most memory of B_j is used at its start or at its
// end.
bool TflmsTimes::BackwardFits() const {
  std::int64_t used = 0;
  for (const std::int64_t bytes : chain_.x) used += bytes;
  std::size_t gone = 0;
  std::size_t come = 0;
  for (std::size_t j = operations(); j-- > 0;) {
    const std::int64_t own = chain_.y[j] + chain_.y[j + 1] + chain_.backward_extra[j];
    for (const double until : {times_.backward_starts[j], BackwardEnd(j)}) {
      for (; gone < tensors_ && left_[gone] <= until; ++gone) used -= chain_.x[gone];
      const bool is_start = until == times_.backward_starts[j];
      while (come < tensors_ && (times_.prefetch_starts[come] < until ||
                                 (is_start && times_.prefetch_starts[come] <= until))) {
        used += chain_.x[tensors_ - 1 - come++];
      }
      if (used + own > chain_.memory_bytes) return false;
    }
    used -= chain_.x[j + 1];
  }
  return true;
}

ChainTransfers FirstTensors(std::size_t tensors) {
  std::vector<std::size_t> set(tensors);
  for (std::size_t i = 0; i < tensors; ++i) set[i] = i;
  return OrderedTransfers(set);
}

}  // namespace

absl::StatusOr<ChainSchedule> MakeTflms(const Chain& chain, const ChainPolicyOptions& options) {
  const std::size_t operations = chain.forward_seconds.size();
  const auto most = static_cast<std::size_t>(std::sqrt(MostSchedules(operations)));
  const std::vector<std::size_t> values = Sweep(operations, std::max<std::size_t>(most, 2));
  double least = std::numeric_limits<double>::infinity();
  ChainSchedule best;
  for (const std::size_t tensors : values) {
    for (const std::size_t ahead : values) {
      if (options.stop.stop_requested()) break;
      const TflmsTimes tried(chain, tensors, ahead);
      if (tried.times().seconds >= least || !tried.Fits()) continue;
      least = tried.times().seconds;
      best = ScheduleOf(chain, FirstTensors(tensors), tried.times());
    }
  }
  if (!best.steps.empty()) return best;
  return absl::ResourceExhaustedError(
      absl::StrCat("no number of tensors and layers ahead fits into ", chain.memory_bytes,
                   " bytes; tflms delays no operation, so try another policy"));
}

}  // namespace tidepool::chain_policies

// SPDX-License-Identifier: Apache-2.0
// Places the operations and transfers of one half of a chain.
#include "lib/training/chain/chain_halves.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::chain {
namespace {

using Indices = std::vector<std::size_t>;

// The memory of activations that leaves while the half goes on.
class Leaving {
 public:
  void Add(double seconds, std::int64_t bytes) { queue_.emplace(seconds, bytes); }
  bool empty() const { return queue_.empty(); }
  // Removes the next to leave, and returns its time and its bytes.
  std::pair<double, std::int64_t> Take() {
    const std::pair<double, std::int64_t> next = queue_.top();
    queue_.pop();
    return next;
  }

 private:
  using Entry = std::pair<double, std::int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

// Places one half. The two halves differ in the memory that an operation takes and gives back, and
// in the operation after which an activation may be transferred and may leave.
class HalfPlacer {
 public:
  HalfPlacer(const Chain& chain, Indices order, bool is_forward)
      : chain_(chain), order_(std::move(order)), is_forward_(is_forward) {}

  absl::StatusOr<Half> Place();

 private:
  std::size_t operations() const { return chain_.forward_seconds.size(); }
  double Seconds(std::size_t i) const {
    return is_forward_ ? chain_.forward_seconds[i] : chain_.backward_seconds[i];
  }
  std::int64_t TakenBy(std::size_t i) const {
    return is_forward_ ? chain_.x[i + 1] + chain_.forward_extra[i]
                       : chain_.x[i + 1] + chain_.y[i + 1] + chain_.backward_extra[i];
  }
  std::int64_t GivenBackBy(std::size_t i) const {
    return is_forward_ ? chain_.forward_extra[i] : chain_.backward_extra[i] + chain_.y[i];
  }
  // Forward, x_i may be sent beside F_i, but leaves after it. Backward, x_i must have come before
  // B_i starts: in reversed time, its transfer starts after B_i.
  bool IsReady(std::size_t activation, std::size_t ended) const {
    return is_forward_ ? activation <= ended : activation < ended;
  }
  double ReadyAt(std::size_t activation) const;
  void Transfer(std::size_t ended);
  absl::Status WaitForMemory(std::size_t i, double& seconds);

  const Chain& chain_;
  const Indices order_;
  const bool is_forward_;
  Half half_;
  Leaving leaving_;
  std::size_t next_ = 0;      // position in order_ of the next transfer
  std::size_t held_ = kNone;  // activation that was sent, or will have been, before F_i ends
  double link_ = 0;           // end of the last transfer
  std::int64_t used_ = 0;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
};

double HalfPlacer::ReadyAt(std::size_t activation) const {
  if (!is_forward_) return half_.ends[activation];
  return activation == 0 ? 0 : half_.ends[activation - 1];
}

// Queues all transfers that are ready when `ended` operations have ended.
void HalfPlacer::Transfer(std::size_t ended) {
  for (; next_ < order_.size() && IsReady(order_[next_], ended); ++next_) {
    const std::size_t activation = order_[next_];
    const double start = std::max(link_, ReadyAt(activation));
    link_ = start + static_cast<double>(chain_.x[activation]) / chain_.link_bytes_per_second;
    half_.transfer_starts.push_back(start);
    half_.transfer_ends.push_back(link_);
    if (is_forward_ && activation == ended) {
      held_ = next_;
    } else {
      leaving_.Add(link_, chain_.x[activation]);
    }
  }
}

absl::Status HalfPlacer::WaitForMemory(std::size_t i, double& seconds) {
  while (used_ + TakenBy(i) > chain_.memory_bytes) {
    if (leaving_.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(is_forward_ ? "F_" : "B_", i, " needs ",
                       used_ + TakenBy(i) - chain_.memory_bytes, " bytes more than the memory of ",
                       chain_.memory_bytes, " when all offloads that may end have ended"));
    }
    const auto [left, bytes] = leaving_.Take();
    seconds = std::max(seconds, left);
    used_ -= bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<Half> HalfPlacer::Place() {
  used_ = is_forward_ ? chain_.x[0] : chain_.x[0] + chain_.y[0];
  double seconds = 0;
  for (std::size_t i = 0; i < operations(); ++i) {
    Transfer(i);
    if (absl::Status status = WaitForMemory(i, seconds); !status.ok()) return status;
    half_.starts.push_back(seconds);
    used_ += TakenBy(i);
    seconds += Seconds(i);
    half_.ends.push_back(seconds);
    used_ -= GivenBackBy(i);
    if (held_ == kNone) continue;
    leaving_.Add(std::max(half_.transfer_ends[held_], seconds), chain_.x[order_[held_]]);
    held_ = kNone;
  }
  Transfer(operations());
  return std::move(half_);
}

}  // namespace

absl::StatusOr<Half> PlaceHalf(const Chain& chain, const Indices& order, bool is_forward) {
  return HalfPlacer(chain, order, is_forward).Place();
}

}  // namespace tidepool::chain

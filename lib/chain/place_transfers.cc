// SPDX-License-Identifier: Apache-2.0
// Times of a chain's operations and transfers. Each half is placed by itself: the forward half from
// the start of the iteration on, the backward half from its end, in reversed time. Then the gap
// between them follows from the pairs of moments that must not meet.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/schedule/chain.h"

namespace tidepool {
namespace {

using Indices = std::vector<std::size_t>;
using Bytes = std::vector<std::int64_t>;

// One half of the chain. In reversed time the backward half is like the forward half: operation i
// takes memory when it starts, gives some back when it ends, and transfers make room.
struct Half {
  std::vector<double> starts;           // of operations, in the half's own time
  std::vector<double> ends;             // of operations
  std::vector<double> transfer_starts;  // by position in the half's order of transfers
  std::vector<double> transfer_ends;
};

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

// The two halves, each with its own time: the forward half's ends with F_L at 0, the backward
// half's starts with B_L at 0. The gap lies between the two zeros.
class GapFinder {
 public:
  GapFinder(const Chain& chain, const ChainTransfers& transfers, const Half& forward,
            const Half& backward);

  double Find();

 private:
  void KeepLink();
  void KeepMemoryBeside(std::size_t i);  // prefetches beside F_i
  void KeepMemoryOf(std::size_t j);      // B_j beside offloads
  // Makes the gap so large that a moment of the backward half is not before one of the forward
  // half.
  void Separate(double forward, double backward) { gap_ = std::max(gap_, forward - backward); }

  double ForwardEnd(std::size_t i) const { return forward_.ends[i] - forward_.ends.back(); }
  double BackwardStart(std::size_t j) const { return backward_.ends.back() - backward_.ends[j]; }
  double OffloadEnd(std::size_t k) const {
    return forward_.transfer_ends[k] - forward_.ends.back();
  }
  // The transfers of the backward half are in reversed order and time.
  double PrefetchStart(std::size_t k) const {
    return backward_.ends.back() - backward_.transfer_ends[transfers_.prefetches.size() - 1 - k];
  }

  const Chain& chain_;
  const ChainTransfers& transfers_;
  const Half& forward_;
  const Half& backward_;
  std::vector<bool> is_moved_;
  Bytes stays_;       // bytes of x_0, ..., x_(i+1) that are not offloaded
  Bytes prefetched_;  // bytes of the first k + 1 prefetches
  Bytes leaving_;     // bytes of the offloads from the k-th on; one more: 0
  double gap_ = 0;
};

GapFinder::GapFinder(const Chain& chain, const ChainTransfers& transfers, const Half& forward,
                     const Half& backward)
    : chain_(chain),
      transfers_(transfers),
      forward_(forward),
      backward_(backward),
      is_moved_(chain.x.size()),
      leaving_(transfers.offloads.size() + 1) {
  for (const std::size_t moved : transfers.offloads) is_moved_[moved] = true;
  std::int64_t sum = is_moved_[0] ? 0 : chain.x[0];
  for (std::size_t i = 1; i < chain.x.size(); ++i) {
    sum += is_moved_[i] ? 0 : chain.x[i];
    stays_.push_back(sum);
  }
  sum = 0;
  for (const std::size_t moved : transfers.prefetches) {
    sum += chain.x[moved];
    prefetched_.push_back(sum);
  }
  for (std::size_t k = transfers.offloads.size(); k-- > 0;) {
    leaving_[k] = leaving_[k + 1] + chain.x[transfers.offloads[k]];
  }
}

void GapFinder::KeepLink() {
  Separate(OffloadEnd(transfers_.offloads.size() - 1), PrefetchStart(0));
}

// All offloads have ended when the first prefetch starts. So beside F_i only x_i itself may be on
// the device and not have left; its prefetch then takes no memory until F_i ends.
void GapFinder::KeepMemoryBeside(std::size_t i) {
  std::int64_t room = chain_.memory_bytes - stays_[i] - chain_.forward_extra[i];
  const bool stays_until_end = is_moved_[i];
  if (stays_until_end) room -= chain_.x[i];
  for (std::size_t k = 0; k < prefetched_.size() && ForwardEnd(i) > PrefetchStart(k) + gap_; ++k) {
    const std::size_t moved = transfers_.prefetches[k];
    if (stays_until_end && moved == i) room += chain_.x[i];
    if (prefetched_[k] > room) return Separate(ForwardEnd(i), PrefetchStart(k));
  }
}

// Before the first prefetch, B_j runs beside the offloads that have not ended.
void GapFinder::KeepMemoryOf(std::size_t j) {
  const std::int64_t room =
      chain_.memory_bytes - stays_[j] - chain_.y[j] - chain_.y[j + 1] - chain_.backward_extra[j];
  const auto fits = std::partition_point(leaving_.begin(), leaving_.end(),
                                         [&](std::int64_t bytes) { return bytes > room; });
  if (fits == leaving_.begin()) return;
  Separate(OffloadEnd(static_cast<std::size_t>(fits - leaving_.begin()) - 1), BackwardStart(j));
}

double GapFinder::Find() {
  if (transfers_.offloads.empty()) return 0;
  KeepLink();
  for (std::size_t j = chain_.forward_seconds.size(); j-- > 0;) {
    if (BackwardStart(j) >= PrefetchStart(0)) break;
    KeepMemoryOf(j);
  }
  for (std::size_t i = chain_.forward_seconds.size(); i-- > 0;) {
    if (ForwardEnd(i) <= PrefetchStart(0) + gap_) break;
    KeepMemoryBeside(i);
  }
  return gap_;
}

absl::Status CheckIndices(const Chain& chain, const ChainTransfers& transfers) {
  std::vector<bool> is_offloaded(chain.forward_seconds.size());
  std::vector<bool> is_prefetched(chain.forward_seconds.size());
  const std::pair<const Indices&, std::vector<bool>&> lists[] = {
      {transfers.offloads, is_offloaded}, {transfers.prefetches, is_prefetched}};
  for (const auto& [list, seen] : lists) {
    for (const std::size_t index : list) {
      if (index >= seen.size() || seen[index]) {
        return absl::InvalidArgumentError(absl::StrCat("a transfer of activation ", index,
                                                       ", expected indices from 0 to ",
                                                       seen.size() - 1, ", each once"));
      }
      seen[index] = true;
    }
  }
  if (is_offloaded == is_prefetched) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(transfers.offloads.size(), " offloads and ", transfers.prefetches.size(),
                   " prefetches of different activations, expected the same activations"));
}

// Puts both halves on one clock.
ChainTimes Join(const Half& forward, const Half& backward, double gap) {
  ChainTimes times;
  times.gap = gap;
  const double turn = forward.ends.back() + gap;
  times.seconds = turn + backward.ends.back();
  times.forward_starts = forward.starts;
  times.offload_starts = forward.transfer_starts;
  times.backward_starts.reserve(backward.ends.size());
  for (const double end : backward.ends) times.backward_starts.push_back(times.seconds - end);
  times.prefetch_starts.reserve(backward.transfer_ends.size());
  for (std::size_t k = backward.transfer_ends.size(); k-- > 0;) {
    times.prefetch_starts.push_back(times.seconds - backward.transfer_ends[k]);
  }
  return times;
}

}  // namespace

ChainTransfers OrderedTransfers(absl::Span<const std::size_t> set) {
  ChainTransfers transfers;
  transfers.offloads.assign(set.begin(), set.end());
  std::sort(transfers.offloads.begin(), transfers.offloads.end());
  transfers.prefetches.assign(transfers.offloads.rbegin(), transfers.offloads.rend());
  return transfers;
}

absl::StatusOr<ChainTimes> PlaceTransfers(const Chain& chain, const ChainTransfers& transfers) {
  if (absl::Status status = CheckIndices(chain, transfers); !status.ok()) return status;
  absl::StatusOr<Half> forward = HalfPlacer(chain, transfers.offloads, true).Place();
  if (!forward.ok()) return forward.status();
  const Indices reversed(transfers.prefetches.rbegin(), transfers.prefetches.rend());
  absl::StatusOr<Half> backward = HalfPlacer(chain, reversed, false).Place();
  if (!backward.ok()) return backward.status();
  return Join(*forward, *backward, GapFinder(chain, transfers, *forward, *backward).Find());
}

absl::StatusOr<double> OrderedMakespan(const Chain& chain, absl::Span<const std::size_t> set) {
  absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, OrderedTransfers(set));
  if (!times.ok()) return times.status();
  return times->seconds;
}

}  // namespace tidepool

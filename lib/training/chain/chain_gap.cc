// SPDX-License-Identifier: Apache-2.0
// Finds the gap between the halves of a chain, from the pairs of moments that must not meet.
#include <algorithm>
#include <vector>

#include "lib/training/chain/chain_halves.h"

namespace tidepool::chain {
namespace {

using Bytes = std::vector<std::int64_t>;

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

}  // namespace

double FindGap(const Chain& chain, const ChainTransfers& transfers, const Half& forward,
               const Half& backward) {
  return GapFinder(chain, transfers, forward, backward).Find();
}

}  // namespace tidepool::chain

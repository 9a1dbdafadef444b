// SPDX-License-Identifier: Apache-2.0
// Rounds sizes and times to slots.
#include "policies/training/chain/slots.h"

#include <cmath>
#include <vector>

#include "absl/numeric/int128.h"

namespace tidepool::chain_policies {
namespace {

class SlotRounding {
 public:
  SlotRounding(const Chain& chain, std::int64_t slots)
      : slots_(slots), memory_(chain.memory_bytes), rate_(chain.link_bytes_per_second) {}

  double Up(std::int64_t bytes) const {
    return static_cast<double>((absl::int128(bytes) * slots_ + memory_ - 1) / memory_);
  }
  std::vector<double> Up(const std::vector<std::int64_t>& bytes) const {
    std::vector<double> rounded;
    rounded.reserve(bytes.size());
    for (const std::int64_t value : bytes) rounded.push_back(Up(value));
    return rounded;
  }
  // Rounds the sums of the first sizes, and returns their differences.
  std::vector<double> SumsUp(const std::vector<std::int64_t>& bytes) const {
    std::vector<double> rounded;
    std::int64_t sum = 0;
    for (const std::int64_t value : bytes) {
      const double before = Up(sum);
      sum += value;
      rounded.push_back(Up(sum) - before);
    }
    return rounded;
  }
  std::vector<double> SumsDown(const std::vector<double>& seconds) const {
    std::vector<double> rounded;
    double sum = 0;
    for (const double value : seconds) {
      const double before = Down(sum);
      sum += value;
      rounded.push_back(Down(sum) - before);
    }
    return rounded;
  }

 private:
  double Down(double seconds) const {
    return std::floor(seconds * rate_ * static_cast<double>(slots_) / static_cast<double>(memory_));
  }

  const std::int64_t slots_;
  const std::int64_t memory_;
  const double rate_;
};

}  // namespace

FractionalChain InSlots(const Chain& chain, std::int64_t slots) {
  const SlotRounding rounding(chain, slots);
  return {.forward = rounding.SumsDown(chain.forward_seconds),
          .backward = rounding.SumsDown(chain.backward_seconds),
          .forward_extra = rounding.Up(chain.forward_extra),
          .backward_extra = rounding.Up(chain.backward_extra),
          .x = rounding.SumsUp(chain.x),
          .y = rounding.Up(chain.y),
          .memory = static_cast<double>(slots)};
}

bool GiveSlot(const Chain& chain, FractionalChain& in_slots) {
  const double slot = static_cast<double>(chain.memory_bytes) / in_slots.memory;
  std::size_t closest = chain.x.size();
  double least = 0;
  for (std::size_t i = 0; i < chain.x.size(); ++i) {
    const double lacks = static_cast<double>(chain.x[i]) / slot - in_slots.x[i];
    constexpr double kPartOfSlot = 1e-9;  // no reason for another slot: rounding makes it
    if (lacks <= kPartOfSlot || (closest < chain.x.size() && lacks >= least)) continue;
    closest = i;
    least = lacks;
  }
  if (closest == chain.x.size()) return false;
  ++in_slots.x[closest];
  return true;
}

void GiveAllSlots(const Chain& chain, FractionalChain& in_slots) {
  in_slots.x = SlotRounding(chain, static_cast<std::int64_t>(in_slots.memory)).Up(chain.x);
}

}  // namespace tidepool::chain_policies

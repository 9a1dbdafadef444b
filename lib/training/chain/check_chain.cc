// SPDX-License-Identifier: Apache-2.0
// Checks lengths and ranges of a chain.
#include "lib/training/chain/check_chain.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph.h"

namespace tidepool::chain {
namespace {

using Fault = std::optional<ChainFault>;
using Bytes = std::vector<std::int64_t>;

class FaultFinder {
 public:
  FaultFinder(const Chain& chain, std::size_t operations, const KeyNames& names)
      : chain_(chain), operations_(operations), names_(names) {}

  Fault Find();

 private:
  std::string Name(Key key) const { return NameOf(key, names_); }
  template <typename Number>
  void CheckLength(Key key, const std::vector<Number>& list, std::size_t expected);
  void CheckLengths();
  void CheckScalars();
  void CheckSeconds(Key key, const std::vector<double>& seconds);
  void CheckBytes(Key key, const Bytes& bytes);
  void CheckBackwardExtra();
  void CheckOutputs();
  void CheckRunsOnce();
  void Fail(Key key, const std::string& what) {
    if (!fault_.has_value()) fault_ = ChainFault{key, what};
  }

  const Chain& chain_;
  const std::size_t operations_;
  const KeyNames& names_;
  std::int64_t sum_ = 0;
  Fault fault_;
};

template <typename Number>
void FaultFinder::CheckLength(Key key, const std::vector<Number>& list, std::size_t expected) {
  if (list.size() == expected) return;
  Fail(key, absl::StrCat(Name(key), " has ", list.size(), " numbers, expected ", expected, ": L + ",
                         expected - operations_ + 1));
}

void FaultFinder::CheckLengths() {
  CheckLength(Key::kForwardSeconds, chain_.forward_seconds, operations_);
  CheckLength(Key::kBackwardSeconds, chain_.backward_seconds, operations_);
  CheckLength(Key::kForwardExtra, chain_.forward_extra, operations_);
  CheckLength(Key::kBackwardExtra, chain_.backward_extra, operations_);
  CheckLength(Key::kX, chain_.x, operations_ + 1);
  CheckLength(Key::kY, chain_.y, operations_ + 1);
  if (!chain_.output.empty()) CheckLength(Key::kOutput, chain_.output, operations_ + 1);
  if (!chain_.output_extra.empty()) {
    CheckLength(Key::kOutputExtra, chain_.output_extra, operations_);
  }
}

void FaultFinder::CheckScalars() {
  const double link = chain_.link_bytes_per_second;
  if (!(link > 0 && link <= kMostLinkBytesPerSecond)) {
    Fail(Key::kLink, absl::StrCat("beta is ", link,
                                  " bytes a second, expected more than 0, and at most 10^18"));
  }
  const std::int64_t memory = chain_.memory_bytes;
  if (memory < 0 || memory > kMostGraphBytes) {
    Fail(Key::kMemory, absl::StrCat("M_gpu is ", memory, " bytes, expected 0 to 2^60"));
  }
}

void FaultFinder::CheckSeconds(Key key, const std::vector<double>& seconds) {
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] >= 0 && seconds[i] <= kMostTaskSeconds) continue;
    return Fail(
        key, absl::StrCat(Name(key), "[", i, "] is ", seconds[i], " seconds, expected 0 to 10^9"));
  }
}

// Adds the sizes of a list to the sum, which one list cannot overflow.
void FaultFinder::CheckBytes(Key key, const Bytes& bytes) {
  for (std::size_t i = 0; i < bytes.size() && !fault_.has_value(); ++i) {
    if (bytes[i] < 0 || bytes[i] > kMostDataBytes) {
      return Fail(key,
                  absl::StrCat(Name(key), "[", i, "] is ", bytes[i], " bytes, expected 0 to 2^50"));
    }
    sum_ += bytes[i];
    if (sum_ > kMostGraphBytes) {
      return Fail(key, absl::StrCat("the sizes up to ", Name(key), "[", i, "] have ", sum_,
                                    " bytes, expected at most 2^60 together"));
    }
  }
}

// Gradients that B_i leaves as they are count in y_i and y_(i+1), and exB_i takes them off once.
void FaultFinder::CheckBackwardExtra() {
  Bytes bytes = chain_.backward_extra;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::int64_t both = std::min(chain_.y[i], chain_.y[i + 1]);
    if (bytes[i] >= 0) continue;
    if (bytes[i] < -both) {
      return Fail(Key::kBackwardExtra,
                  absl::StrCat(Name(Key::kBackwardExtra), "[", i, "] is ", bytes[i],
                               " bytes, expected at least the smaller of ", Name(Key::kY), "[", i,
                               "] and ", Name(Key::kY), "[", i + 1, "] below 0, and up to 2^50"));
    }
    bytes[i] = 0;
  }
  CheckBytes(Key::kBackwardExtra, bytes);
}

void FaultFinder::CheckOutputs() {
  for (std::size_t i = 0; i < chain_.output.size(); ++i) {
    if (chain_.output[i] >= 0 && chain_.output[i] <= chain_.x[i]) continue;
    return Fail(Key::kOutput,
                absl::StrCat("o[", i, "] is ", chain_.output[i], " bytes, expected 0 to the ",
                             chain_.x[i], " of x[", i, "]"));
  }
}

void FaultFinder::CheckRunsOnce() {
  const std::vector<std::size_t>& once = chain_.runs_once;
  for (std::size_t k = 0; k < once.size(); ++k) {
    const bool ascends = k == 0 || once[k] > once[k - 1];
    if (ascends && once[k] < operations_) continue;
    return Fail(Key::kRunsOnce,
                absl::StrCat("once[", k, "] is ", once[k],
                             ", expected ascending numbers from 0 to ", operations_ - 1));
  }
}

Fault FaultFinder::Find() {
  if (operations_ == 0) {
    Fail(Key::kForwardSeconds, "uF is empty, expected at least one operation");
    return fault_;
  }
  CheckScalars();
  CheckLengths();
  if (fault_.has_value()) return fault_;
  CheckSeconds(Key::kForwardSeconds, chain_.forward_seconds);
  CheckSeconds(Key::kBackwardSeconds, chain_.backward_seconds);
  CheckBytes(Key::kForwardExtra, chain_.forward_extra);
  CheckBackwardExtra();
  CheckBytes(Key::kX, chain_.x);
  CheckBytes(Key::kY, chain_.y);
  CheckBytes(Key::kOutputExtra, chain_.output_extra);
  CheckOutputs();
  CheckRunsOnce();
  return fault_;
}

}  // namespace

std::optional<ChainFault> FindFault(const Chain& chain, std::size_t operations,
                                    const KeyNames& names) {
  return FaultFinder(chain, operations, names).Find();
}

}  // namespace tidepool::chain

namespace tidepool {

absl::Status ValidateChain(const Chain& chain) {
  const auto fault = chain::FindFault(chain, chain.forward_seconds.size());
  return fault.has_value() ? absl::InvalidArgumentError(fault->what) : absl::OkStatus();
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Checks lengths and ranges of a chain.
#include "lib/chain/check_chain.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::chain {
namespace {

using Fault = std::optional<ChainFault>;

std::string Name(Key key) { return std::string(KeyName(key)); }

template <typename Number>
Fault FindLengthFault(Key key, const std::vector<Number>& list, std::size_t expected) {
  if (list.size() == expected) return std::nullopt;
  return ChainFault{key, absl::StrCat(Name(key), " has ", list.size(), " numbers, expected ",
                                      expected, ", since L is ", expected - 1, " or one less")};
}

Fault FindSecondsFault(Key key, const std::vector<double>& seconds) {
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] >= 0 && seconds[i] <= kMostTaskSeconds) continue;
    return ChainFault{
        key, absl::StrCat(Name(key), "[", i, "] is ", seconds[i], " seconds, expected 0 to 10^9")};
  }
  return std::nullopt;
}

// Adds the sizes of a list to `sum`, which one list cannot overflow.
Fault FindBytesFault(Key key, const std::vector<std::int64_t>& bytes, std::int64_t& sum) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] < 0 || bytes[i] > kMostDataBytes) {
      return ChainFault{
          key, absl::StrCat(Name(key), "[", i, "] is ", bytes[i], " bytes, expected 0 to 2^50")};
    }
    sum += bytes[i];
    if (sum > kMostGraphBytes) {
      return ChainFault{key, absl::StrCat("the sizes up to ", Name(key), "[", i, "] have ", sum,
                                          " bytes, expected at most 2^60 together")};
    }
  }
  return std::nullopt;
}

Fault FindLengthFaults(const Chain& chain, std::size_t operations) {
  Fault fault = FindLengthFault(Key::kForwardSeconds, chain.forward_seconds, operations);
  if (!fault) fault = FindLengthFault(Key::kBackwardSeconds, chain.backward_seconds, operations);
  if (!fault) fault = FindLengthFault(Key::kForwardExtra, chain.forward_extra, operations);
  if (!fault) fault = FindLengthFault(Key::kBackwardExtra, chain.backward_extra, operations);
  if (!fault) fault = FindLengthFault(Key::kX, chain.x, operations + 1);
  if (!fault) fault = FindLengthFault(Key::kY, chain.y, operations + 1);
  return fault;
}

Fault FindRangeFault(const Chain& chain) {
  std::int64_t sum = 0;
  Fault fault = FindSecondsFault(Key::kForwardSeconds, chain.forward_seconds);
  if (!fault) fault = FindSecondsFault(Key::kBackwardSeconds, chain.backward_seconds);
  if (!fault) fault = FindBytesFault(Key::kForwardExtra, chain.forward_extra, sum);
  if (!fault) fault = FindBytesFault(Key::kBackwardExtra, chain.backward_extra, sum);
  if (!fault) fault = FindBytesFault(Key::kX, chain.x, sum);
  if (!fault) fault = FindBytesFault(Key::kY, chain.y, sum);
  return fault;
}

}  // namespace

std::optional<ChainFault> FindFault(const Chain& chain, std::size_t operations) {
  if (operations == 0) {
    return ChainFault{Key::kForwardSeconds, "uF is empty, expected at least one operation"};
  }
  if (!(chain.link_bytes_per_second > 0 &&
        chain.link_bytes_per_second <= kMostLinkBytesPerSecond)) {
    return ChainFault{Key::kLink, absl::StrCat("beta is ", chain.link_bytes_per_second,
                                               " bytes a second, expected more than 0, and at "
                                               "most 10^18")};
  }
  if (chain.memory_bytes < 0 || chain.memory_bytes > kMostGraphBytes) {
    return ChainFault{Key::kMemory,
                      absl::StrCat("M_gpu is ", chain.memory_bytes, " bytes, expected 0 to 2^60")};
  }
  Fault fault = FindLengthFaults(chain, operations);
  return fault ? fault : FindRangeFault(chain);
}

}  // namespace tidepool::chain

namespace tidepool {

absl::Status ValidateChain(const Chain& chain) {
  const auto fault = chain::FindFault(chain, chain.forward_seconds.size());
  return fault.has_value() ? absl::InvalidArgumentError(fault->what) : absl::OkStatus();
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The micro-batches that a policy of micro-cuDNN allows.
#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

std::vector<std::int64_t> PowersOfTwo(std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < batch; size *= 2) sizes.push_back(size);
  sizes.push_back(batch);
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> MicroBatchSizes(std::string_view policy,
                                                          std::int64_t batch) {
  if (policy == "undivided") return std::vector<std::int64_t>{batch};
  if (policy == "powerOfTwo") return PowersOfTwo(batch);
  std::vector<std::int64_t> sizes;
  if (policy == "all") {
    sizes.resize(static_cast<std::size_t>(batch));
    std::iota(sizes.begin(), sizes.end(), 1);
    return sizes;
  }
  const absl::string_view text(policy.data(), policy.size());
  for (const absl::string_view number : absl::StrSplit(text, ',')) {
    std::int64_t size = 0;
    if (!absl::SimpleAtoi(number, &size) || size < 1 || size > kMostKernelBatch) {
      return absl::InvalidArgumentError(
          absl::StrCat("the unknown policy '", absl::CHexEscape(text.substr(0, 40)),
                       "', expected undivided, powerOfTwo, all, or numbers such as 8,16,32"));
    }
    sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace tidepool

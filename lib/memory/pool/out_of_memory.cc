// SPDX-License-Identifier: Apache-2.0
// The first cause that applies decides which remedy is named.
#include "lib/memory/pool/out_of_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "tidepool/placement.h"

namespace tidepool::pool {
namespace {

// Shows sizes beyond the range of int64_t too.
std::string Requested(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  return size < 0 ? absl::StrCat(bytes, " bytes") : text::ExactSize(size);
}

std::string Help(std::size_t bytes, const PoolStats& stats, std::string_view growth_error,
                 const PoolWords& words) {
  if (bytes > static_cast<std::size_t>(kMaxRequestBytes)) {
    return absl::StrCat("it can never fit: one allocation has at most ",
                        text::ExactSize(kMaxRequestBytes));
  }
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (wanted > stats.max_bytes) return "it can never fit: raise max_bytes";
  if (!growth_error.empty()) {
    return absl::StrCat("the pool is within its budget but cannot grow: ",
                        std::string(growth_error));
  }
  const std::int64_t available = stats.max_bytes - stats.live_bytes;
  if (available < wanted) {
    return absl::StrCat(words.make_room, " ", text::ExactSize(wanted - available),
                        ", or raise max_bytes");
  }
  return absl::StrCat(
      "enough is free, but not in one piece: free a neighbour of the largest hole, ",
      words.join_room);
}

}  // namespace

absl::Status OutOfMemory(std::size_t bytes, const PoolStats& stats, std::string_view growth_error,
                         const PoolWords& words) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of ", words.memory, ": ", Requested(bytes), " requested, ",
      text::ExactSize(stats.live_bytes), " live in ",
      text::Count(stats.live_count, words.allocation), ", the largest hole is ",
      text::ExactSize(stats.largest_hole_bytes), ", the budget is ",
      text::ExactSize(stats.max_bytes), "; ", Help(bytes, stats, growth_error, words)));
}

absl::Status QueueClosed(const PoolWords& words) {
  return absl::ResourceExhaustedError(
      absl::StrCat("out of ", words.memory,
                   ": free memory is kept for an allocation that has waited long; wait too "
                   "(AllocateBlocking), or free more"));
}

absl::Status DeadlinePassed(std::int64_t bytes, const PoolStats& stats,
                            std::string_view growth_error) {
  return absl::DeadlineExceededError(absl::StrCat(
      "no room for ", text::ExactSize(bytes), " until the deadline, ",
      text::ExactSize(stats.live_bytes), " live, the budget is ", text::ExactSize(stats.max_bytes),
      growth_error.empty() ? "" : "; the pool cannot grow: ", std::string(growth_error)));
}

absl::Status WaitStopped(std::int64_t bytes) {
  return absl::CancelledError(
      absl::StrCat("no room for ", text::ExactSize(bytes), " until the caller stopped the wait"));
}

}  // namespace tidepool::pool

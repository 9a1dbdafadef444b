// SPDX-License-Identifier: Apache-2.0
// Finds the desirable configurations of a kernel. Rows enter by ascending workspace into the
// dynamic program T(b) = min over rows of T(b - micro-batch) + seconds. After each workspace, T of
// the batch is the least time with workspaces up to it. So one pass serves all limits.
#include <algorithm>
#include <tuple>

#include "policies/workspace/ticks.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace workspace {
namespace {

std::vector<KernelRow> UsableRows(const KernelTable& table, const std::vector<std::int64_t>& sizes,
                                  std::int64_t batch, std::int64_t limit_bytes) {
  std::vector<KernelRow> rows;
  for (const KernelRow& row : table) {
    const bool is_allowed = std::binary_search(sizes.begin(), sizes.end(), row.micro_batch);
    if (is_allowed && row.micro_batch <= batch && row.workspace_bytes <= limit_bytes) {
      rows.push_back(row);
    }
  }
  // Large micro-batches come first among equal workspaces, so a configuration of fewer parts stays.
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow& a, const KernelRow& b) {
    return std::tie(a.workspace_bytes, b.micro_batch, a.seconds) <
           std::tie(b.workspace_bytes, a.micro_batch, b.seconds);
  });
  return rows;
}

double LongestSeconds(const std::vector<KernelRow>& rows) {
  double longest = 0;
  for (const KernelRow& row : rows) longest = std::max(longest, row.seconds);
  return longest;
}

// The dynamic program.
class LeastTimes {
 public:
  LeastTimes(const std::vector<KernelRow>& rows, std::int64_t batch)
      : rows_(rows),
        ticks_(LongestSeconds(rows) * static_cast<double>(batch)),
        least_(static_cast<std::size_t>(batch) + 1, Ticks::kNever),
        last_(least_.size()) {
    least_[0] = 0;
  }

  void Add(std::size_t index) {
    const auto size = static_cast<std::size_t>(rows_[index].micro_batch);
    const std::int64_t ticks = ticks_.Of(rows_[index].seconds);
    // Other micro-batches are as fast with no more workspace, here and in all larger batches.
    if (ticks >= least_[size]) return;
    for (std::size_t b = size; b < least_.size(); ++b) {
      const std::int64_t with = least_[b - size] + ticks;
      if (with >= least_[b]) continue;
      least_[b] = with;
      last_[b] = index;
    }
  }

  std::int64_t OfBatch() const { return least_.back(); }

  // Returns the micro-batches of T(batch), the largest first. T(b) is the least after each row, so
  // the part that `last_` leaves is never faster than when it was chosen.
  KernelConfiguration Configuration() const {
    std::vector<std::size_t> chosen;
    for (std::size_t b = least_.size() - 1; b > 0;) {
      chosen.push_back(last_[b]);
      b -= static_cast<std::size_t>(rows_[last_[b]].micro_batch);
    }
    std::sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(-rows_[a].micro_batch, a) < std::tuple(-rows_[b].micro_batch, b);
    });
    KernelConfiguration configuration;
    for (const std::size_t index : chosen) {
      const KernelRow& row = rows_[index];
      configuration.seconds += row.seconds;
      configuration.workspace_bytes = std::max(configuration.workspace_bytes, row.workspace_bytes);
      configuration.parts.push_back({row.algorithm, row.micro_batch, row.precision});
    }
    return configuration;
  }

 private:
  const std::vector<KernelRow>& rows_;
  Ticks ticks_;
  std::vector<std::int64_t> least_;  // by batch
  std::vector<std::size_t> last_;    // by batch: the row that was added last
};

}  // namespace
}  // namespace workspace

std::vector<KernelConfiguration> ConfigurationFront(const KernelTable& table,
                                                    const std::vector<std::int64_t>& sizes,
                                                    std::int64_t batch, std::int64_t limit_bytes) {
  const std::vector<KernelRow> rows = workspace::UsableRows(table, sizes, batch, limit_bytes);
  workspace::LeastTimes times(rows, batch);
  std::vector<KernelConfiguration> front;
  std::int64_t fastest = workspace::Ticks::kNever;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    times.Add(i);
    const bool is_level_done =
        i + 1 == rows.size() || rows[i + 1].workspace_bytes > rows[i].workspace_bytes;
    if (!is_level_done || times.OfBatch() >= fastest) continue;
    fastest = times.OfBatch();
    front.push_back(times.Configuration());
  }
  return front;
}

}  // namespace tidepool

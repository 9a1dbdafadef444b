// SPDX-License-Identifier: Apache-2.0
// Transfers that have ended: their statistics, and the callers' functions that are still to be run.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_ENDED_TRANSFERS_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_ENDED_TRANSFERS_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/copies/pipeline/transfers.h"
#include "tidepool/copies/compression_pipeline.h"

namespace tidepool::pipeline {

// The pipeline's mutex guards it.
class EndedTransfers {
 public:
  // Counts the transfer and keeps its function.
  void Add(const std::shared_ptr<OutTransfer>& transfer);
  void Add(const std::shared_ptr<InTransfer>& transfer);

  bool empty() const { return functions_.empty(); }
  // Returns the functions in the order in which the transfers ended. Each is run once, without
  // locks.
  std::vector<std::function<void()>> TakeAll() { return std::exchange(functions_, {}); }

  // Offloads, prefetches, failures and bytes.
  const CompressionPipelineStats& stats() const { return stats_; }

 private:
  std::vector<std::function<void()>> functions_;
  CompressionPipelineStats stats_;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_ENDED_TRANSFERS_H_

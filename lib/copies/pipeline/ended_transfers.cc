// SPDX-License-Identifier: Apache-2.0
// The ends of transfers, as statistics and callers see them.
#include "lib/copies/pipeline/ended_transfers.h"

#include "absl/status/statusor.h"

namespace tidepool::pipeline {

void EndedTransfers::Add(const std::shared_ptr<OutTransfer>& transfer) {
  if (transfer->status.ok()) {
    ++stats_.offloads;
    stats_.offloaded_bytes += transfer->stored->input_bytes();
    stats_.compressed_bytes += transfer->stored->compressed_bytes();
  } else {
    ++stats_.failures;
  }
  functions_.push_back([transfer] {
    const CompressionPipeline::OffloadDone done = std::move(transfer->done);
    if (!transfer->status.ok()) {
      // Frees the memory before the call: the caller may need it next.
      transfer->stored.reset();
      return done(transfer->status);
    }
    transfer->stored->Trim();
    done(std::shared_ptr<const StoredBuffer>(std::move(transfer->stored)));
  });
}

void EndedTransfers::Add(const std::shared_ptr<InTransfer>& transfer) {
  if (transfer->status.ok()) {
    ++stats_.prefetches;
    stats_.prefetched_bytes += transfer->stored->input_bytes();
  } else {
    ++stats_.failures;
  }
  functions_.push_back([transfer] {
    const CompressionPipeline::PrefetchDone done = std::move(transfer->done);
    transfer->stored.reset();
    done(transfer->status);
  });
}

}  // namespace tidepool::pipeline

// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/pipeline_copies.h"

#include <utility>

#include "absl/status/statusor.h"

namespace tidepool::execute {
namespace {

// Returns a copy that shares no memory with a status of the pipeline's threads. ThreadSanitizer
// does not see how Abseil counts references to a status, and would report a race.
absl::Status Unshared(const absl::Status& status) { return {status.code(), status.message()}; }

}  // namespace

void PipelineCopies::Begin(std::size_t copies) {
  transfers_.clear();
  sent_.assign(pipeline_ == nullptr ? 0 : copies, nullptr);
}

absl::Status PipelineCopies::Send(std::size_t copy, const void* from, std::int64_t bytes,
                                  Stream stream, std::size_t step) {
  if (sent_[copy] != nullptr) {
    // Copies in that were queued keep the bytes as long as they need them.
    sent_[copy]->ended.wait();
    sent_[copy]->stored = nullptr;
  }
  const auto transfer = std::make_shared<Transfer>(step);
  absl::Status status =
      pipeline_->Offload(from, bytes, ZeroValueWord::k32Bits, stream,
                         [transfer](absl::StatusOr<std::shared_ptr<const StoredBuffer>> stored) {
                           transfer->status = Unshared(stored.status());
                           if (stored.ok()) transfer->stored = *std::move(stored);
                           transfer->ended.count_down();
                         });
  if (!status.ok()) return status;
  sent_[copy] = transfer;
  return WaitOn(stream, transfer);
}

absl::Status PipelineCopies::Receive(std::size_t copy, void* to, Stream stream, std::size_t step) {
  sent_[copy]->ended.wait();
  if (!sent_[copy]->status.ok()) return sent_[copy]->status;
  const auto transfer = std::make_shared<Transfer>(step);
  absl::Status status =
      pipeline_->Prefetch(sent_[copy]->stored, to, stream, [transfer](const absl::Status& result) {
        transfer->status = Unshared(result);
        transfer->ended.count_down();
      });
  return status.ok() ? WaitOn(stream, transfer) : status;
}

absl::Status PipelineCopies::WaitOn(Stream stream, const std::shared_ptr<Transfer>& transfer) {
  transfers_.push_back(transfer);
  return device_.CallHost(stream, [transfer] { transfer->ended.wait(); });
}

std::optional<PipelineCopies::Failure> PipelineCopies::Wait() {
  for (const auto& transfer : transfers_) transfer->ended.wait();
  for (const auto& transfer : transfers_) {
    if (!transfer->status.ok()) return Failure{transfer->step, transfer->status};
  }
  return std::nullopt;
}

const StoredBuffer* PipelineCopies::Stored(std::size_t copy) const {
  return sent_[copy] == nullptr ? nullptr : sent_[copy]->stored.get();
}

std::int64_t PipelineCopies::held_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& transfer : sent_) {
    if (transfer != nullptr && transfer->stored != nullptr) bytes += transfer->stored->held_bytes();
  }
  return bytes;
}

}  // namespace tidepool::execute

// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/switched_recorder.h"

#include <utility>

#include "absl/status/statusor.h"

namespace tidepool::c_api {

absl::Status SwitchedRecorder::Start(const std::string& path) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) {
    return absl::FailedPreconditionError(
        "a trace is written already: call tidepool_stop_trace before the next one");
  }
  absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      Recorder::Create({.path = path, .alignment = alignment_});
  if (!recorder.ok()) return recorder.status();
  recorder_ = *std::move(recorder);
  return absl::OkStatus();
}

// Ends the trace without the lock: requests of the pool do not wait for the file.
absl::Status SwitchedRecorder::Stop() {
  std::unique_ptr<Recorder> ended;
  {
    const locks::MutexLock lock(&mutex_);
    ended = std::move(recorder_);
  }
  if (ended != nullptr) return ended->Close();
  return absl::FailedPreconditionError("no trace is written: call tidepool_start_trace first");
}

absl::Status SwitchedRecorder::Flush() {
  const locks::MutexLock lock(&mutex_);
  return recorder_ == nullptr ? absl::OkStatus() : recorder_->Flush();
}

void SwitchedRecorder::Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Allocate(address, bytes, hint, stream);
}

void SwitchedRecorder::Free(const void* address, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Free(address, stream);
}

void SwitchedRecorder::Failure(std::int64_t bytes, Hint hint, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Failure(bytes, hint, stream);
}

void SwitchedRecorder::Wait(Stream stream, Stream awaited) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Wait(stream, awaited);
}

void SwitchedRecorder::Mark(std::string_view name) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Mark(name);
}

void SwitchedRecorder::AllocateIn(std::string_view region, const void* address, std::int64_t bytes,
                                  Hint hint, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->AllocateIn(region, address, bytes, hint, stream);
}

void SwitchedRecorder::FailureIn(std::string_view region, std::int64_t bytes, Hint hint,
                                 Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->FailureIn(region, bytes, hint, stream);
}

void SwitchedRecorder::Pause(std::string_view region, SleepMode mode, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Pause(region, mode, stream);
}

void SwitchedRecorder::Resume(std::string_view region, Stream stream) {
  const locks::MutexLock lock(&mutex_);
  if (recorder_ != nullptr) recorder_->Resume(region, stream);
}

}  // namespace tidepool::c_api

// SPDX-License-Identifier: Apache-2.0
// Threads of the pipeline take three roles: they wait for the oldest copy of a direction, compress
// pieces that have arrived, and decompress pieces for the device. At most one thread waits for each
// direction.
//
// The thread that waited for a copy also works on its piece, so data is not handed from thread to
// thread (the leader/followers pattern: Schmidt et al., 2000): waking a thread costs as much as
// compressing a piece. There are two more threads than may work at once. So both directions always
// have a thread to wait for them, however long a copy takes, while all other threads work.
//
// Copies of a direction are queued in the order of the transfers. A transfer with a closed gate
// delays later transfers, never an earlier one.
#include "tidepool/copies/compression_pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/thread.h"
#include "lib/copies/pipeline/compressed_space.h"
#include "lib/copies/pipeline/copy_lane.h"
#include "lib/copies/pipeline/direction.h"
#include "lib/copies/pipeline/piece_codec.h"
#include "lib/copies/pipeline/pipeline_options.h"
#include "lib/copies/pipeline/transfers.h"
#include "lib/copies/zvc/kernels.h"

namespace tidepool {
namespace pipeline {
namespace {

constexpr int kWaitingThreads = 2;
constexpr std::int64_t kLeastChunkBytes = std::int64_t{64} << 10;
constexpr std::int64_t kChunkAlignment = 4096;  // at least that of every pinned pool
constexpr auto kMostBytes = static_cast<std::int64_t>(kMaxZeroValueInputBytes);

absl::Status NoFunction() {
  return absl::InvalidArgumentError("`done` is null, expected a function to call at the end");
}

class Stopwatch {
 public:
  std::int64_t ns() const {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class CompressionPipelineImpl final : public CompressionPipeline {
 public:
  CompressionPipelineImpl(Device& device, CompressedMemory memory,
                          const CompressionPipelineOptions& options)
      : device_(device),
        memory_(memory),
        options_(options),
        set_(options.instruction_set.value_or(zvc::BestInstructionSet())),
        out_(ended_),
        in_(ended_) {}
  ~CompressionPipelineImpl() override;

  // Creates the rings and streams, and starts the threads.
  absl::Status Start(PinnedPool& staging);

  absl::Status Offload(const void* from, std::int64_t bytes, ZeroValueWord word, Stream after,
                       OffloadDone done) override;
  absl::Status Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to, Stream after,
                        PrefetchDone done) override;
  CompressionPipelineStats Stats() const override;

 private:
  enum class Role : std::uint8_t { kNone, kDecompress, kCompress, kWaitOut, kWaitIn };

  absl::Status StartLanes(PinnedPool& staging) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SetGate(Transfer& transfer, Stream after) ABSL_LOCKS_EXCLUDED(mutex_);
  std::int64_t ChunkBytes(std::int64_t bytes) const;
  absl::Status CheckWorks() const;
  template <typename TransferType>
  void Enqueue(Direction<TransferType>& direction, std::shared_ptr<TransferType> transfer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  Role NextRole() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes a thread if there is work for it. Called after work became available, unless this thread
  // looks for work next. Threads that work look for finished copies afterwards, so no thread is
  // woken for copies while another works.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These release the mutex while they work or wait.
  void Decompress(PieceCodec& codec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Compress(PieceCodec& codec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompressPiece(PieceCodec& codec, const OutPiece& piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename TransferType>
  void WaitForOldest(Direction<TransferType>& direction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Takes pieces from finished copies, without waiting.
  template <typename TransferType>
  void Collect(Direction<TransferType>& direction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCopied(OutPiece piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCopied(const InPiece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    in_.ReleasePiece(piece);
  }
  template <typename TransferType>
  absl::Status QueueCopy(Direction<TransferType>& direction, Piece<TransferType>& piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues copies out, as many as there are free slots.
  void QueueCopiesOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues copies in, in the order of the pieces: no piece waits for the gate of a later transfer.
  void QueueCopiesIn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device& device_;
  const CompressedMemory memory_;
  const CompressionPipelineOptions options_;
  const ZeroValueInstructionSet set_;
  const std::shared_ptr<HeldBytes> held_ = std::make_shared<HeldBytes>();
  // Do not change after Start. A thread waits for a lane's copy without the mutex.
  std::unique_ptr<CopyLane> out_lane_;
  std::unique_ptr<CopyLane> in_lane_;

  mutable locks::Mutex mutex_;
  locks::CondVar work_;
  locks::CondVar all_ended_;
  EndedTransfers ended_ ABSL_GUARDED_BY(mutex_);
  Direction<OutTransfer> out_ ABSL_GUARDED_BY(mutex_);
  Direction<InTransfer> in_ ABSL_GUARDED_BY(mutex_);
  std::deque<OutPiece> arrived_ ABSL_GUARDED_BY(mutex_);  // to compress
  std::deque<InPiece> filling_ ABSL_GUARDED_BY(mutex_);   // being decompressed, in order
  int working_ ABSL_GUARDED_BY(mutex_) = 0;               // threads that compress or decompress
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;  // transfers
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::int64_t compress_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t decompress_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

// Start and end of the pipeline. ----------------------------------------------------------------

absl::Status CompressionPipelineImpl::StartLanes(PinnedPool& staging) {
  auto out = CopyLane::Create(device_, staging, CopyDirection::kFromDevice, options_.ring);
  if (!out.ok()) return out.status();
  out_lane_ = *std::move(out);
  auto in = CopyLane::Create(device_, staging, CopyDirection::kToDevice, options_.ring);
  if (!in.ok()) return in.status();
  in_lane_ = *std::move(in);
  const locks::MutexLock lock(&mutex_);
  out_.SetLane(out_lane_.get());
  in_.SetLane(in_lane_.get());
  return absl::OkStatus();
}

absl::Status CompressionPipelineImpl::Start(PinnedPool& staging) {
  if (absl::Status status = StartLanes(staging); !status.ok()) return status;
  const int threads = options_.threads + kWaitingThreads;
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    absl::StatusOr<std::thread> thread = locks::StartThread([this] { Work(); });
    if (!thread.ok()) {
      return absl::Status(thread.status().code(),
                          absl::StrCat("cannot start thread ", i + 1, " of ", threads, ": ",
                                       thread.status().message()));
    }
    threads_.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

CompressionPipelineImpl::~CompressionPipelineImpl() {
  {
    const locks::MutexLock lock(&mutex_);
    while (unfinished_ > 0) all_ended_.Wait(&mutex_);
    is_ending_ = true;
  }
  work_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

// Requests. ---------------------------------------------------------------------------------------

// Gives the transfer an event of its own: the caller may queue further work on `after`, or destroy
// it. The device may delay the record until work of the stream has ended, and that work may wait
// for this pipeline's threads, which need the mutex: holding it here would be a deadlock.
absl::Status CompressionPipelineImpl::SetGate(Transfer& transfer, Stream after) {
  if (after == Stream()) return absl::OkStatus();
  absl::StatusOr<device::OwnedEvent> gate = device::OwnedEvent::Record(device_, after);
  if (gate.ok()) transfer.gate = *std::move(gate);
  return gate.status();
}

std::int64_t CompressionPipelineImpl::ChunkBytes(std::int64_t bytes) const {
  const std::int64_t parts = std::int64_t{options_.chunk_fraction} * options_.threads;
  const std::int64_t chunk = AlignUp(bytes / parts, kChunkAlignment);
  return std::max(chunk, kLeastChunkBytes);
}

absl::Status CompressionPipelineImpl::CheckWorks() const {
  if (!out_lane_->IsBroken() && !in_lane_->IsBroken()) return absl::OkStatus();
  return absl::UnavailableError(
      "the device failed during a copy, and failed again when it was asked about the copy; create "
      "a new device and pipeline");
}

// Under the mutex, so that transfers reach the device in the order of the calls.
template <typename TransferType>
void CompressionPipelineImpl::Enqueue(Direction<TransferType>& direction,
                                      std::shared_ptr<TransferType> transfer) {
  ++unfinished_;
  direction.Add(std::move(transfer));
  QueueCopiesOut();
  in_.DropBegun();
  WakeThread();
}

absl::Status CompressionPipelineImpl::Offload(const void* from, std::int64_t bytes,
                                              ZeroValueWord word, Stream after, OffloadDone done) {
  if (from == nullptr) {
    return absl::InvalidArgumentError("`from` is null, expected memory of the device");
  }
  if (done == nullptr) return NoFunction();
  if (bytes < 0 || bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes, expected 0 to ", kMostBytes));
  }
  if (word != ZeroValueWord::k16Bits && word != ZeroValueWord::k32Bits) {
    return absl::InvalidArgumentError(
        absl::StrCat("words of ", static_cast<int>(word), " bytes, expected 2 or 4"));
  }
  auto transfer = std::make_shared<OutTransfer>();
  // Copies only read from it.
  transfer->device_memory = static_cast<std::byte*>(const_cast<void*>(from));
  transfer->stored =
      std::make_unique<Stored>(ChunkSource(memory_, ChunkBytes(bytes), held_), bytes,
                               options_.ring.slot_bytes, PieceCoding{set_, word, options_.mode});
  transfer->pieces = transfer->stored->pieces();
  transfer->done = std::move(done);
  if (absl::Status status = CheckWorks(); !status.ok()) return status;
  if (absl::Status status = SetGate(*transfer, after); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  Enqueue(out_, std::move(transfer));
  return absl::OkStatus();
}

absl::Status CompressionPipelineImpl::Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to,
                                               Stream after, PrefetchDone done) {
  if (to == nullptr) {
    return absl::InvalidArgumentError("`to` is null, expected memory of the device");
  }
  if (done == nullptr) return NoFunction();
  auto transfer = std::make_shared<InTransfer>();
  transfer->stored = std::static_pointer_cast<const Stored>(std::move(stored));
  if (transfer->stored == nullptr) {
    return absl::InvalidArgumentError("`stored` is null, expected a buffer stored by a pipeline");
  }
  if (transfer->stored->largest_piece_bytes() > options_.ring.slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer stored in pieces of ", transfer->stored->largest_piece_bytes(),
                     " bytes, expected at most the bytes of a slot, ", options_.ring.slot_bytes));
  }
  transfer->device_memory = static_cast<std::byte*>(to);
  transfer->pieces = transfer->stored->pieces();
  transfer->done = std::move(done);
  if (absl::Status status = CheckWorks(); !status.ok()) return status;
  if (absl::Status status = SetGate(*transfer, after); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  Enqueue(in_, std::move(transfer));
  return absl::OkStatus();
}

CompressionPipelineStats CompressionPipelineImpl::Stats() const {
  const locks::MutexLock lock(&mutex_);
  CompressionPipelineStats stats = ended_.stats();
  stats.compress_ns = compress_ns_;
  stats.decompress_ns = decompress_ns_;
  stats.held_bytes = held_->now();
  stats.peak_held_bytes = held_->peak();
  stats.ring_bytes = 2 * options_.ring.slots * options_.ring.slot_bytes;
  return stats;
}

// Threads and their roles. ------------------------------------------------------------------------

CompressionPipelineImpl::Role CompressionPipelineImpl::NextRole() {
  if (working_ < options_.threads) {
    // Prefetches come first: work of the device waits for them.
    if (in_.CanBegin()) return Role::kDecompress;
    if (!arrived_.empty()) return Role::kCompress;
  }
  if (out_.NeedsWaiter()) return Role::kWaitOut;
  if (in_.NeedsWaiter()) return Role::kWaitIn;
  return Role::kNone;
}

void CompressionPipelineImpl::WakeThread() {
  if (idle_ == 0) return;
  const Role role = NextRole();
  const bool is_wait = role == Role::kWaitOut || role == Role::kWaitIn;
  if (!ended_.empty() || (is_wait ? working_ == 0 : role != Role::kNone)) work_.Signal();
}

void CompressionPipelineImpl::Work() {
  PieceCodec codec;
  const locks::MutexLock lock(&mutex_);
  for (;;) {
    Collect(out_);
    Collect(in_);
    RunEnded();
    switch (NextRole()) {
      case Role::kDecompress:
        Decompress(codec);
        break;
      case Role::kCompress:
        Compress(codec);
        break;
      case Role::kWaitOut:
        WaitForOldest(out_);
        break;
      case Role::kWaitIn:
        WaitForOldest(in_);
        break;
      case Role::kNone:
        if (is_ending_) return;
        ++idle_;
        work_.Wait(&mutex_);
        --idle_;
    }
  }
}

template <typename TransferType>
void CompressionPipelineImpl::WaitForOldest(Direction<TransferType>& direction) {
  CopyLane& lane = direction.lane();
  const StagingSlot slot = direction.oldest().slot;
  const bool is_copying = direction.oldest().is_copying;
  direction.SetWaitedFor(true);
  WakeThread();
  mutex_.Unlock();
  const absl::Status status = is_copying ? lane.Wait(slot) : absl::OkStatus();
  mutex_.Lock();
  direction.SetWaitedFor(false);
  Piece<TransferType> piece = direction.TakeOldest();
  if (!status.ok()) direction.Fail(*piece.transfer, status);
  OnCopied(std::move(piece));
}

// Loops, because a caller's function may complete further transfers while all threads are busy: a
// thread that goes to sleep must have seen them.
void CompressionPipelineImpl::RunEnded() {
  while (!ended_.empty()) {
    std::vector<std::function<void()>> functions = ended_.TakeAll();
    WakeThread();
    mutex_.Unlock();
    for (const std::function<void()>& function : functions) function();
    const auto count = static_cast<std::int64_t>(functions.size());
    functions.clear();
    mutex_.Lock();
    unfinished_ -= count;
    if (unfinished_ == 0) all_ended_.SignalAll();
  }
}

// Pieces. -----------------------------------------------------------------------------------------

template <typename TransferType>
void CompressionPipelineImpl::Collect(Direction<TransferType>& direction) {
  while (direction.HasCopied()) OnCopied(direction.TakeOldest());
}

template <typename TransferType>
absl::Status CompressionPipelineImpl::QueueCopy(Direction<TransferType>& direction,
                                                Piece<TransferType>& piece) {
  absl::Status status = piece.transfer->status;
  if (status.ok()) status = CheckWorks();
  return status.ok() ? direction.QueueCopy(piece) : status;
}

void CompressionPipelineImpl::QueueCopiesOut() {
  for (out_.DropBegun(); out_.CanBegin(); out_.DropBegun()) {
    OutPiece piece = out_.Begin();
    const absl::Status status = QueueCopy(out_, piece);
    if (!status.ok()) piece.transfer->Fail(status);  // the loop drops the transfer
    out_.AddQueued(std::move(piece));
  }
}

void CompressionPipelineImpl::OnCopied(OutPiece piece) {
  if (piece.transfer->status.ok()) {
    arrived_.push_back(std::move(piece));
    return;
  }
  out_.ReleasePiece(piece);
  QueueCopiesOut();
}

void CompressionPipelineImpl::Compress(PieceCodec& codec) {
  const OutPiece piece = std::move(arrived_.front());
  arrived_.pop_front();
  if (piece.transfer->status.ok()) CompressPiece(codec, piece);
  out_.ReleasePiece(piece);
  QueueCopiesOut();
}

void CompressionPipelineImpl::CompressPiece(PieceCodec& codec, const OutPiece& piece) {
  Stored& stored = *piece.transfer->stored;
  ++working_;
  const std::int32_t number = stored.TakeStrand();
  Strand& strand = stored.strand(number);
  PiecePosition& position = stored.NewPosition(piece.number);
  WakeThread();
  mutex_.Unlock();
  const Stopwatch stopwatch;
  const auto bytes = static_cast<std::size_t>(stored.PieceBytes(piece.number));
  position.strand = number;
  const absl::Status status = codec.Compress(
      stored.coding(), absl::MakeConstSpan(piece.slot.data, bytes), strand, position);
  const std::int64_t ns = stopwatch.ns();
  mutex_.Lock();
  compress_ns_ += ns;
  stored.ReturnStrand(number);
  --working_;
  if (!status.ok()) out_.Fail(*piece.transfer, status);
}

void CompressionPipelineImpl::Decompress(PieceCodec& codec) {
  // An element of a deque keeps its address while elements come and go at the ends.
  InPiece& piece = filling_.emplace_back(in_.Begin());
  in_.DropBegun();
  InTransfer& transfer = *piece.transfer;
  const Stored& stored = *transfer.stored;
  ++working_;
  WakeThread();
  mutex_.Unlock();
  const Stopwatch stopwatch;
  const auto bytes = static_cast<std::size_t>(stored.PieceBytes(piece.number));
  const PiecePosition& position = stored.position(piece.number);
  const absl::Status status = codec.Decompress(stored.coding(), stored.strand(position.strand),
                                               position, absl::MakeSpan(piece.slot.data, bytes));
  const std::int64_t ns = stopwatch.ns();
  mutex_.Lock();
  decompress_ns_ += ns;
  --working_;
  if (!status.ok()) in_.Fail(transfer, status);
  piece.is_filled = true;
  QueueCopiesIn();
}

void CompressionPipelineImpl::QueueCopiesIn() {
  while (!filling_.empty() && filling_.front().is_filled) {
    InPiece piece = std::move(filling_.front());
    filling_.pop_front();
    const absl::Status status = QueueCopy(in_, piece);
    if (!status.ok()) in_.Fail(*piece.transfer, status);
    in_.AddQueued(std::move(piece));
  }
}

bool IsNull(const CompressedMemory& memory) {
  return std::visit([](const auto* pool) { return pool == nullptr; }, memory);
}

}  // namespace
}  // namespace pipeline

absl::StatusOr<std::unique_ptr<CompressionPipeline>> CompressionPipeline::Create(
    Device* device, PinnedPool* staging, CompressedMemory memory,
    const CompressionPipelineOptions& options) {
  if (device == nullptr || staging == nullptr || pipeline::IsNull(memory)) {
    return absl::InvalidArgumentError(
        "a null pointer, expected a device, a pool for staging, and a pool for compressed bytes");
  }
  const absl::StatusOr<CompressionPipelineOptions> resolved = pipeline::ResolveOptions(options);
  if (!resolved.ok()) return resolved.status();
  auto pipeline = std::make_unique<pipeline::CompressionPipelineImpl>(*device, memory, *resolved);
  if (absl::Status status = pipeline->Start(*staging); !status.ok()) return status;
  return pipeline;
}

}  // namespace tidepool

// A few threads take up three roles: to wait for the oldest copy of a direction (one thread a
// direction), to compress what has come, and to decompress what is wanted. Who waits for a copy
// works on it himself, so data is not handed from thread to thread (the leader/followers pattern:
// Schmidt et al., 2000); to wake a thread costs as much as to compress a piece. There are two
// threads more than may work at once: so both directions are waited for, however long that takes,
// while all others work.
//
// Copies of a direction are queued in the order of the transfers: a transfer whose gate is closed
// holds up those behind it, never one before it.
#include "tidepool/compress/compression_pipeline.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/pipeline/compressed_space.h"
#include "lib/pipeline/copy_lane.h"
#include "lib/pipeline/piece_codec.h"
#include "lib/pipeline/transfers.h"
#include "lib/zvc/kernels.h"
#include "tidepool/compress/compression_profile.h"

namespace tidepool {
namespace pipeline {
namespace {

constexpr int kWaitingThreads = 2;
constexpr int kMostChunkFraction = 65536;
constexpr std::int64_t kLeastChunkBytes = std::int64_t{64} << 10;
constexpr std::int64_t kChunkAlignment = 4096;  // no less than that of any pinned pool
constexpr auto kMostBytes = static_cast<std::int64_t>(kMaxZeroValueInputBytes);

// A piece of a transfer in a slot.
template <typename TransferType>
struct Piece {
  std::shared_ptr<TransferType> transfer;
  std::int64_t number = 0;
  StagingSlot slot;
  bool is_filled = false;     // its copy may be queued
  bool is_under_way = false;  // a copy was, and is to be waited for
};
using OutPiece = Piece<OutTransfer>;
using InPiece = Piece<InTransfer>;

// The transfers of one direction. `filling` are pieces to the device that are being decompressed.
template <typename TransferType>
struct Direction {
  std::unique_ptr<CopyLane> lane;
  std::deque<std::shared_ptr<TransferType>> queue;  // that have pieces to begin
  std::deque<Piece<TransferType>> filling;
  std::deque<Piece<TransferType>> copying;
  bool is_waited_for = false;
};

absl::Status NobodyToTell() {
  return absl::InvalidArgumentError("no function, expected one to call at the end");
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
        set_(options.instruction_set.value_or(zvc::BestInstructionSet())) {}
  ~CompressionPipelineImpl() override;

  absl::Status Start(PinnedPool& staging);

  absl::Status Offload(const void* from, std::int64_t bytes, ZeroValueWord word, Stream after,
                       OffloadDone done) override;
  absl::Status Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to, Stream after,
                        PrefetchDone done) override;
  CompressionPipelineStats Stats() const override;

 private:
  enum class Role : std::uint8_t { kNone, kDecompress, kCompress, kWaitOut, kWaitIn };
  using Lock = std::unique_lock<std::mutex>;

  absl::StatusOr<std::optional<Event>> GateAfter(Stream after);
  std::int64_t ChunkBytes(std::int64_t bytes) const;
  absl::Status CheckWorks() const;
  template <typename TransferType>
  absl::Status Enqueue(Direction<TransferType>& direction, std::shared_ptr<TransferType> transfer,
                       Stream after);

  void Work();
  Role NextRole();
  void WakeOther();
  void Decompress(Lock& lock, PieceCodec& codec);
  void Compress(Lock& lock, PieceCodec& codec);

  template <typename TransferType>
  Piece<TransferType> Begin(Direction<TransferType>& direction);
  template <typename TransferType>
  absl::Status QueueCopy(Direction<TransferType>& direction, Piece<TransferType>& piece,
                         std::int64_t begin, std::int64_t bytes);
  template <typename TransferType>
  void Collect(Direction<TransferType>& direction);
  template <typename TransferType>
  void WaitForOldest(Lock& lock, Direction<TransferType>& direction);
  void OnCopied(OutPiece piece);
  void OnCopied(const InPiece& piece);
  template <typename TransferType>
  void Finish(Direction<TransferType>& direction, const Piece<TransferType>& piece);
  template <typename TransferType>
  void Fail(Direction<TransferType>& direction, TransferType& transfer, const absl::Status& error);
  template <typename TransferType>
  void DropFinished(Direction<TransferType>& direction);
  void CloseGate(Transfer& transfer);
  void QueueCopiesOut();
  void QueueCopiesIn();
  void End(const std::shared_ptr<OutTransfer>& transfer);
  void End(const std::shared_ptr<InTransfer>& transfer);
  void RunEnded(Lock& lock);

  Device& device_;
  const CompressedMemory memory_;
  const CompressionPipelineOptions options_;
  const ZeroValueInstructionSet set_;
  const std::shared_ptr<HeldBytes> held_ = std::make_shared<HeldBytes>();

  mutable std::mutex mutex_;  // of all that follows but `threads_`
  std::condition_variable work_;
  std::condition_variable all_over_;
  Direction<OutTransfer> out_;
  Direction<InTransfer> in_;
  std::deque<OutPiece> arrived_;  // to be compressed
  int working_ = 0;               // threads that compress or decompress
  int idle_ = 0;
  std::int64_t unfinished_ = 0;               // transfers
  std::vector<std::function<void()>> ended_;  // what is to be told of transfers
  bool is_ending_ = false;
  CompressionPipelineStats stats_;
  std::vector<std::thread> threads_;
};

// Beginnings. -----------------------------------------------------------------------------------

absl::Status CompressionPipelineImpl::Start(PinnedPool& staging) {
  auto out = CopyLane::Create(device_, staging, CopyDirection::kFromDevice, options_.ring);
  if (!out.ok()) return out.status();
  out_.lane = *std::move(out);
  auto in = CopyLane::Create(device_, staging, CopyDirection::kToDevice, options_.ring);
  if (!in.ok()) return in.status();
  in_.lane = *std::move(in);
  const int threads = options_.threads + kWaitingThreads;
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("thread ", i + 1, " cannot be started (",
                                                       error.what(), "), expected ", threads,
                                                       " threads"));
    }
  }
  return absl::OkStatus();
}

CompressionPipelineImpl::~CompressionPipelineImpl() {
  {
    Lock lock(mutex_);
    all_over_.wait(lock, [this] { return unfinished_ == 0; });
    is_ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// An event of the transfer's own: `after` goes on, and so may whoever queues on it.
absl::StatusOr<std::optional<Event>> CompressionPipelineImpl::GateAfter(Stream after) {
  if (after == Stream()) return std::nullopt;
  const absl::StatusOr<Event> gate = device_.CreateEvent();
  if (!gate.ok()) return gate.status();
  const absl::Status status = device_.RecordEvent(*gate, after);
  if (status.ok()) return *gate;
  device_.DestroyEvent(*gate).IgnoreError();
  return status;
}

std::int64_t CompressionPipelineImpl::ChunkBytes(std::int64_t bytes) const {
  const std::int64_t parts = std::int64_t{options_.chunk_fraction} * options_.threads;
  const std::int64_t chunk = (bytes / parts + kChunkAlignment - 1) & -kChunkAlignment;
  return std::max(chunk, kLeastChunkBytes);
}

absl::Status CompressionPipelineImpl::CheckWorks() const {
  if (!out_.lane->IsBroken() && !in_.lane->IsBroken()) return absl::OkStatus();
  return absl::UnavailableError(
      "the device failed while it copied, and again when it was asked whether it still does; "
      "expected it to answer");
}

template <typename TransferType>
absl::Status CompressionPipelineImpl::Enqueue(Direction<TransferType>& direction,
                                              std::shared_ptr<TransferType> transfer,
                                              Stream after) {
  if (absl::Status status = CheckWorks(); !status.ok()) return status;
  // Under the lock: who comes first is first with the device as well.
  Lock lock(mutex_);
  absl::StatusOr<std::optional<Event>> gate = GateAfter(after);
  if (!gate.ok()) return gate.status();
  transfer->gate = *gate;
  ++unfinished_;
  direction.queue.push_back(std::move(transfer));
  QueueCopiesOut();
  DropFinished(in_);
  WakeOther();
  return absl::OkStatus();
}

absl::Status CompressionPipelineImpl::Offload(const void* from, std::int64_t bytes,
                                              ZeroValueWord word, Stream after, OffloadDone done) {
  if (from == nullptr) return absl::InvalidArgumentError("null, expected memory of the device");
  if (done == nullptr) return NobodyToTell();
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
  return Enqueue(out_, std::move(transfer), after);
}

absl::Status CompressionPipelineImpl::Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to,
                                               Stream after, PrefetchDone done) {
  if (to == nullptr) return absl::InvalidArgumentError("null, expected memory of the device");
  if (done == nullptr) return NobodyToTell();
  auto transfer = std::make_shared<InTransfer>();
  transfer->stored = std::dynamic_pointer_cast<const Stored>(std::move(stored));
  if (transfer->stored == nullptr) {
    return absl::InvalidArgumentError("no stored buffer, expected one of a pipeline");
  }
  if (transfer->stored->largest_piece_bytes() > options_.ring.slot_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer stored in pieces of ", transfer->stored->largest_piece_bytes(),
                     " bytes, expected at most those of a slot, ", options_.ring.slot_bytes));
  }
  transfer->device_memory = static_cast<std::byte*>(to);
  transfer->pieces = transfer->stored->pieces();
  transfer->done = std::move(done);
  return Enqueue(in_, std::move(transfer), after);
}

// Threads. --------------------------------------------------------------------------------------

CompressionPipelineImpl::Role CompressionPipelineImpl::NextRole() {
  if (working_ < options_.threads) {
    // What is wanted back comes first: somebody waits for it.
    if (!in_.queue.empty() && in_.lane->HasSlot()) return Role::kDecompress;
    if (!arrived_.empty()) return Role::kCompress;
  }
  if (!out_.is_waited_for && !out_.copying.empty()) return Role::kWaitOut;
  if (!in_.is_waited_for && !in_.copying.empty()) return Role::kWaitIn;
  return Role::kNone;
}

// Whoever changes what is to be done, and does not look for it next, calls this. Who works looks
// for copies when he is done, so nobody is woken for them.
void CompressionPipelineImpl::WakeOther() {
  if (idle_ == 0) return;
  const Role role = NextRole();
  const bool is_wait = role == Role::kWaitOut || role == Role::kWaitIn;
  if (!ended_.empty() || (is_wait ? working_ == 0 : role != Role::kNone)) work_.notify_one();
}

void CompressionPipelineImpl::Work() {
  PieceCodec codec;
  Lock lock(mutex_);
  for (;;) {
    Collect(out_);
    Collect(in_);
    RunEnded(lock);
    switch (NextRole()) {
      case Role::kDecompress:
        Decompress(lock, codec);
        break;
      case Role::kCompress:
        Compress(lock, codec);
        break;
      case Role::kWaitOut:
        WaitForOldest(lock, out_);
        break;
      case Role::kWaitIn:
        WaitForOldest(lock, in_);
        break;
      case Role::kNone:
        if (is_ending_) return;
        ++idle_;
        work_.wait(lock);
        --idle_;
    }
  }
}

// Pieces. ---------------------------------------------------------------------------------------

// Of the transfer that is first in line, which has one, in the slot whose turn it is.
template <typename TransferType>
Piece<TransferType> CompressionPipelineImpl::Begin(Direction<TransferType>& direction) {
  const std::shared_ptr<TransferType> transfer = direction.queue.front();
  return {transfer, transfer->begun++, direction.lane->TakeSlot()};
}

template <typename TransferType>
absl::Status CompressionPipelineImpl::QueueCopy(Direction<TransferType>& direction,
                                                Piece<TransferType>& piece, std::int64_t begin,
                                                std::int64_t bytes) {
  TransferType& transfer = *piece.transfer;
  if (!transfer.status.ok()) return transfer.status;
  if (absl::Status status = CheckWorks(); !status.ok()) return status;
  if (transfer.gate.has_value()) {
    absl::Status status = direction.lane->WaitFor(*transfer.gate);
    CloseGate(transfer);
    if (!status.ok()) return status;
  }
  return direction.lane->Copy(piece.slot, transfer.device_memory + begin, bytes,
                              piece.is_under_way);
}

template <typename TransferType>
void CompressionPipelineImpl::Fail(Direction<TransferType>& direction, TransferType& transfer,
                                   const absl::Status& error) {
  transfer.Fail(error);
  DropFinished(direction);
}

void CompressionPipelineImpl::CloseGate(Transfer& transfer) {
  if (!transfer.gate.has_value()) return;
  // Copies that wait for it still do.
  device_.DestroyEvent(*transfer.gate).IgnoreError();
  transfer.gate.reset();
}

// Of all transfers that are first in line: takes those out that begin no piece more.
template <typename TransferType>
void CompressionPipelineImpl::DropFinished(Direction<TransferType>& direction) {
  while (!direction.queue.empty() && !direction.queue.front()->HasMore()) {
    const std::shared_ptr<TransferType> transfer = std::move(direction.queue.front());
    direction.queue.pop_front();
    // Else its last piece ends it.
    if (transfer->IsOver()) End(transfer);
  }
}

// The slot of the piece is free again, and the transfer may be over.
template <typename TransferType>
void CompressionPipelineImpl::Finish(Direction<TransferType>& direction,
                                     const Piece<TransferType>& piece) {
  direction.lane->ReleaseSlot(piece.slot);
  TransferType& transfer = *piece.transfer;
  ++transfer.finished;
  const bool is_queued = !direction.queue.empty() && direction.queue.front() == piece.transfer;
  if (transfer.IsOver() && !is_queued) End(piece.transfer);
  DropFinished(direction);
}

// Takes up what copies have brought, without waiting.
template <typename TransferType>
void CompressionPipelineImpl::Collect(Direction<TransferType>& direction) {
  while (!direction.is_waited_for && !direction.copying.empty()) {
    Piece<TransferType>& oldest = direction.copying.front();
    if (oldest.is_under_way && !direction.lane->IsOver(oldest.slot)) return;
    Piece<TransferType> piece = std::move(oldest);
    direction.copying.pop_front();
    OnCopied(std::move(piece));
  }
}

template <typename TransferType>
void CompressionPipelineImpl::WaitForOldest(Lock& lock, Direction<TransferType>& direction) {
  const StagingSlot slot = direction.copying.front().slot;
  direction.is_waited_for = true;
  WakeOther();
  lock.unlock();
  const absl::Status status = direction.lane->Wait(slot);
  lock.lock();
  direction.is_waited_for = false;
  Piece<TransferType> piece = std::move(direction.copying.front());
  direction.copying.pop_front();
  if (!status.ok()) Fail(direction, *piece.transfer, status);
  OnCopied(std::move(piece));
}

// Out. ------------------------------------------------------------------------------------------

// As many as there are slots for.
void CompressionPipelineImpl::QueueCopiesOut() {
  for (DropFinished(out_); !out_.queue.empty() && out_.lane->HasSlot(); DropFinished(out_)) {
    OutPiece piece = Begin(out_);
    const Stored& stored = *piece.transfer->stored;
    const absl::Status status =
        QueueCopy(out_, piece, stored.PieceBegin(piece.number), stored.PieceBytes(piece.number));
    if (!status.ok()) piece.transfer->Fail(status);
    out_.copying.push_back(std::move(piece));
  }
}

void CompressionPipelineImpl::OnCopied(OutPiece piece) {
  if (piece.transfer->status.ok()) {
    arrived_.push_back(std::move(piece));
    return;
  }
  Finish(out_, piece);
  QueueCopiesOut();
}

void CompressionPipelineImpl::Compress(Lock& lock, PieceCodec& codec) {
  const OutPiece piece = std::move(arrived_.front());
  arrived_.pop_front();
  OutTransfer& transfer = *piece.transfer;
  Stored& stored = *transfer.stored;
  if (transfer.status.ok()) {
    ++working_;
    const std::int32_t number = stored.TakeStrand();
    Strand& strand = stored.strand(number);
    PiecePlace& place = stored.NewPlace(piece.number);
    WakeOther();
    lock.unlock();
    const Stopwatch stopwatch;
    const auto bytes = static_cast<std::size_t>(stored.PieceBytes(piece.number));
    place.strand = number;
    const absl::Status status =
        codec.Compress(stored.coding(), absl::MakeConstSpan(piece.slot.data, bytes), strand, place);
    const std::int64_t ns = stopwatch.ns();
    lock.lock();
    stats_.compress_ns += ns;
    stored.ReturnStrand(number);
    --working_;
    if (!status.ok()) Fail(out_, transfer, status);
  }
  Finish(out_, piece);
  QueueCopiesOut();
}

// In. -------------------------------------------------------------------------------------------

void CompressionPipelineImpl::Decompress(Lock& lock, PieceCodec& codec) {
  // What is in a deque stays at its place while others come and go at its ends.
  InPiece& piece = in_.filling.emplace_back(Begin(in_));
  DropFinished(in_);
  InTransfer& transfer = *piece.transfer;
  const Stored& stored = *transfer.stored;
  ++working_;
  WakeOther();
  lock.unlock();
  const Stopwatch stopwatch;
  const auto bytes = static_cast<std::size_t>(stored.PieceBytes(piece.number));
  const PiecePlace& place = stored.place(piece.number);
  const absl::Status status = codec.Decompress(stored.coding(), stored.strand(place.strand), place,
                                               absl::MakeSpan(piece.slot.data, bytes));
  const std::int64_t ns = stopwatch.ns();
  lock.lock();
  stats_.decompress_ns += ns;
  --working_;
  if (!status.ok()) Fail(in_, transfer, status);
  piece.is_filled = true;
  QueueCopiesIn();
}

// In the order of the pieces, so none waits for the gate of a later transfer.
void CompressionPipelineImpl::QueueCopiesIn() {
  while (!in_.filling.empty() && in_.filling.front().is_filled) {
    InPiece piece = std::move(in_.filling.front());
    in_.filling.pop_front();
    const Stored& stored = *piece.transfer->stored;
    const absl::Status status =
        QueueCopy(in_, piece, stored.PieceBegin(piece.number), stored.PieceBytes(piece.number));
    if (!status.ok()) Fail(in_, *piece.transfer, status);
    in_.copying.push_back(std::move(piece));
  }
}

void CompressionPipelineImpl::OnCopied(const InPiece& piece) { Finish(in_, piece); }

// Ends. -----------------------------------------------------------------------------------------

void CompressionPipelineImpl::End(const std::shared_ptr<OutTransfer>& transfer) {
  CloseGate(*transfer);
  if (transfer->status.ok()) {
    ++stats_.offloads;
    stats_.offloaded_bytes += transfer->stored->input_bytes();
    stats_.compressed_bytes += transfer->stored->compressed_bytes();
  } else {
    ++stats_.failures;
  }
  ended_.push_back([transfer] {
    const OffloadDone done = std::move(transfer->done);
    if (!transfer->status.ok()) {
      // Before anybody is told: its memory may be what they need next.
      transfer->stored.reset();
      return done(transfer->status);
    }
    transfer->stored->Trim();
    done(std::shared_ptr<const StoredBuffer>(std::move(transfer->stored)));
  });
}

void CompressionPipelineImpl::End(const std::shared_ptr<InTransfer>& transfer) {
  CloseGate(*transfer);
  if (transfer->status.ok()) {
    ++stats_.prefetches;
    stats_.prefetched_bytes += transfer->stored->input_bytes();
  } else {
    ++stats_.failures;
  }
  ended_.push_back([transfer] {
    const PrefetchDone done = std::move(transfer->done);
    transfer->stored.reset();
    done(transfer->status);
  });
}

void CompressionPipelineImpl::RunEnded(Lock& lock) {
  // Again, as what is told may end others: when it does nobody may be idle, and who goes to sleep
  // must have seen it.
  while (!ended_.empty()) {
    std::vector<std::function<void()>> ended = std::exchange(ended_, {});
    WakeOther();
    lock.unlock();
    for (const std::function<void()>& tell : ended) tell();
    const auto count = static_cast<std::int64_t>(ended.size());
    ended.clear();
    lock.lock();
    unfinished_ -= count;
    if (unfinished_ == 0) all_over_.notify_all();
  }
}

CompressionPipelineStats CompressionPipelineImpl::Stats() const {
  const std::lock_guard lock(mutex_);
  CompressionPipelineStats stats = stats_;
  stats.held_bytes = held_->now();
  stats.peak_held_bytes = held_->peak();
  stats.ring_bytes = 2 * options_.ring.slots * options_.ring.slot_bytes;
  return stats;
}

absl::Status CheckOptions(const CompressionPipelineOptions& options) {
  const std::int64_t slot_bytes = options.ring.slot_bytes;
  constexpr auto kBlock = static_cast<std::int64_t>(kZeroValueBlockBytes);
  if (slot_bytes < kBlock || slot_bytes % kBlock != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_bytes ", slot_bytes, ", expected a multiple of ", kBlock));
  }
  if (options.threads < 1 || options.threads > kMaxZeroValueThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads ", options.threads, ", expected 1 to ", kMaxZeroValueThreads));
  }
  if (options.chunk_fraction < 1 || options.chunk_fraction > kMostChunkFraction) {
    return absl::InvalidArgumentError(absl::StrCat("chunk_fraction ", options.chunk_fraction,
                                                   ", expected 1 to ", kMostChunkFraction));
  }
  if (options.mode != ZeroValueMode::kPacked && options.mode != ZeroValueMode::kPlain) {
    return absl::InvalidArgumentError(
        absl::StrCat("mode ", static_cast<int>(options.mode), ", expected packed or plain"));
  }
  if (options.instruction_set.has_value() && !zvc::HasInstructionSet(*options.instruction_set)) {
    return absl::InvalidArgumentError("an instruction set, expected one that this processor has");
  }
  return absl::OkStatus();
}

// With what the machine's profile recommends, where that is asked for.
absl::StatusOr<CompressionPipelineOptions> Resolved(CompressionPipelineOptions options) {
  if (options.threads != 0 && options.ring.slot_bytes != 0) return options;
  const absl::StatusOr<CompressionProfile> profile = CompressionProfileFromEnvironment();
  if (!profile.ok()) return profile.status();
  if (options.threads == 0) options.threads = profile->threads;
  if (options.ring.slot_bytes == 0) options.ring.slot_bytes = profile->chunk_bytes;
  return options;
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
        "null, expected a device, a pool for staging, and one for what is compressed");
  }
  const absl::StatusOr<CompressionPipelineOptions> resolved = pipeline::Resolved(options);
  if (!resolved.ok()) return resolved.status();
  if (absl::Status status = pipeline::CheckOptions(*resolved); !status.ok()) return status;
  auto pipeline = std::make_unique<pipeline::CompressionPipelineImpl>(*device, memory, *resolved);
  if (absl::Status status = pipeline->Start(*staging); !status.ok()) return status;
  return pipeline;
}

}  // namespace tidepool

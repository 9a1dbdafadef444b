// SPDX-License-Identifier: Apache-2.0
// The file begins with all zeros, which is its first valid state, so no rank has to make it. It is
// sparse: the parts that are never used take no memory. A step has two parts for each rank, by
// turns: no rank writes its part of a step before all have read its part of two steps ago.
#include "dryrun/nccl/meeting.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "lib/base/arithmetic.h"

namespace tidepool::cudart_host {
namespace {

constexpr std::size_t kPage = 4096;
constexpr auto kPiece = static_cast<std::size_t>(Meeting::kPieceBytes);
constexpr std::size_t kPartBytes = kPage + kPiece;

std::string FolderOfMeetings() {
  const char* const ordered = std::getenv("NCCL_HOST_FOLDER");
  if (ordered != nullptr && *ordered != 0) return ordered;
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

struct flock LockOf(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

struct Meeting::Head {
  std::atomic<std::uint32_t> changes;
};

struct Meeting::RankState {
  std::atomic<std::uint32_t> has_come;
  std::atomic<std::uint32_t> has_left;
  std::atomic<std::int32_t> process;
  std::atomic<std::int32_t> device;
  std::atomic<std::uint64_t> steps[2];
};

struct Meeting::Part {
  std::atomic<std::uint32_t> is_full;  // of a message
  Subject subject;
  std::int64_t piece_bytes;
  std::int64_t whole_bytes;  // of all pieces

  char* data() { return reinterpret_cast<char*>(this) + kPage; }
};

Meeting::Meeting(int file, void* memory, std::size_t bytes, std::string path, int ranks, int rank)
    : file_(file),
      memory_(memory),
      bytes_(bytes),
      path_(std::move(path)),
      ranks_(ranks),
      rank_(rank) {}

std::shared_ptr<Meeting> Meeting::Open(const std::string& name, int ranks, int rank, int device) {
  const std::string path = FolderOfMeetings() + "/tidepool-nccl-" + name;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  const auto count = static_cast<std::size_t>(ranks);
  static_assert(sizeof(Head) <= 64 && sizeof(RankState) <= 64 && sizeof(Part) <= kPage);
  const std::size_t states = RoundUp(64 * (1 + count), kPage);
  const std::size_t bytes = states + kPartBytes * (4 * count + count * count);
  struct flock lock = LockOf(rank);
  void* const memory =
      ftruncate(file, static_cast<off_t>(bytes)) == 0 && fcntl(file, F_SETLK, &lock) == 0
          ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
          : MAP_FAILED;
  if (memory == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  std::shared_ptr<Meeting> meeting(new Meeting(file, memory, bytes, path, ranks, rank));
  RankState& own = meeting->StateOf(rank);
  own.process = getpid();
  own.device = device;
  own.has_come = 1;
  meeting->Tell();
  return meeting;
}

Meeting::~Meeting() {
  Leave();
  munmap(memory_, bytes_);
  close(file_);
}

bool Meeting::AwaitAll() {
  const bool have_all_come = Await([this] {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (StateOf(rank).has_come == 0) return false;
    }
    return true;
  });
  // All have opened the file, and no other process will.
  if (have_all_come && rank_ == 0) unlink(path_.c_str());
  return have_all_come;
}

int Meeting::RankWithSameDevice() const {
  for (int rank = 0; rank < rank_; ++rank) {
    if (StateOf(rank).device == StateOf(rank_).device) return rank;
  }
  return -1;
}

void Meeting::Leave() {
  StateOf(rank_).has_left = 1;
  Tell();
}

void Meeting::Abort() {
  is_aborted_ = true;
  Leave();
}

bool Meeting::Step(Table table, const Subject& subject, std::string_view data) {
  auto& collected = collected_[static_cast<std::size_t>(table)];
  collected.clear();
  if (!StepOnce(table, subject, data, 0)) return false;
  const std::int64_t most = MostBytes(table);
  if (most <= kPieceBytes) return true;
  collected.resize(static_cast<std::size_t>(ranks_));
  Collect(table);
  for (std::int64_t begin = kPieceBytes; begin < most; begin += kPieceBytes) {
    if (!StepOnce(table, subject, data, static_cast<std::size_t>(begin))) return false;
    Collect(table);
  }
  return true;
}

// Returns the bytes of the largest data of a rank in the last step.
std::int64_t Meeting::MostBytes(Table table) const {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (SubjectOf(table, rank) == nullptr) continue;
    most = std::max(most, PartOf(table, steps_[static_cast<std::size_t>(table)], rank).whole_bytes);
  }
  return most;
}

// Appends the piece of each rank to its earlier ones.
void Meeting::Collect(Table table) {
  auto& collected = collected_[static_cast<std::size_t>(table)];
  for (int rank = 0; rank < ranks_; ++rank) {
    std::string& data = collected[static_cast<std::size_t>(rank)];
    if (SubjectOf(table, rank) == nullptr) {
      data.clear();
    } else {
      data += PieceOf(table, rank);
    }
  }
}

bool Meeting::StepOnce(Table table, const Subject& subject, std::string_view data,
                       std::size_t begin) {
  const auto number = static_cast<std::size_t>(table);
  const std::uint64_t step = ++steps_[number];
  Part& part = PartOf(table, step, rank_);
  part.subject = subject;
  Fill(part, data, begin);
  StateOf(rank_).steps[number] = step;
  Tell();
  return Await([&] {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (StateOf(rank).steps[number] < step && !HasGone(rank)) return false;
    }
    return true;
  });
}

const Subject* Meeting::SubjectOf(Table table, int rank) const {
  const auto number = static_cast<std::size_t>(table);
  if (StateOf(rank).steps[number] < steps_[number]) return nullptr;
  return &PartOf(table, steps_[number], rank).subject;
}

std::string_view Meeting::DataOf(Table table, int rank) const {
  const auto& collected = collected_[static_cast<std::size_t>(table)];
  return collected.empty() ? PieceOf(table, rank) : collected[static_cast<std::size_t>(rank)];
}

std::string_view Meeting::PieceOf(Table table, int rank) const {
  if (SubjectOf(table, rank) == nullptr) return {};
  Part& part = PartOf(table, steps_[static_cast<std::size_t>(table)], rank);
  return {part.data(), static_cast<std::size_t>(part.piece_bytes)};
}

bool Meeting::TrySend(int to, std::string_view data, std::size_t& sent) {
  Part& message = MessageOf(rank_, to);
  if (message.is_full != 0) return HasGone(to);
  sent += Fill(message, data, sent);
  message.is_full = 1;
  Tell();
  return sent == data.size();
}

bool Meeting::TryReceive(int from, std::string& data) {
  Part& message = MessageOf(from, rank_);
  if (message.is_full == 0) {
    if (!HasGone(from) || message.is_full != 0) return false;
    data.clear();
    return true;
  }
  data.append(message.data(), static_cast<std::size_t>(message.piece_bytes));
  const bool is_whole = static_cast<std::int64_t>(data.size()) >= message.whole_bytes;
  message.is_full = 0;
  Tell();
  return is_whole;
}

std::uint32_t Meeting::Now() const { return static_cast<const Head*>(memory_)->changes; }

bool Meeting::AwaitChange(std::uint32_t since) {
  // The end of a process changes nothing, so it is looked for after this time.
  constexpr timespec kMost = {.tv_sec = 0, .tv_nsec = 100'000'000};
  syscall(SYS_futex, memory_, FUTEX_WAIT, since, &kMost, nullptr, 0);
  return !is_aborted_;
}

Meeting::RankState& Meeting::StateOf(int rank) const {
  return *reinterpret_cast<RankState*>(static_cast<char*>(memory_) +
                                       64 * (1 + static_cast<std::size_t>(rank)));
}

Meeting::Part& Meeting::PartOf(Table table, std::uint64_t step, int rank) const {
  const auto count = static_cast<std::size_t>(ranks_);
  const std::size_t states = RoundUp(64 * (1 + count), kPage);
  const std::size_t number =
      (static_cast<std::size_t>(table) * 2 + step % 2) * count + static_cast<std::size_t>(rank);
  return *reinterpret_cast<Part*>(static_cast<char*>(memory_) + states + number * kPartBytes);
}

Meeting::Part& Meeting::MessageOf(int from, int to) const {
  const auto count = static_cast<std::size_t>(ranks_);
  const std::size_t number = static_cast<std::size_t>(from) * count + static_cast<std::size_t>(to);
  char* const first =
      reinterpret_cast<char*>(&PartOf(Table::kStreams, 0, 0)) + 4 * count * kPartBytes;
  return *reinterpret_cast<Part*>(first + number * kPartBytes);
}

std::size_t Meeting::Fill(Part& part, std::string_view data, std::size_t begin) {
  const std::string_view piece = data.substr(std::min(begin, data.size()), kPiece);
  part.whole_bytes = static_cast<std::int64_t>(data.size());
  part.piece_bytes = static_cast<std::int64_t>(piece.size());
  if (!piece.empty()) std::memcpy(part.data(), piece.data(), piece.size());
  return piece.size();
}

void Meeting::Tell() {
  static_cast<Head*>(memory_)->changes.fetch_add(1);
  syscall(SYS_futex, memory_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Meeting::HasGone(int rank) const {
  const RankState& state = StateOf(rank);
  if (state.has_left != 0) return true;
  // The system reports no locks of this process.
  if (state.process == getpid()) return false;
  struct flock lock = LockOf(rank);
  return fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

template <typename Predicate>
bool Meeting::Await(Predicate predicate) {
  while (true) {
    const std::uint32_t now = Now();
    if (predicate()) return true;
    if (!AwaitChange(now)) return false;
  }
}

}  // namespace tidepool::cudart_host

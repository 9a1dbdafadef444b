// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator meet: a file that all of them map. Each holds a lock on a byte
// of it, which the system takes away with the process. So the others notice the end of a rank and
// do not wait for it.
#ifndef TIDEPOOL_DRYRUN_NCCL_MEETING_H_
#define TIDEPOOL_DRYRUN_NCCL_MEETING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tidepool::cudart_host {

// The subject of a step. All ranks must bring the same one.
struct Subject {
  std::int32_t kind = 0;
  std::int32_t type = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::int64_t bytes = 0;
  bool operator==(const Subject&) const = default;
};

// The ranks of one process may be used from several threads. Each table and each pair of ranks is
// used by one thread at a time.
class Meeting {
 public:
  static constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;  // of data at a time

  // Steps of streams and steps of the host have different tables, so they run side by side.
  enum class Table : std::uint8_t { kStreams, kHost };

  // Opens the meeting of that name, a word for a file name. Returns null if the file cannot be
  // made. `device` is the number of the GPU in the machine.
  static std::shared_ptr<Meeting> Open(const std::string& name, int ranks, int rank, int device);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }

  // Waits until all ranks have come. Returns false if the meeting is aborted before.
  bool AwaitAll();
  // Returns the first rank before this one with the same device, or -1.
  int RankWithSameDevice() const;
  // Lets the other ranks go on without this one.
  void Leave();
  // Ends the waits of this process.
  void Abort();

  // Brings data of any size, or none, to the next step and waits until every other rank has come to
  // it or has gone. Larger data than kPieceBytes goes in pieces, and all ranks wait for each of
  // them. Returns false if the meeting is aborted before.
  bool Step(Table table, const Subject& subject, std::string_view data);
  // Return the part of a rank in the last step: null if it has gone, no data if it brought none or
  // has gone amid it.
  const Subject* SubjectOf(Table table, int rank) const;
  std::string_view DataOf(Table table, int rank) const;

  // Gives the next piece of a message to a rank, unless the piece before has not been received yet.
  // `sent` is the bytes given so far, 0 at first. Returns whether that was the last piece. Messages
  // to a rank that has gone are lost.
  bool TrySend(int to, std::string_view data, std::size_t& sent);
  // Appends the next piece of a message to `data`, which is empty at first. Returns false if the
  // rank may still send more. Without data, and from a rank that has gone, `data` becomes empty.
  bool TryReceive(int from, std::string& data);

  // Returns a number that changes with each step, message and departure, for AwaitChange.
  std::uint32_t Now() const;
  // Waits until something has changed since Now, or some time has passed. Returns false if the
  // meeting is aborted.
  bool AwaitChange(std::uint32_t since);

 private:
  struct Head;
  struct RankState;
  struct Part;

  Meeting(int file, void* memory, std::size_t bytes, std::string path, int ranks, int rank);

  RankState& StateOf(int rank) const;
  Part& PartOf(Table table, std::uint64_t step, int rank) const;
  Part& MessageOf(int from, int to) const;
  // Puts the piece of the data from `begin` on into the part. Returns its bytes.
  static std::size_t Fill(Part& part, std::string_view data, std::size_t begin);
  bool StepOnce(Table table, const Subject& subject, std::string_view data, std::size_t begin);
  void Collect(Table table);
  std::string_view PieceOf(Table table, int rank) const;
  std::int64_t MostBytes(Table table) const;
  void Tell();
  bool HasGone(int rank) const;
  template <typename Predicate>
  bool Await(Predicate predicate);

  const int file_;
  void* const memory_;
  const std::size_t bytes_;
  const std::string path_;
  const int ranks_;
  const int rank_;
  std::uint64_t steps_[2] = {0, 0};
  std::vector<std::string> collected_[2];  // the data of each rank, if any came in pieces
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_MEETING_H_

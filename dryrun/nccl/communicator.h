// SPDX-License-Identifier: Apache-2.0
// A communicator: the operations of a rank in its streams together with the other ranks. A rank
// that is alone, without processes of the others, takes them to bring the same data.
#ifndef TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_H_
#define TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dryrun/nccl/meeting.h"
#include "dryrun/nccl/nccl.h"

namespace tidepool::cudart_host {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kAllToAll,
  kGather,
  kScatter,
};

struct Collective {
  CollectiveKind kind;
  const void* from;
  void* to;
  std::int64_t count;  // as the function of NCCL counts it
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

struct Message {
  bool is_sent;  // or else received
  const void* from;
  void* to;
  std::int64_t bytes;
  int peer;
};

// The operations of a communicator run one after the other, in the order in which they were queued,
// on one stream or several. Thread-safe.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Joins the meeting of that name, or a meeting of its own if it is alone. Returns null if there
  // can be none.
  static std::shared_ptr<Communicator> Join(const std::string& name, int ranks, int rank,
                                            bool is_alone);
  ~Communicator();

  // Waits for the other ranks. Returns an error of NCCL if they do not fit together.
  ncclResult_t AwaitRanks();

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  bool is_alone() const { return is_alone_; }
  int device() const { return device_; }
  ncclResult_t error() const { return is_aborted_ ? ncclInternalError : ncclSuccess; }

  ncclResult_t Queue(const Collective& collective, cudaStream_t stream);
  // Queues messages that do not wait for each other.
  ncclResult_t Queue(std::vector<Message> messages, cudaStream_t stream);

  // Returns the communicator of the ranks with the same color, ordered by key and rank. Waits for
  // all ranks, so none may be alone. Null for no color.
  std::shared_ptr<Communicator> Split(int color, int key);
  // Returns the communicator of these ranks, which has this one.
  std::shared_ptr<Communicator> Shrink(const std::vector<int>& ranks);

  void Leave() { meeting_->Leave(); }
  void Abort();

  // Makes a sum of inputs times the factor. Operations live as long as the communicator, since
  // queued work may need them.
  ncclRedOp_t MakeOperation(double factor);
  bool HasOperation(ncclRedOp_t op);

 private:
  Communicator(std::string name, std::shared_ptr<Meeting> meeting, int ranks, int rank,
               bool is_alone, int device);

  using Work = std::function<void(Communicator&)>;

  // A message on its way.
  struct Transfer {
    Message message;
    std::string data;
    std::size_t sent = 0;  // bytes
  };

  // Queues work that passes bytes over a link.
  ncclResult_t QueueWork(Work work, double bytes, cudaStream_t stream);
  ncclResult_t QueueCaptured(Work work, cudaStream_t stream);
  std::uint64_t TakeTurn();
  void RunInTurn(std::uint64_t turn, const Work& work);
  void Run(const Collective& collective);
  void Run(const std::vector<Message>& messages);
  bool NotePeers(const std::vector<Message>& messages);
  void RunAlone(const std::vector<Message>& messages) const;
  Collective AsRoot(Collective collective) const;
  const Subject* SubjectOf(int rank) const;
  std::string_view DataOf(int rank) const;
  std::string InputOf(const Collective& collective, std::int64_t bytes);
  std::string OutputOf(const Collective& collective, std::int64_t bytes) const;
  std::string ReducedPart(const Collective& collective, std::size_t begin, std::size_t bytes) const;
  bool Progress(Transfer& transfer) const;
  void WarnOfDifference(const Subject& subject) const;

  const std::string name_;
  const std::shared_ptr<Meeting> meeting_;
  const int ranks_;
  const int rank_;
  const bool is_alone_;
  const int device_;
  const std::size_t entry_;  // in the record
  std::mutex mutex_;
  std::set<int> peers_;  // with which it has exchanged messages
  std::condition_variable turn_has_come_;
  std::uint64_t queued_ = 0;  // turns
  std::uint64_t done_ = 0;    // turns
  std::map<int, double> factors_;
  int last_operation_ = ncclNumOps;
  int children_ = 0;  // by Split
  int shrunk_ = 0;    // children by Shrink
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_COMMUNICATOR_H_

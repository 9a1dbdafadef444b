// SPDX-License-Identifier: Apache-2.0
// An operation is a host function in its stream: it waits for the other ranks there. It exchanges
// the data that is known. The output of operations without known input is zero.
#include "dryrun/nccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "dryrun/nccl/communicator_record.h"
#include "dryrun/nccl/last_error.h"
#include "dryrun/nccl/reduce.h"
#include "dryrun/runtime/cudart/control.h"

namespace tidepool::cudart_host {
namespace {

constexpr Meeting::Table kStreams = Meeting::Table::kStreams;
constexpr Meeting::Table kHost = Meeting::Table::kHost;
// The most bytes of all ranks together that a rank makes up for its missing peers: a world may have
// thousands. Beyond, gathered data is unknown, and sums are the rank's own.
constexpr std::size_t kMostAlone = std::size_t{64} << 20;

// The links of a device to others, as NCCL_HOST_LINKS tells them: bytes a second to devices of its
// node, and to other nodes, and the devices of a node.
struct Links {
  double node = 0;
  double network = 0;
  int devices = 0;
};

Links LinksOfEnvironment() {
  Links links;
  const char* const text = std::getenv("NCCL_HOST_LINKS");
  const bool is_told = text != nullptr && std::sscanf(text, "%lf,%lf,%d", &links.node,
                                                      &links.network, &links.devices) == 3;
  return is_told ? links : Links();
}

// Returns the seconds that a rank needs to send bytes among as many ranks.
double SecondsOf(double bytes, int ranks) {
  const Links links = LinksOfEnvironment();
  const double rate = ranks > links.devices ? links.network : links.node;
  return rate > 0 ? bytes / rate : 0;
}

// The bytes that a rank gives and takes, for arrays of `bytes` bytes.
struct Extents {
  std::int64_t input;
  std::int64_t output;
};

Extents ExtentsOf(const Collective& collective, std::int64_t bytes, int ranks, int rank) {
  const bool is_root = collective.root == rank;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return {bytes, bytes};
    case CollectiveKind::kReduce:
      return {bytes, is_root ? bytes : 0};
    case CollectiveKind::kReduceScatter:
      return {bytes * ranks, bytes};
    case CollectiveKind::kBroadcast:
      return {is_root ? bytes : 0, bytes};
    case CollectiveKind::kAllGather:
      return {bytes, bytes * ranks};
    case CollectiveKind::kAllToAll:
      return {bytes * ranks, bytes * ranks};
    case CollectiveKind::kGather:
      return {bytes, is_root ? bytes * ranks : 0};
    case CollectiveKind::kScatter:
      return {is_root ? bytes * ranks : 0, bytes};
  }
  return {0, 0};
}

// Returns the bytes that a rank sends or receives in a collective of `ranks`, if they send parts
// around a ring, and a root exchanges messages with all.
double BytesOnLink(const Collective& collective, int ranks, int rank) {
  const double bytes =
      static_cast<double>(collective.count) * static_cast<double>(BytesOf(collective.type));
  const double others = ranks - 1;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return 2 * bytes * others / ranks;
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
      return others > 0 ? bytes : 0;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return bytes * others;
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return collective.root == rank || others == 0 ? bytes * others : bytes;
  }
  return 0;
}

double BytesOnLink(const std::vector<Message>& messages, int rank) {
  std::array<double, 2> bytes = {};  // received and sent, at once
  for (const Message& message : messages) {
    if (message.peer != rank) bytes[message.is_sent ? 1 : 0] += static_cast<double>(message.bytes);
  }
  return std::max(bytes[0], bytes[1]);
}

// Returns whether NCCL makes messages between ranks of a collective.
bool IsOfMessages(CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

const char* NameOf(std::int32_t kind) {
  static constexpr const char* kNames[] = {"AllReduce", "Reduce",   "ReduceScatter", "Broadcast",
                                           "AllGather", "AlltoAll", "Gather",        "Scatter"};
  return kNames[kind];
}

// Returns the bytes of device memory, or nothing if none of them is known. Of more than 1 MiB all
// must be: gradients with a few known bytes among them may be larger than the host's memory.
std::string ReadKnown(const void* from, std::int64_t bytes) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;
  const std::int64_t known = bytes == 0 ? 0 : cudartHostCountKnown(from, bytes);
  if (known == 0 || (bytes > kSmall && known < bytes)) return {};
  std::string data(static_cast<std::size_t>(bytes), 0);
  cudartHostReadData(from, data.data(), bytes);
  return data;
}

void Write(void* to, const std::string& data, std::int64_t bytes) {
  if (bytes > 0) cudartHostWriteData(to, data.empty() ? nullptr : data.data(), bytes);
}

// Returns a part of the data of a rank, or nothing if it brought none or less.
std::string_view PartOf(std::string_view data, std::size_t begin, std::size_t bytes) {
  return data.size() < begin + bytes ? std::string_view() : data.substr(begin, bytes);
}

std::string NameOfOwnMeeting() {
  static std::atomic<int> count = 0;
  return "alone-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// Returns the answer of a peer to a rank that is alone: the rank's message to itself, which is its
// part of an exchange among all ranks, or else its own message to that peer. Null if none has that
// size.
const Message* AnswerTo(const Message& received, const std::vector<Message>& messages, int rank) {
  const auto find = [&](int peer) {
    const auto found = std::find_if(messages.begin(), messages.end(), [&](const Message& one) {
      return one.is_sent && one.peer == peer && one.bytes == received.bytes;
    });
    return found == messages.end() ? nullptr : &*found;
  };
  const Message* const own = find(rank);
  return own != nullptr ? own : find(received.peer);
}

int NumberOfCurrentDevice() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

ncclResult_t RefuseMemory() {
  return Refuse(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

// Makes a device the current one of the thread while it lives. The default stream is that of the
// current device, and a group may end with that of another rank.
class WithDevice {
 public:
  explicit WithDevice(int device) : before_(NumberOfCurrentDevice()) { cudaSetDevice(device); }
  ~WithDevice() { cudaSetDevice(before_); }
  WithDevice(const WithDevice&) = delete;
  WithDevice& operator=(const WithDevice&) = delete;

 private:
  const int before_;
};

}  // namespace

Communicator::Communicator(std::string name, std::shared_ptr<Meeting> meeting, int ranks, int rank,
                           bool is_alone, int device)
    : name_(std::move(name)),
      meeting_(std::move(meeting)),
      ranks_(ranks),
      rank_(rank),
      is_alone_(is_alone),
      device_(device),
      entry_(CommunicatorRecord::Get().Add(ranks, device)) {}

Communicator::~Communicator() {
  CommunicatorRecord::Get().Remove(entry_);
  meeting_->Leave();
}

std::shared_ptr<Communicator> Communicator::Join(const std::string& name, int ranks, int rank,
                                                 bool is_alone) {
  const int device = NumberOfCurrentDevice();
  char bus[16];
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) return nullptr;
  const int number = static_cast<int>(std::strtol(bus + std::strlen("0000:"), nullptr, 16));
  std::shared_ptr<Meeting> meeting = is_alone ? Meeting::Open(NameOfOwnMeeting(), 1, 0, number)
                                              : Meeting::Open(name, ranks, rank, number);
  if (meeting == nullptr) return nullptr;
  return std::shared_ptr<Communicator>(
      new Communicator(name, std::move(meeting), ranks, rank, is_alone, device));
}

ncclResult_t Communicator::AwaitRanks() {
  if (!meeting_->AwaitAll()) return ncclInternalError;
  const int other = meeting_->RankWithSameDevice();
  if (other < 0) return ncclSuccess;
  std::fprintf(stderr, "nccl_host: ranks %d and %d use the same device, expected one for each\n",
               other, rank());
  return ncclInvalidUsage;
}

ncclResult_t Communicator::Queue(const Collective& collective, cudaStream_t stream) {
  CommunicatorRecord& record = CommunicatorRecord::Get();
  const bool has_room = IsOfMessages(collective.kind) ? record.SetPeers(entry_, ranks() - 1)
                                                      : record.SetCollective(entry_);
  if (!has_room) return RefuseMemory();
  return QueueWork([collective](Communicator& self) { self.Run(collective); },
                   BytesOnLink(collective, ranks(), rank()), stream);
}

// Returns false where there is no memory for the buffers.
bool Communicator::NotePeers(const std::vector<Message>& messages) {
  const std::unique_lock<std::mutex> lock(mutex_);
  const std::size_t before = peers_.size();
  for (const Message& message : messages) {
    if (message.peer != rank()) peers_.insert(message.peer);
  }
  return peers_.size() == before ||
         CommunicatorRecord::Get().SetPeers(entry_, static_cast<int>(peers_.size()));
}

ncclResult_t Communicator::Queue(std::vector<Message> messages, cudaStream_t stream) {
  if (!NotePeers(messages)) return RefuseMemory();
  const double bytes = BytesOnLink(messages, rank());
  return QueueWork([messages = std::move(messages)](Communicator& self) { self.Run(messages); },
                   bytes, stream);
}

ncclResult_t Communicator::QueueWork(Work work, double bytes, cudaStream_t stream) {
  const WithDevice own(device_);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess) return ncclUnhandledCudaError;
  cudartHostExchange(stream, SecondsOf(bytes, ranks()));
  cudartHostExpectData();
  if (capture != cudaStreamCaptureStatusNone) return QueueCaptured(std::move(work), stream);
  struct Queued {
    std::shared_ptr<Communicator> self;
    Work work;
    std::uint64_t turn;
  };
  const auto run = [](void* data) {
    const std::unique_ptr<Queued> one(static_cast<Queued*>(data));
    one->self->RunInTurn(one->turn, one->work);
  };
  const std::unique_lock<std::mutex> lock(mutex_);
  auto queued = std::make_unique<Queued>(Queued{shared_from_this(), std::move(work), queued_});
  if (cudartHostLaunchWork(stream, run, queued.get()) != cudaSuccess) return ncclUnhandledCudaError;
  static_cast<void>(queued.release());
  ++queued_;
  return ncclSuccess;
}

// A graph may run an operation many times, also when its communicator has gone. So the operation
// lives as long as the process. It takes its turn when the graph runs.
ncclResult_t Communicator::QueueCaptured(Work work, cudaStream_t stream) {
  struct Captured {
    std::weak_ptr<Communicator> self;
    Work work;
  };
  static std::mutex mutex;
  static auto* const all = new std::deque<Captured>();
  const auto run = [](void* data) {
    const auto& one = *static_cast<const Captured*>(data);
    const std::shared_ptr<Communicator> self = one.self.lock();
    if (self != nullptr) self->RunInTurn(self->TakeTurn(), one.work);
  };
  const std::unique_lock<std::mutex> lock(mutex);
  Captured& captured = all->emplace_back(Captured{weak_from_this(), std::move(work)});
  const int error = cudartHostLaunchWork(stream, run, &captured);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

std::uint64_t Communicator::TakeTurn() {
  const std::unique_lock<std::mutex> lock(mutex_);
  return queued_++;
}

void Communicator::RunInTurn(std::uint64_t turn, const Work& work) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // `wait` of GCC 12 needs a symbol that libstdc++ of GCC 11 does not have.
    constexpr auto kNever = std::chrono::system_clock::time_point::max();
    turn_has_come_.wait_until(lock, kNever, [&] { return done_ == turn; });
  }
  work(*this);
  const std::unique_lock<std::mutex> lock(mutex_);
  ++done_;
  turn_has_come_.notify_all();
}

// A rank that is alone has the data of a missing root in its own buffer, as in other ranks.
Collective Communicator::AsRoot(Collective collective) const {
  if (!is_alone_ || collective.kind != CollectiveKind::kBroadcast || collective.root == rank()) {
    return collective;
  }
  collective.from = collective.to;
  collective.root = rank();
  return collective;
}

const Subject* Communicator::SubjectOf(int rank) const {
  return meeting_->SubjectOf(kStreams, is_alone_ ? 0 : rank);
}

std::string_view Communicator::DataOf(int rank) const {
  return meeting_->DataOf(kStreams, is_alone_ ? 0 : rank);
}

void Communicator::Run(const Collective& ordered) {
  const Collective collective = AsRoot(ordered);
  const auto bytes = collective.count * static_cast<std::int64_t>(BytesOf(collective.type));
  const Subject subject = {.kind = static_cast<std::int32_t>(collective.kind),
                           .type = static_cast<std::int32_t>(collective.type),
                           .op = std::min<std::int32_t>(collective.op, ncclNumOps),
                           .root = collective.root,
                           .bytes = bytes};
  if (!meeting_->Step(kStreams, subject, InputOf(collective, bytes))) return;
  if (!is_alone_) WarnOfDifference(subject);
  Write(collective.to, OutputOf(collective, bytes),
        ExtentsOf(collective, bytes, ranks(), rank()).output);
}

std::string Communicator::InputOf(const Collective& collective, std::int64_t bytes) {
  std::string data =
      ReadKnown(collective.from, ExtentsOf(collective, bytes, ranks(), rank()).input);
  if (collective.op <= ncclAvg || data.empty()) return data;
  const std::unique_lock<std::mutex> lock(mutex_);
  const auto factor = factors_.find(collective.op);
  return factor == factors_.end() ? data : Times(data, collective.type, factor->second);
}

// Returns this rank's output, or nothing if no byte of it is known.
std::string Communicator::OutputOf(const Collective& collective, std::int64_t bytes) const {
  const auto size = static_cast<std::size_t>(bytes);
  const std::size_t own = static_cast<std::size_t>(rank()) * size;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return ReducedPart(collective, 0, size);
    case CollectiveKind::kReduce:
      return collective.root == rank() ? ReducedPart(collective, 0, size) : std::string();
    case CollectiveKind::kReduceScatter:
      return ReducedPart(collective, own, size);
    case CollectiveKind::kBroadcast:
      return std::string(DataOf(collective.root));
    case CollectiveKind::kScatter:
      return std::string(PartOf(DataOf(collective.root), own, size));
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
      break;
  }
  if (is_alone_ && size * static_cast<std::size_t>(ranks()) > kMostAlone) return {};
  const std::size_t begin = collective.kind == CollectiveKind::kAllToAll ? own : 0;
  const auto part_of = [&](int one) { return PartOf(DataOf(one), begin, size); };
  std::string output;
  for (int one = 0; one < ranks(); ++one) {
    if (part_of(one).empty()) continue;
    output.resize(size * static_cast<std::size_t>(ranks()));
    std::memcpy(output.data() + static_cast<std::size_t>(one) * size, part_of(one).data(), size);
  }
  return output;
}

std::string Communicator::ReducedPart(const Collective& collective, std::size_t begin,
                                      std::size_t bytes) const {
  std::vector<std::string_view> parts;
  bool is_any_known = false;
  const bool is_own = is_alone_ && bytes * static_cast<std::size_t>(ranks()) > kMostAlone;
  for (int one = 0; one < (is_own ? 1 : ranks()); ++one) {
    if (SubjectOf(one) == nullptr) continue;  // it has gone
    parts.push_back(PartOf(DataOf(one), begin, bytes));
    is_any_known |= !parts.back().empty();
  }
  return is_any_known ? Reduce(parts, collective.type, collective.op) : std::string();
}

void Communicator::WarnOfDifference(const Subject& subject) const {
  for (int one = 0; one < ranks(); ++one) {
    const Subject* const other = SubjectOf(one);
    if (other == nullptr || *other == subject) continue;
    std::fprintf(stderr,
                 "nccl_host: rank %d calls %s of %lld bytes where rank %d calls %s of %lld bytes, "
                 "expected the same call\n",
                 rank(), NameOf(subject.kind), static_cast<long long>(subject.bytes), one,
                 NameOf(other->kind), static_cast<long long>(other->bytes));
    return;
  }
}

void Communicator::RunAlone(const std::vector<Message>& messages) const {
  std::vector<std::pair<const Message*, std::string>> received;
  for (const Message& message : messages) {
    if (message.is_sent) continue;
    const Message* const answer = AnswerTo(message, messages, rank());
    received.emplace_back(&message,
                          answer == nullptr ? "" : ReadKnown(answer->from, answer->bytes));
  }
  for (const auto& [message, data] : received) Write(message->to, data, message->bytes);
}

void Communicator::Run(const std::vector<Message>& messages) {
  if (is_alone_) {
    RunAlone(messages);
    return;
  }
  std::vector<Transfer> transfers;
  transfers.reserve(messages.size());
  for (const Message& message : messages) {
    transfers.push_back(
        {message, message.is_sent ? ReadKnown(message.from, message.bytes) : std::string()});
  }
  while (!transfers.empty()) {
    const std::uint32_t now = meeting_->Now();
    // Messages to and from the same rank keep their order.
    std::vector<Transfer> waiting;
    waiting.reserve(transfers.size());
    for (Transfer& transfer : transfers) {
      const Message& message = transfer.message;
      const bool is_behind =
          std::any_of(waiting.begin(), waiting.end(), [&](const Transfer& other) {
            return other.message.is_sent == message.is_sent && other.message.peer == message.peer;
          });
      if (is_behind || !Progress(transfer)) waiting.push_back(std::move(transfer));
    }
    const bool has_progressed = waiting.size() < transfers.size();
    transfers = std::move(waiting);
    if (!has_progressed && !meeting_->AwaitChange(now)) return;
  }
}

// Returns whether the message has been sent or received whole.
bool Communicator::Progress(Transfer& transfer) const {
  const Message& message = transfer.message;
  if (message.is_sent) return meeting_->TrySend(message.peer, transfer.data, transfer.sent);
  if (!meeting_->TryReceive(message.peer, transfer.data)) return false;
  if (!transfer.data.empty()) transfer.data.resize(static_cast<std::size_t>(message.bytes));
  Write(message.to, transfer.data, message.bytes);
  return true;
}

std::shared_ptr<Communicator> Communicator::Split(int color, int key) {
  const std::int32_t own[2] = {color, key};
  if (!meeting_->Step(kHost, {}, {reinterpret_cast<const char*>(own), sizeof(own)})) return nullptr;
  const int child = ++children_;
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int one = 0; one < ranks(); ++one) {
    const std::string_view data = meeting_->DataOf(kHost, one);
    if (data.size() != sizeof(own)) continue;
    std::int32_t theirs[2];
    std::memcpy(theirs, data.data(), sizeof(theirs));
    if (theirs[0] == color) members.emplace_back(theirs[1], one);
  }
  std::sort(members.begin(), members.end());
  const auto place = std::find(members.begin(), members.end(), std::pair(key, rank()));
  return Join(name_ + "-" + std::to_string(child) + "-" + std::to_string(color),
              static_cast<int>(members.size()), static_cast<int>(place - members.begin()), false);
}

std::shared_ptr<Communicator> Communicator::Shrink(const std::vector<int>& ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank());
  std::string name = name_ + "-s";
  for (const int one : ranks) name += std::to_string(one) + ".";
  return Join(name + std::to_string(++shrunk_), static_cast<int>(ranks.size()),
              static_cast<int>(place - ranks.begin()), is_alone_);
}

void Communicator::Abort() {
  is_aborted_ = true;
  meeting_->Abort();
}

ncclRedOp_t Communicator::MakeOperation(double factor) {
  const std::unique_lock<std::mutex> lock(mutex_);
  factors_[++last_operation_] = factor;
  return static_cast<ncclRedOp_t>(last_operation_);
}

bool Communicator::HasOperation(ncclRedOp_t op) {
  const std::unique_lock<std::mutex> lock(mutex_);
  return factors_.contains(op);
}

}  // namespace tidepool::cudart_host

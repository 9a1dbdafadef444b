// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL. They check their arguments as NCCL does, and pass them on.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "dryrun/nccl/communicator.h"
#include "dryrun/nccl/group.h"
#include "dryrun/nccl/last_error.h"
#include "dryrun/nccl/nccl.h"
#include "dryrun/nccl/reduce.h"
#include "dryrun/runtime/cudart/control.h"

namespace tidepool::cudart_host {
namespace {

using CommunicatorPointer = std::shared_ptr<Communicator>;

// The communicators by their handles. Is never destroyed: programs call NCCL until their end.
class Handles {
 public:
  static Handles& Get() {
    static Handles* const handles = new Handles();
    return *handles;
  }

  ncclComm_t Add(const CommunicatorPointer& communicator) {
    const std::unique_lock<std::mutex> lock(mutex_);
    const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
    communicators_[handle] = communicator;
    return handle;
  }
  CommunicatorPointer Find(ncclComm_t handle) const {
    const std::unique_lock<std::mutex> lock(mutex_);
    const auto found = communicators_.find(handle);
    return found == communicators_.end() ? nullptr : found->second;
  }
  void Remove(ncclComm_t handle) {
    const std::unique_lock<std::mutex> lock(mutex_);
    communicators_.erase(handle);
  }

 private:
  mutable std::mutex mutex_;
  std::map<ncclComm_t, CommunicatorPointer> communicators_;
};

// Calls `body` with the communicator, unless the handle is unknown.
template <typename Body>
ncclResult_t With(ncclComm_t handle, Body body) {
  const CommunicatorPointer communicator = Handles::Get().Find(handle);
  if (communicator == nullptr) return Refuse(ncclInvalidArgument, "the communicator is unknown");
  return body(*communicator);
}

// Stores a number of the communicator.
ncclResult_t Tell(ncclComm_t handle, int* place, int (Communicator::*number)() const) {
  return With(handle, [&](Communicator& communicator) {
    if (place == nullptr) return ncclInvalidArgument;
    *place = (communicator.*number)();
    return ncclSuccess;
  });
}

// Makes a handle for a new communicator, which still waits for its other ranks.
ncclResult_t Give(const CommunicatorPointer& communicator, ncclComm_t* handle) {
  if (communicator == nullptr) {
    return Refuse(ncclSystemError, "the file in which ranks meet cannot be made");
  }
  *handle = Handles::Get().Add(communicator);
  return Group::OfThisThread().Await(communicator);
}

// Whether processes have no peers: a communicator of several ranks then has one rank alone.
bool ArePeersMissing() {
  const char* const ordered = std::getenv("NCCL_HOST_PEERS");
  return ordered != nullptr && std::strcmp(ordered, "missing") == 0;
}

ncclResult_t Init(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, bool is_alone) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return Refuse(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                           std::to_string(ranks) +
                                           ", expected a rank from 0 and less than their number");
  }
  const std::string name(id.internal, strnlen(id.internal, sizeof(id.internal)));
  if (name.empty() || name.find('/') != std::string::npos) {
    return Refuse(ncclInvalidArgument, "the unique ID is none of ncclGetUniqueId");
  }
  return Give(Communicator::Join(name, ranks, rank, is_alone), handle);
}

bool IsOfDevice(const void* address, int device) {
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) return false;
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device == device;
  return attributes.type != cudaMemoryTypeUnregistered;
}

bool IsInput(CollectiveKind kind, bool is_root) {
  return is_root || (kind != CollectiveKind::kBroadcast && kind != CollectiveKind::kScatter);
}

bool IsOutput(CollectiveKind kind, bool is_root) {
  return is_root || (kind != CollectiveKind::kReduce && kind != CollectiveKind::kGather);
}

bool IsReduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

ncclResult_t Check(Communicator& communicator, const Collective& collective) {
  if (BytesOf(collective.type) == 0) {
    return Refuse(ncclInvalidArgument,
                  "the type " + std::to_string(collective.type) + " is unknown");
  }
  if (collective.root < 0 || collective.root >= communicator.ranks()) {
    return Refuse(ncclInvalidArgument, "the root " + std::to_string(collective.root) +
                                           " is none of " + std::to_string(communicator.ranks()) +
                                           " ranks");
  }
  if (IsReduction(collective.kind) &&
      (collective.op < 0 ||
       (collective.op >= ncclNumOps && !communicator.HasOperation(collective.op)))) {
    return Refuse(ncclInvalidArgument,
                  "the operation " + std::to_string(collective.op) + " is unknown");
  }
  const bool is_root = collective.root == communicator.rank();
  if (collective.count > 0 &&
      ((IsInput(collective.kind, is_root) && !IsOfDevice(collective.from, communicator.device())) ||
       (IsOutput(collective.kind, is_root) && !IsOfDevice(collective.to, communicator.device())))) {
    return Refuse(ncclInvalidArgument, "a buffer is not memory of the communicator's device");
  }
  return ncclSuccess;
}

ncclResult_t Run(ncclComm_t handle, const Collective& collective, cudaStream_t stream) {
  const CommunicatorPointer communicator = Handles::Get().Find(handle);
  if (communicator == nullptr) return Refuse(ncclInvalidArgument, "the communicator is unknown");
  const ncclResult_t refusal = Check(*communicator, collective);
  if (refusal != ncclSuccess || collective.count == 0) return refusal;
  return Group::OfThisThread().Add(communicator, collective, stream);
}

ncclResult_t Exchange(ncclComm_t handle, Message message, size_t count, ncclDataType_t type,
                      cudaStream_t stream) {
  const CommunicatorPointer communicator = Handles::Get().Find(handle);
  if (communicator == nullptr) return Refuse(ncclInvalidArgument, "the communicator is unknown");
  if (BytesOf(type) == 0 || message.peer < 0 || message.peer >= communicator->ranks()) {
    return Refuse(ncclInvalidArgument, "the peer " + std::to_string(message.peer) +
                                           " or the type " + std::to_string(type) + " is unknown");
  }
  if (count == 0) return ncclSuccess;
  if (!IsOfDevice(message.is_sent ? message.from : message.to, communicator->device())) {
    return Refuse(ncclInvalidArgument, "a buffer is not memory of the communicator's device");
  }
  message.bytes = static_cast<std::int64_t>(count * BytesOf(type));
  return Group::OfThisThread().Add(communicator, message, stream);
}

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "%08x%08x%08x%08x", random(), random(),
                random(), random());
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return LastError().c_str(); }

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return Init(comm, ranks, id, rank, ArePeersMissing());
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* /*config*/) {
  return Init(comm, ranks, id, rank, ArePeersMissing());
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                      ncclUniqueId* ids, ncclConfig_t* /*config*/) {
  if (ids == nullptr || id_count < 1) return ncclInvalidArgument;
  return Init(comm, ranks, ids[0], rank, ArePeersMissing());
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  if (comms == nullptr || devices < 1) return ncclInvalidArgument;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess) return ncclUnhandledCudaError;
  ncclResult_t first = ncclGroupStart();
  for (int i = 0; i < devices && first == ncclSuccess; ++i) {
    const int device = list == nullptr ? i : list[i];
    first = cudaSetDevice(device) == cudaSuccess ? Init(&comms[i], devices, id, i, false)
                                                 : ncclInvalidArgument;
  }
  const ncclResult_t end = ncclGroupEnd();
  cudaSetDevice(before);
  return first == ncclSuccess ? end : first;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* /*config*/) {
  return With(comm, [&](Communicator& communicator) {
    if (made == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) return ncclInvalidArgument;
    *made = nullptr;
    if (communicator.is_alone()) {
      return Refuse(ncclInvalidUsage, "a rank without its peers does not know their colors");
    }
    const CommunicatorPointer child = communicator.Split(color, key);
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : Give(child, made);
  });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                            ncclConfig_t* /*config*/, int /*flags*/) {
  return With(comm, [&](Communicator& communicator) {
    if (made == nullptr || excluded == nullptr || excluded_count < 1) return ncclInvalidArgument;
    std::vector<bool> is_kept(static_cast<std::size_t>(communicator.ranks()), true);
    for (int i = 0; i < excluded_count; ++i) {
      if (excluded[i] < 0 || excluded[i] >= communicator.ranks()) return ncclInvalidArgument;
      is_kept[static_cast<std::size_t>(excluded[i])] = false;
    }
    if (!is_kept[static_cast<std::size_t>(communicator.rank())]) return ncclInvalidArgument;
    std::vector<int> ranks;
    for (int one = 0; one < communicator.ranks(); ++one) {
      if (is_kept[static_cast<std::size_t>(one)]) ranks.push_back(one);
    }
    return Give(communicator.Shrink(ranks), made);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return With(comm, [](Communicator&) { return ncclSuccess; });
}

// Queued operations keep the communicator. Its rank leaves after the last of them.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return With(comm, [&](Communicator&) {
    Handles::Get().Remove(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return With(comm, [&](Communicator& communicator) {
    communicator.Abort();
    Handles::Get().Remove(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int /*flags*/) {
  return With(comm, [](Communicator& communicator) {
    communicator.Abort();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return With(comm, [&](Communicator& communicator) {
    if (error == nullptr) return ncclInvalidArgument;
    *error = communicator.error();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return Tell(comm, count, &Communicator::ranks);
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return Tell(comm, device, &Communicator::device);
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return Tell(comm, rank, &Communicator::rank);
}

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  if (address == nullptr) return ncclInvalidArgument;
  return cudaMalloc(address, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* address) {
  return cudaFree(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* address, size_t bytes, void** handle) {
  return With(comm, [&](Communicator&) {
    if (address == nullptr || bytes == 0 || handle == nullptr) return ncclInvalidArgument;
    *handle = address;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* /*handle*/) {
  return With(comm, [](Communicator&) { return ncclSuccess; });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* address, size_t bytes,
                                    ncclWindow_t* window, int /*flags*/) {
  return With(comm, [&](Communicator&) {
    if (address == nullptr || bytes == 0 || window == nullptr) return ncclInvalidArgument;
    *window = static_cast<ncclWindow_t>(address);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t /*window*/) {
  return With(comm, [](Communicator&) { return ncclSuccess; });
}

// Kernels that communicate by themselves do nothing here, so there is nothing for them.
ncclResult_t ncclDevCommCreate(ncclComm_t /*comm*/, const void* /*requirements*/, void* /*made*/) {
  return Refuse(ncclInvalidUsage, "communicators of kernels are not supported");
}

ncclResult_t ncclDevCommDestroy(ncclComm_t /*comm*/, const void* /*made*/) {
  return Refuse(ncclInvalidUsage, "communicators of kernels are not supported");
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return With(comm, [&](Communicator& communicator) {
    if (op == nullptr || scalar == nullptr || BytesOf(type) == 0) return ncclInvalidArgument;
    std::string bytes(BytesOf(type), 0);
    if (residence == ncclScalarHostImmediate) {
      std::memcpy(bytes.data(), scalar, bytes.size());
    } else {
      cudartHostReadData(scalar, bytes.data(), static_cast<long long>(bytes.size()));
    }
    *op = communicator.MakeOperation(NumberOf(bytes, type));
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return With(comm, [&](Communicator& communicator) {
    return communicator.HasOperation(op) ? ncclSuccess : ncclInvalidArgument;
  });
}

ncclResult_t ncclGroupStart() {
  Group::OfThisThread().Begin();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return Group::OfThisThread().End(); }

ncclResult_t ncclGroupSimulateEnd(void* /*info*/) {
  return Refuse(ncclInvalidUsage, "estimates of time are not supported");
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Run(comm,
             {CollectiveKind::kAllReduce, from, to, static_cast<std::int64_t>(count), type, op},
             stream);
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Run(comm,
             {CollectiveKind::kReduce, from, to, static_cast<std::int64_t>(count), type, op, root},
             stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Run(comm,
             {CollectiveKind::kReduceScatter, from, to, static_cast<std::int64_t>(count), type, op},
             stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Run(
      comm,
      {CollectiveKind::kBroadcast, from, to, static_cast<std::int64_t>(count), type, ncclSum, root},
      stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Run(comm, {CollectiveKind::kAllGather, from, to, static_cast<std::int64_t>(count), type},
             stream);
}

ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return Run(comm, {CollectiveKind::kAllToAll, from, to, static_cast<std::int64_t>(count), type},
             stream);
}

ncclResult_t ncclGather(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return Run(
      comm,
      {CollectiveKind::kGather, from, to, static_cast<std::int64_t>(count), type, ncclSum, root},
      stream);
}

ncclResult_t ncclScatter(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return Run(
      comm,
      {CollectiveKind::kScatter, from, to, static_cast<std::int64_t>(count), type, ncclSum, root},
      stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Exchange(comm, {true, from, nullptr, 0, peer}, count, type, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Exchange(comm, {false, nullptr, to, 0, peer}, count, type, stream);
}

}  // extern "C"

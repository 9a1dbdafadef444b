// SPDX-License-Identifier: Apache-2.0
#include "dryrun/nccl/group.h"

namespace tidepool::cudart_host {

Group& Group::OfThisThread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::End() {
  if (depth_ == 0) return ncclInvalidUsage;
  return --depth_ == 0 ? Flush() : ncclSuccess;
}

ncclResult_t Group::Await(const std::shared_ptr<Communicator>& communicator) {
  new_.push_back(communicator);
  return depth_ == 0 ? Flush() : ncclSuccess;
}

ncclResult_t Group::Add(const std::shared_ptr<Communicator>& communicator,
                        const Collective& collective, cudaStream_t stream) {
  collectives_.push_back({communicator, collective, stream});
  return depth_ == 0 ? Flush() : ncclSuccess;
}

ncclResult_t Group::Add(const std::shared_ptr<Communicator>& communicator, const Message& message,
                        cudaStream_t stream) {
  messages_[{communicator, stream}].push_back(message);
  return depth_ == 0 ? Flush() : ncclSuccess;
}

ncclResult_t Group::Flush() {
  ncclResult_t first = ncclSuccess;
  const auto note = [&first](ncclResult_t result) {
    if (first == ncclSuccess) first = result;
  };
  for (const auto& communicator : new_) note(communicator->AwaitRanks());
  for (const QueuedCollective& one : collectives_) {
    note(one.communicator->Queue(one.collective, one.stream));
  }
  for (auto& [place, messages] : messages_) {
    note(place.first->Queue(std::move(messages), place.second));
  }
  new_.clear();
  collectives_.clear();
  messages_.clear();
  return first;
}

}  // namespace tidepool::cudart_host

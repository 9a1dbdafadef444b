// SPDX-License-Identifier: Apache-2.0
// Groups of calls, which begin with ncclGroupStart and take effect at ncclGroupEnd.
#ifndef TIDEPOOL_DRYRUN_NCCL_GROUP_H_
#define TIDEPOOL_DRYRUN_NCCL_GROUP_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "dryrun/nccl/communicator.h"

namespace tidepool::cudart_host {

// The group of one thread. Outside of a group, calls take effect at once.
class Group {
 public:
  static Group& OfThisThread();

  void Begin() { ++depth_; }
  // Ends the innermost group. Returns the first error of the calls, at the end of the outermost
  // one.
  ncclResult_t End();

  ncclResult_t Await(const std::shared_ptr<Communicator>& communicator);
  ncclResult_t Add(const std::shared_ptr<Communicator>& communicator, const Collective& collective,
                   cudaStream_t stream);
  ncclResult_t Add(const std::shared_ptr<Communicator>& communicator, const Message& message,
                   cudaStream_t stream);

 private:
  struct QueuedCollective {
    std::shared_ptr<Communicator> communicator;
    Collective collective;
    cudaStream_t stream;
  };

  ncclResult_t Flush();

  int depth_ = 0;
  std::vector<std::shared_ptr<Communicator>> new_;
  std::vector<QueuedCollective> collectives_;
  std::map<std::pair<std::shared_ptr<Communicator>, cudaStream_t>, std::vector<Message>> messages_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_GROUP_H_

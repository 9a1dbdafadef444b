// SPDX-License-Identifier: Apache-2.0
// The text of the last error of the calling thread.
#ifndef TIDEPOOL_DRYRUN_NCCL_LAST_ERROR_H_
#define TIDEPOOL_DRYRUN_NCCL_LAST_ERROR_H_

#include <string>
#include <utility>

#include "dryrun/nccl/nccl.h"

namespace tidepool::cudart_host {

inline std::string& LastError() {
  thread_local std::string text;
  return text;
}

inline ncclResult_t Refuse(ncclResult_t result, std::string error) {
  LastError() = std::move(error);
  return result;
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_NCCL_LAST_ERROR_H_

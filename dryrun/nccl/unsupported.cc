// SPDX-License-Identifier: Apache-2.0
// Functions of newer versions of NCCL that PyTorch links with: growing and pausing communicators,
// memory that ranks share, and signals. Every call fails.
#include <cstdio>

#include "dryrun/nccl/nccl.h"

namespace {

ncclResult_t Unsupported(const char* function) {
  std::fprintf(stderr, "nccl_host: %s is not supported by this stand-in for NCCL\n", function);
  return ncclInvalidUsage;
}

}  // namespace

extern "C" {

ncclResult_t ncclCommGetUniqueId() { return Unsupported(__func__); }
ncclResult_t ncclCommGrow() { return Unsupported(__func__); }
ncclResult_t ncclCommMemStats() { return Unsupported(__func__); }
ncclResult_t ncclCommResume() { return Unsupported(__func__); }
ncclResult_t ncclCommSuspend() { return Unsupported(__func__); }
ncclResult_t ncclGetLsaMultimemDevicePointer() { return Unsupported(__func__); }
ncclResult_t ncclGetPeerDevicePointer() { return Unsupported(__func__); }
ncclResult_t ncclPutSignal() { return Unsupported(__func__); }
ncclResult_t ncclSignal() { return Unsupported(__func__); }
ncclResult_t ncclWaitSignal() { return Unsupported(__func__); }
ncclResult_t ncclWinGetUserPtr() { return Unsupported(__func__); }

}  // extern "C"

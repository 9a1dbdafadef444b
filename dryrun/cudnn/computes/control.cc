// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/computes/control.h"

#include <atomic>

#include "dryrun/cudnn/library.h"
#include "dryrun/runtime/cudart/call_counts.h"

namespace tidepool::cudart_host {
namespace {

// Is never destroyed: programs call cuDNN until their very end.
CallCounts& Counts() {
  static auto* const counts = new CallCounts();
  return *counts;
}

std::atomic<long long> live_objects = 0;

}  // namespace

cudnnStatus_t EnterCudnn(const char* function) {
  return static_cast<cudnnStatus_t>(Counts().Enter(function));
}

void CountLive(long long change) { live_objects.fetch_add(change); }

}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Counts;

extern "C" {

size_t cudnnGetVersion() { return 91900; }

void cudnnHostFailCall(const char* function, long long n, int status) {
  Counts().Order(function == nullptr ? "" : function, n, status);
}
long long cudnnHostCountCalls(const char* function) {
  return Counts().Count(function == nullptr ? "" : function);
}
long long cudnnHostCountLive() { return tidepool::cudart_host::live_objects.load(); }

}  // extern "C"

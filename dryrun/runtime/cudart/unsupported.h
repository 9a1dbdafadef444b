// SPDX-License-Identifier: Apache-2.0
// Functions of the runtime that the stand-in lacks. This header stands without CUDA's own headers,
// which declare these functions otherwise.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_UNSUPPORTED_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_UNSUPPORTED_H_

#include <atomic>

namespace tidepool::cudart_host {

// Ends an unsupported call in the same way as every other failed call, and says so on stderr the
// first time. Returns the error.
int RefuseUnsupported(const char* function, std::atomic<bool>& was_said);

}  // namespace tidepool::cudart_host

// Defines a function that looks at no argument, so the types of its parameters do not matter.
#define UNSUPPORTED(name)                                             \
  extern "C" int name() {                                             \
    static std::atomic<bool> was_said(false);                         \
    return tidepool::cudart_host::RefuseUnsupported(#name, was_said); \
  }

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_UNSUPPORTED_H_

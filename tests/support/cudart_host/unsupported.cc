// All that the runtime has and the stand-in does not do, so that every program finds its symbols.
// What arguments a function has does not matter to one that looks at none.
#include "tests/support/cudart_host/unsupported.h"

#include <atomic>
#include <cstdio>

namespace {

int Refuse(const char* function, std::atomic<bool>& was_said) {
  if (!was_said.exchange(true)) {
    std::fprintf(stderr, "cudart_host: %s is not supported by this stand-in for the CUDA runtime\n",
                 function);
  }
  return tidepool::cudart_host::RefuseUnsupported(function);
}

}  // namespace

#define UNSUPPORTED(name)                     \
  extern "C" int name() {                     \
    static std::atomic<bool> was_said(false); \
    return Refuse(#name, was_said);           \
  }
#include "tests/support/cudart_host/unsupported.inc"

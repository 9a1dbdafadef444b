// SPDX-License-Identifier: Apache-2.0
// Defines all functions of the runtime that the stand-in lacks, so that every program finds its
// symbols. They look at no argument, so the types of their parameters do not matter.
#include "stand_in/cudart/unsupported.h"

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
#include "stand_in/cudart/unsupported.inc"

// SPDX-License-Identifier: Apache-2.0
#include "dryrun/libraries/answers.h"

#include <dlfcn.h>

namespace tidepool::cudart_host {

// The runtime is looked for by name: two libraries of the stand-in have one, for different versions
// of CUDA.
int CudaMajor() {
  using GetVersion = int (*)(int*);
  static const int major = [] {
    const auto get = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "cudaRuntimeGetVersion"));
    int version = 0;
    return get != nullptr && get(&version) == 0 ? version / 1000 : 13;
  }();
  return major;
}

}  // namespace tidepool::cudart_host

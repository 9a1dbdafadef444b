// SPDX-License-Identifier: Apache-2.0
// NVRTC, which compiles nothing: the program of every source is a few bytes, and the driver of the
// stand-in loads them.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "dryrun/libraries/answers.h"

namespace {

constexpr char kProgram[] = "no program here";
// The architectures that PyTorch and CuPy know; newer architectures run the newest of them.
constexpr int kArchitectures[] = {75, 80, 86, 89, 90, 100, 120};

int StoreSize(std::size_t* bytes, std::size_t size) {
  *bytes = size;
  return 0;
}

int StoreProgram(char* place) {
  std::memcpy(place, kProgram, sizeof(kProgram));
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER const char* nvrtcGetErrorString(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}
TIDEPOOL_ANSWER int nvrtcVersion(int* major, int* minor) {
  *major = tidepool::cudart_host::CudaMajor();
  *minor = 0;
  return 0;
}
TIDEPOOL_ANSWER int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return 0;
}
TIDEPOOL_ANSWER int nvrtcGetSupportedArchs(int* architectures) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return 0;
}

TIDEPOOL_ANSWER int nvrtcCreateProgram(void** program, const char* /*source*/, const char* /*name*/,
                                       int /*headers*/, const char* const* /*texts*/,
                                       const char* const* /*names*/) {
  return tidepool::cudart_host::MakeObject(program);
}
TIDEPOOL_ANSWER int nvrtcDestroyProgram(void** program) {
  return tidepool::cudart_host::DeleteObject(*program);
}
TIDEPOOL_ANSWER int nvrtcGetPTXSize(void* /*program*/, std::size_t* bytes) {
  return StoreSize(bytes, sizeof(kProgram));
}
TIDEPOOL_ANSWER int nvrtcGetPTX(void* /*program*/, char* place) { return StoreProgram(place); }
TIDEPOOL_ANSWER int nvrtcGetCUBINSize(void* /*program*/, std::size_t* bytes) {
  return StoreSize(bytes, sizeof(kProgram));
}
TIDEPOOL_ANSWER int nvrtcGetCUBIN(void* /*program*/, char* place) { return StoreProgram(place); }
TIDEPOOL_ANSWER int nvrtcGetProgramLogSize(void* /*program*/, std::size_t* bytes) {
  return StoreSize(bytes, 1);
}
TIDEPOOL_ANSWER int nvrtcGetProgramLog(void* /*program*/, char* place) {
  *place = '\0';
  return 0;
}
// The name stays as it is: it must live as long as the program, as the caller's does.
TIDEPOOL_ANSWER int nvrtcGetLoweredName(void* /*program*/, const char* expression,
                                        const char** name) {
  *name = expression;
  return 0;
}

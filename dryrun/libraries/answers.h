// SPDX-License-Identifier: Apache-2.0
// Parts that the answers share. Each file has the functions of one library of NVIDIA that must do
// more than return success. They are written without that library's headers, so that one build
// serves all its versions: only the types' sizes count.
#ifndef TIDEPOOL_DRYRUN_LIBRARIES_ANSWERS_H_
#define TIDEPOOL_DRYRUN_LIBRARIES_ANSWERS_H_

// A function that a program finds by its name (exports.map).
#define TIDEPOOL_ANSWER extern "C"

namespace tidepool::cudart_host {

// Make and delete the object of a handle. PyTorch keeps a workspace for each handle, so each has
// its own, also where only the address matters.
template <typename Object = char>
int MakeObject(void** made) {
  *made = new Object();
  return 0;
}
template <typename Object = char>
int DeleteObject(void* object) {
  delete static_cast<Object*>(object);
  return 0;
}

inline constexpr const char* kNoWords = "a stand-in for a library of NVIDIA";

// Returns the major version of the CUDA runtime of this process.
int CudaMajor();

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_LIBRARIES_ANSWERS_H_

// SPDX-License-Identifier: Apache-2.0
// Tells whether the memory of a process is about to be free.
#ifndef TIDEPOOL_LIB_MEMORY_SHARING_ENDING_PROCESS_H_
#define TIDEPOOL_LIB_MEMORY_SHARING_ENDING_PROCESS_H_

#include <cstdint>

namespace tidepool::sharing {

// Whether a process is ending, and the system may still close files of it. False for one that is
// gone, or a zombie without other threads, and where the system does not tell (/proc).
bool IsEnding(std::int64_t process);

}  // namespace tidepool::sharing

#endif  // TIDEPOOL_LIB_MEMORY_SHARING_ENDING_PROCESS_H_

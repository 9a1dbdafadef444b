// SPDX-License-Identifier: Apache-2.0
// Statuses as C programs see them, and the text of a thread's last error.
#ifndef TIDEPOOL_BINDINGS_C_ERROR_H_
#define TIDEPOOL_BINDINGS_C_ERROR_H_

#include "absl/status/status.h"
#include "tidepool/c_api.h"

namespace tidepool::c_api {

// Returns the code of a status. Codes that the C interface does not have become TIDEPOOL_INTERNAL.
tidepool_status CodeOf(const absl::Status& status);

// Keeps the text of an error as the thread's last error, prints it on stderr if `prints`, and
// returns its code. Does not throw: without memory the text is lost, but not the code.
tidepool_status Fail(const char* function, const absl::Status& error, bool prints) noexcept;
// Does the same for a host without memory.
tidepool_status FailWithoutMemory(const char* function, bool prints) noexcept;

// Returns the text of the thread's last error; "" before the first one.
const char* LastError() noexcept;

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_ERROR_H_

// SPDX-License-Identifier: Apache-2.0
// Functions that Python calls with ctypes: they return the text of an error, or null.
#ifndef TIDEPOOL_BINDINGS_TORCH_EXPORTED_H_
#define TIDEPOOL_BINDINGS_TORCH_EXPORTED_H_

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#define EXPORTED __attribute__((visibility("default")))

// Runs `body`. The text is that of the thread's last error.
template <typename Body>
const char* ErrorOf(Body body) {
  thread_local std::string error;
  try {
    body();
    return nullptr;
  } catch (const c10::Error& caught) {
    error = caught.what_without_backtrace();
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  return error.c_str();
}

#endif  // TIDEPOOL_BINDINGS_TORCH_EXPORTED_H_

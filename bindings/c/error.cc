// SPDX-License-Identifier: Apache-2.0
// The text is in memory of its own: a library that is loaded late has little room for variables of
// threads.
#include "bindings/c/error.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tidepool/log.h"

namespace tidepool::c_api {
namespace {

constinit thread_local char* last_error = nullptr;

// Frees the text at the end of a thread. Later errors of that thread, from destructors that run
// after this one, keep no text.
struct TextOwner {
  bool is_alive = true;
  ~TextOwner() {
    std::free(last_error);
    last_error = nullptr;
    is_alive = false;
  }
};

void Keep(const std::string& text) {
  thread_local TextOwner owner;
  if (!owner.is_alive) return;
  std::free(last_error);
  last_error = strdup(text.c_str());
}

}  // namespace

tidepool_status CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return TIDEPOOL_OK;
    case absl::StatusCode::kInvalidArgument:
      return TIDEPOOL_INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return TIDEPOOL_NOT_FOUND;
    case absl::StatusCode::kResourceExhausted:
      return TIDEPOOL_OUT_OF_MEMORY;
    case absl::StatusCode::kFailedPrecondition:
      return TIDEPOOL_FAILED_PRECONDITION;
    case absl::StatusCode::kDeadlineExceeded:
      return TIDEPOOL_DEADLINE_EXCEEDED;
    case absl::StatusCode::kUnavailable:
      return TIDEPOOL_UNAVAILABLE;
    case absl::StatusCode::kUnimplemented:
      return TIDEPOOL_UNIMPLEMENTED;
    default:
      return TIDEPOOL_INTERNAL;
  }
}

tidepool_status Fail(const char* function, const absl::Status& error, bool prints) noexcept {
  const tidepool_status code = CodeOf(error);
  try {
    const std::string text(error.message());
    Keep(text);
    if (prints) {
      Log(LogLevel::kError, absl::StrCat(function, ": ", tidepool_status_name(code), ": ", text));
    }
  } catch (...) {
    std::free(last_error);
    last_error = nullptr;
  }
  return code;
}

tidepool_status FailWithoutMemory(const char* function, bool prints) noexcept {
  try {
    return Fail(function, absl::ResourceExhaustedError("the host has no memory left"), prints);
  } catch (...) {  // an error takes memory too
    std::free(last_error);
    last_error = nullptr;
    return TIDEPOOL_OUT_OF_MEMORY;
  }
}

const char* LastError() noexcept { return last_error == nullptr ? "" : last_error; }

}  // namespace tidepool::c_api

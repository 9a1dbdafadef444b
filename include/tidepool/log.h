// SPDX-License-Identifier: Apache-2.0
// Log: where messages go that no call returns, such as memory that is live when its pool ends. They
// go to stderr, each with "tidepool: " before it, unless a program takes them. Thread-safe.
#ifndef TIDEPOOL_LOG_H_
#define TIDEPOOL_LOG_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "tidepool/export.h"

namespace tidepool {

enum class LogLevel : std::uint8_t {
  kError,    // work failed, and no call returned its error
  kWarning,  // the program has a fault, such as memory that it did not free
  kInfo,     // figures that the program asked for
};

// Takes a message: one line without its end, or several, of which the later ones are indented. It
// may be called by any thread, several at a time, also while the process ends. It must not throw,
// and must not call tidepool.
using LogFunction = std::function<void(LogLevel level, std::string_view text)>;

// Sends messages up to the level `most` to a function, or to stderr without one, and drops the
// others. Calls of an earlier function may still run afterwards. Of each call some 100 bytes are
// kept for ever.
TIDEPOOL_EXPORT void SetLog(LogFunction function, LogLevel most = LogLevel::kInfo);

// Sends a message to the log: for devices and observers of your own.
TIDEPOOL_EXPORT void Log(LogLevel level, std::string_view text);

}  // namespace tidepool

#endif  // TIDEPOOL_LOG_H_

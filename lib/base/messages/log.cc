// SPDX-License-Identifier: Apache-2.0
// The place of messages is never freed: threads may log until the very end of a process, and in a
// forked child.
#include "tidepool/log.h"

#include <atomic>
#include <cstdio>
#include <utility>

namespace tidepool {
namespace messages {
namespace {

struct Place {
  LogFunction function;  // empty: stderr
  LogLevel most = LogLevel::kInfo;
  const Place* before = nullptr;  // threads may still use it
};

constinit std::atomic<const Place*> place = nullptr;  // null: all messages on stderr

void Print(std::string_view text) {
  std::fprintf(stderr, "tidepool: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace
}  // namespace messages

void SetLog(LogFunction function, LogLevel most) {
  auto* const made = new messages::Place{std::move(function), most};
  made->before = messages::place.load(std::memory_order_relaxed);
  while (!messages::place.compare_exchange_weak(made->before, made, std::memory_order_release)) {
  }
}

void Log(LogLevel level, std::string_view text) {
  const messages::Place* const place = messages::place.load(std::memory_order_acquire);
  if (place == nullptr) return messages::Print(text);
  if (level > place->most) return;
  if (place->function == nullptr) return messages::Print(text);
  place->function(level, text);
}

}  // namespace tidepool

// An event is a variable, and a position is its value. A waiter copies the value, so recording the
// event again does not affect it.
#include "lib/device/host/events.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::host {
namespace {

absl::Status NoEvent(Event event) {
  return absl::NotFoundError(absl::StrCat("the device has no event ", event.id));
}

}  // namespace

Event Events::Create() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t name = names_.Next();
  marks_[name] = Mark();
  return {.id = name};
}

absl::Status Events::Destroy(Event event) {
  const std::lock_guard lock(mutex_);
  return marks_.erase(event.id) == 1 ? absl::OkStatus() : NoEvent(event);
}

absl::Status Events::Set(Event event, Mark mark) {
  const std::lock_guard lock(mutex_);
  const auto found = marks_.find(event.id);
  if (found == marks_.end()) return NoEvent(event);
  found->second = std::move(mark);
  return absl::OkStatus();
}

absl::StatusOr<Mark> Events::Get(Event event) const {
  const std::lock_guard lock(mutex_);
  const auto found = marks_.find(event.id);
  if (found == marks_.end()) return NoEvent(event);
  return found->second;
}

}  // namespace tidepool::host

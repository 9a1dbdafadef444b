#include "lib/offload/buffer_states.h"

#include <cassert>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool {

std::string_view BufferStateName(BufferState state) {
  switch (state) {
    case BufferState::kOnDevice:
      return "on the device";
    case BufferState::kGoingOut:
      return "going out";
    case BufferState::kOut:
      return "out";
    case BufferState::kComingBack:
      return "coming back";
  }
  return "in no state";
}

namespace offload {
namespace {

[[maybe_unused]] bool MayFollow(BufferState from, BufferState to) {
  switch (from) {
    case BufferState::kOnDevice:
      return to == BufferState::kGoingOut;
    case BufferState::kGoingOut:
      // It left; or it stays, or the copy failed; or it stays and had not yet come back.
      return to != BufferState::kGoingOut;
    case BufferState::kOut:
      return to == BufferState::kComingBack;
    case BufferState::kComingBack:
      // It is there; or it goes again once it is; or the copy failed.
      return to != BufferState::kComingBack;
  }
  return false;
}

}  // namespace

std::string DescribeBuffer(const Buffer& buffer) {
  return buffer.name.empty() ? absl::StrCat("buffer ", buffer.id.id)
                             : absl::StrCat("buffer '", absl::CHexEscape(buffer.name), "'");
}

absl::Status WrongState(const Buffer& buffer, std::string_view expected) {
  return absl::FailedPreconditionError(
      absl::StrCat(DescribeBuffer(buffer), " is ", std::string(BufferStateName(buffer.state)),
                   ", expected one that is ", std::string(expected)));
}

absl::Status EndOf(const BufferCopy& copy) {
  if (copy.result.ok()) return absl::OkStatus();
  return absl::Status(copy.result.code(),
                      absl::StrCat(copy.name, copy.is_out ? " did not leave" : " did not come back",
                                   ", expected a copy without an error: ", copy.result.message()));
}

void Move(Buffer& buffer, BufferState to) {
  assert(MayFollow(buffer.state, to));
  buffer.state = to;
}

}  // namespace offload
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The states of a buffer, their order, and their words in errors.
#include "lib/copies/offload/buffer_states.h"

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
  return "in an unknown state";
}

namespace offload {
namespace {

[[maybe_unused]] bool MayFollow(BufferState from, BufferState to) {
  switch (from) {
    case BufferState::kOnDevice:
      return to == BufferState::kGoingOut;
    case BufferState::kGoingOut:
      // kOut: it left. kOnDevice: a prefetch cancelled the copy, or the copy failed. kComingBack: a
      // prefetch cancelled the copy before the buffer had arrived.
      return to != BufferState::kGoingOut;
    case BufferState::kOut:
      return to == BufferState::kComingBack;
    case BufferState::kComingBack:
      // kOnDevice: it arrived. kGoingOut: it leaves again after its arrival. kOut: the copy failed.
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
                   ", expected a buffer that is ", std::string(expected)));
}

absl::Status ResultOf(const BufferCopy& copy) {
  if (copy.result.ok()) return absl::OkStatus();
  return absl::Status(
      copy.result.code(),
      absl::StrCat(copy.buffer_name, copy.is_out ? " did not leave" : " did not come back",
                   ", its copy failed: ", copy.result.message()));
}

void SetState(Buffer& buffer, BufferState to) {
  assert(MayFollow(buffer.state, to));
  buffer.state = to;
}

}  // namespace offload
}  // namespace tidepool

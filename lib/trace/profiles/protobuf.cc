// SPDX-License-Identifier: Apache-2.0
// Protobuf: base-128 integers, and the four kinds of fields that are in use.
#include "lib/trace/profiles/protobuf.h"

namespace tidepool::profiles {

bool ProtobufReader::TakeInteger(std::string_view* text, std::uint64_t* integer) {
  *integer = 0;
  for (unsigned shift = 0; shift < 64 && !text->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text->front());
    text->remove_prefix(1);
    *integer |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool ProtobufReader::Next() {
  if (rest_.empty() || !is_valid_) return false;
  std::uint64_t key = 0;
  if (!TakeInteger(&rest_, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return Fail();
  field_ = static_cast<std::uint32_t>(key >> 3);
  has_bytes_ = false;
  std::uint64_t size = 0;
  switch (key & 7) {
    case 0:
      return TakeInteger(&rest_, &integer_) || Fail();
    case 1:
      size = 8;
      break;
    case 2:
      has_bytes_ = true;
      if (!TakeInteger(&rest_, &size)) return Fail();
      break;
    case 5:
      size = 4;
      break;
    default:
      return Fail();
  }
  if (size > rest_.size()) return Fail();
  bytes_ = rest_.substr(0, size);
  integer_ = 0;
  rest_.remove_prefix(size);
  return true;
}

}  // namespace tidepool::profiles

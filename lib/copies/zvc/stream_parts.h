// SPDX-License-Identifier: Apache-2.0
// Parts that writing and opening a stream share.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_STREAM_PARTS_H_
#define TIDEPOOL_LIB_COPIES_ZVC_STREAM_PARTS_H_

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/copies/zvc/zero_value_format.h"

namespace tidepool::zvc {

inline std::uint32_t HeaderChecksum(const Header& header) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(&header), offsetof(Header, header_checksum)));
}

inline IndexEntry EntryAt(absl::Span<const std::byte> stream, std::size_t block) {
  IndexEntry entry;
  std::memcpy(&entry, stream.data() + sizeof(Header) + block * sizeof(entry), sizeof(entry));
  return entry;
}

inline absl::Status LacksInstructionSet(ZeroValueInstructionSet set) {
  return absl::InvalidArgumentError(absl::StrCat("this processor lacks the instruction set ",
                                                 std::string(ZeroValueInstructionSetName(set))));
}

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_STREAM_PARTS_H_

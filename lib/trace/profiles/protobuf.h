// SPDX-License-Identifier: Apache-2.0
// Protobuf: reads the fields of a message in place.
#ifndef TIDEPOOL_LIB_TRACE_PROFILES_PROTOBUF_H_
#define TIDEPOOL_LIB_TRACE_PROFILES_PROTOBUF_H_

#include <cstdint>
#include <string_view>

namespace tidepool::profiles {

// Walks over the fields of a message. A field is a number with either an integer or bytes.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Reads the next field. Returns false at the end and for a damaged message; `is_valid` tells
  // which.
  bool Next();
  bool is_valid() const { return is_valid_; }
  std::uint32_t field() const { return field_; }
  bool has_bytes() const { return has_bytes_; }
  std::uint64_t integer() const { return integer_; }
  std::string_view bytes() const { return bytes_; }

  // Calls `visit(integer)` for each integer of the field: one, or a packed list. Returns false for
  // a damaged list.
  template <typename Visit>
  bool VisitIntegers(const Visit& visit) const {
    if (!has_bytes_) {
      visit(integer_);
      return true;
    }
    std::string_view list = bytes_;
    std::uint64_t integer = 0;
    while (!list.empty()) {
      if (!TakeInteger(&list, &integer)) return false;
      visit(integer);
    }
    return true;
  }

 private:
  static bool TakeInteger(std::string_view* text, std::uint64_t* integer);
  bool Fail() { return is_valid_ = false; }

  std::string_view rest_;
  std::string_view bytes_;
  std::uint64_t integer_ = 0;
  std::uint32_t field_ = 0;
  bool has_bytes_ = false;
  bool is_valid_ = true;
};

}  // namespace tidepool::profiles

#endif  // TIDEPOOL_LIB_TRACE_PROFILES_PROTOBUF_H_

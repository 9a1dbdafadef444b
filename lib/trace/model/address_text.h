// SPDX-License-Identifier: Apache-2.0
// Address text: addresses as ids of allocations, for example "0x7f2a00000200".
#ifndef TIDEPOOL_LIB_TRACE_MODEL_ADDRESS_TEXT_H_
#define TIDEPOOL_LIB_TRACE_MODEL_ADDRESS_TEXT_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace tidepool::trace {

// Text of an address, in lower case and without leading zeros.
class AddressText {
 public:
  explicit AddressText(std::uint64_t address) : size_(2 + Digits(address)) {
    text_[0] = '0';
    text_[1] = 'x';
    for (std::size_t at = size_; at > 2; address >>= 4)
      text_[--at] = "0123456789abcdef"[address & 15];
  }

  std::string_view text() const { return {text_.data(), size_}; }

 private:
  static std::size_t Digits(std::uint64_t address) {
    return (static_cast<std::size_t>(std::bit_width(address | 1)) + 3) / 4;
  }

  std::array<char, 18> text_;
  std::size_t size_;
};

// Whether `text` is exactly the AddressText of an address, which is returned in `address`. Other
// spellings of a number are rejected.
inline bool ParseAddress(std::string_view text, std::uint64_t* address) {
  if (text.size() < 3 || text.size() > 18 || text.substr(0, 2) != "0x") return false;
  if (text[2] == '0' && text.size() > 3) return false;
  std::uint64_t number = 0;
  for (const char c : text.substr(2)) {
    const unsigned digit = static_cast<unsigned char>(c) - unsigned{'0'};
    const unsigned letter = static_cast<unsigned char>(c) - unsigned{'a'};
    if (digit > 9 && letter > 5) return false;
    number = number << 4 | (digit > 9 ? letter + 10 : digit);
  }
  *address = number;
  return true;
}

}  // namespace tidepool::trace

#endif  // TIDEPOOL_LIB_TRACE_MODEL_ADDRESS_TEXT_H_

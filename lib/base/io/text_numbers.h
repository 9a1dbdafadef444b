// SPDX-License-Identifier: Apache-2.0
// Numbers texts; each text is stored once.
#ifndef TIDEPOOL_LIB_BASE_IO_TEXT_NUMBERS_H_
#define TIDEPOOL_LIB_BASE_IO_TEXT_NUMBERS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tidepool::io {

class TextNumbers {
 public:
  // Returns the number of `text`, which is the next number when the text is new. At most 2^32 - 2
  // texts.
  std::uint32_t Number(std::string_view text) {
    if (last_ < texts_.size() && texts_[last_] == text) return last_;
    const auto found = numbers_.find(absl::string_view(text.data(), text.size()));
    if (found != numbers_.end()) return last_ = found->second;
    last_ = static_cast<std::uint32_t>(texts_.size());
    const std::string& kept = texts_.emplace_back(text);  // a deque does not move its elements
    numbers_.emplace(kept, last_);
    return last_;
  }
  std::string_view operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  absl::flat_hash_map<absl::string_view, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;
};

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_TEXT_NUMBERS_H_

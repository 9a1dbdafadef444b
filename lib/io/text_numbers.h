// Texts by number: each is kept once.
#ifndef TIDEPOOL_LIB_IO_TEXT_NUMBERS_H_
#define TIDEPOOL_LIB_IO_TEXT_NUMBERS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace tidepool::io {

class TextNumbers {
 public:
  // The number of `text`: the next one when it is new. There are fewer than 2^32 - 1.
  std::uint32_t Number(std::string_view text) {
    if (last_ < texts_.size() && texts_[last_] == text) return last_;
    const auto found = numbers_.find(absl::string_view(text.data(), text.size()));
    if (found != numbers_.end()) return last_ = found->second;
    last_ = static_cast<std::uint32_t>(texts_.size());
    const std::string& kept = texts_.emplace_back(text);  // a deque does not move it again
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

#endif  // TIDEPOOL_LIB_IO_TEXT_NUMBERS_H_

// SPDX-License-Identifier: Apache-2.0
// Describes the memory of a pool in errors.
#include "lib/training/simulate/device_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/sizes.h"

namespace tidepool::simulate {

std::string DeviceMemory::Account() const {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::size_t> holders;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i] != kNoBlock) holders.push_back(i);
  }
  std::stable_sort(holders.begin(), holders.end(), [this](std::size_t a, std::size_t b) {
    return graph_.data[a].bytes > graph_.data[b].bytes;
  });
  std::string text =
      absl::StrCat("the largest free block has ", text::Size(arena_.blocks().LargestBytes()),
                   " of ", text::Size(arena_.blocks().capacity()), "; ", holders.size(),
                   " data hold ", text::Size(arena_.blocks().live_bytes()));
  const char* before = ": ";
  for (std::size_t i = 0; i < std::min(holders.size(), kMostNamed); ++i) {
    const GraphData& data = graph_.data[holders[i]];
    absl::StrAppend(&text, before, text::Quoted(data.name), " ", text::Size(Rounded(data.bytes)));
    before = ", ";
  }
  if (holders.size() > kMostNamed) text += ", ...";
  return text;
}

}  // namespace tidepool::simulate

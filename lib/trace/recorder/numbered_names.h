// SPDX-License-Identifier: Apache-2.0
// NumberedNames: names of marks, or of regions. Recording threads number them, and the writer
// thread writes them.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_NUMBERED_NAMES_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_NUMBERED_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/base/locks/mutex.h"
#include "lib/trace/native/native_format.h"

namespace tidepool::recorder {

// Numbers names in the order of first use. Thread-safe.
class NumberedNames {
 public:
  // Returns the number of `name`, cut to the longest text of the format.
  std::uint64_t Number(std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_) {
    name = name.substr(0, native::kLongestText);
    const locks::MutexLock lock(&mutex_);
    const auto [found, is_new] = numbers_.try_emplace(std::string(name), numbers_.size());
    if (is_new) new_names_.emplace_back(name);
    return found->second;
  }

  // Returns the names added since the last call, in the order of their numbers.
  std::vector<std::string> TakeNew() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return std::exchange(new_names_, {});
  }

 private:
  locks::Mutex mutex_;
  absl::flat_hash_map<std::string, std::uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> new_names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_NUMBERED_NAMES_H_

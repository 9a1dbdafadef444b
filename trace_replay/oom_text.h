// SPDX-License-Identifier: Apache-2.0
// The text of PyTorch's OutOfMemoryError, and the decisions that its numbers allow.
#ifndef TIDEPOOL_TRACE_REPLAY_OOM_TEXT_H_
#define TIDEPOOL_TRACE_REPLAY_OOM_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tidepool::tool {

// The numbers of an error. PyTorch rounds them to two decimals. All but the request may be missing.
struct OutOfMemoryNumbers {
  std::int64_t device = -1;  // -1 when unknown
  std::int64_t requested_bytes = 0;
  std::optional<std::int64_t> total_bytes;      // of the GPU
  std::optional<std::int64_t> free_bytes;       // of the GPU
  std::optional<std::int64_t> process_bytes;    // of this process, with context and libraries
  std::optional<std::int64_t> allocated_bytes;  // by PyTorch
  std::optional<std::int64_t> cached_bytes;     // reserved by PyTorch, but not allocated
  std::optional<std::int64_t> private_bytes;    // allocated in private pools
};

// Returns the numbers of the last such error in `text`, of PyTorch 1.x and 2.x; no value without
// one. O(text).
std::optional<OutOfMemoryNumbers> ParseOutOfMemoryText(std::string_view text);

// Whether a path names standard input.
bool IsStandardInput(const std::string& path);
// Returns the numbers of the last such error in standard input ("-") or in a regular file.
std::optional<OutOfMemoryNumbers> OutOfMemoryIn(const std::string& path);

// Returns the answer as lines for people, and as the object `out_of_memory`.
std::string OutOfMemoryText(const OutOfMemoryNumbers& numbers);
nlohmann::ordered_json OutOfMemoryJson(const OutOfMemoryNumbers& numbers);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OOM_TEXT_H_

// SPDX-License-Identifier: Apache-2.0
// MemoryTool: the calls of NVTX's memory extension that a pool makes.
#ifndef TIDEPOOL_LIB_MEMORY_NVTX_MEMORY_TOOL_H_
#define TIDEPOOL_LIB_MEMORY_NVTX_MEMORY_TOOL_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tidepool::nvtx {

// The handle of the tool for a heap. Null: the tool refused it.
using Heap = void*;

// Returns a text as compute-sanitizer takes names: printable ASCII, at most 49 characters.
std::string ToolName(std::string_view text);

// Thread-safe, as the tool is.
class MemoryTool {
 public:
  // Returns the tool that took the functions of the extension, or null. The first call loads it.
  static const MemoryTool* Find();

  Heap RegisterHeap(const void* begin, std::int64_t bytes, const std::string& name) const;
  void UnregisterHeap(Heap heap) const;
  void RegisterRegion(Heap heap, const void* begin, std::int64_t bytes,
                      const std::string& name) const;
  void UnregisterRegion(const void* begin) const;

 private:
  explicit MemoryTool(void* domain) : domain_(domain) {}
  static const MemoryTool* Load();

  void* const domain_;
};

}  // namespace tidepool::nvtx

#endif  // TIDEPOOL_LIB_MEMORY_NVTX_MEMORY_TOOL_H_

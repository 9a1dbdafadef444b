// SPDX-License-Identifier: Apache-2.0
// Fills the structures of the extension as "NVTX API for Compute Sanitizer" documents them.
#include "lib/memory/nvtx/memory_tool.h"

// CUDA 13 has the memory extension. Older toolkits have NVTX without it.
#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>
#endif

#include <algorithm>
#include <cstddef>

namespace tidepool::nvtx {

std::string ToolName(std::string_view text) {
  constexpr std::size_t kMost = 49;
  std::string name(text.substr(0, kMost));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

#ifdef NVTX_EXT_MEM_VERSIONED_ID

namespace {

nvtxDomainHandle_t AsDomain(void* domain) { return static_cast<nvtxDomainHandle_t>(domain); }

// Returns a structure with its first two fields; the rest is zero, as NVTX expects.
template <typename Descriptor>
Descriptor Empty() {
  Descriptor descriptor = {};
  descriptor.extCompatID = NVTX_EXT_COMPATID_MEM;
  descriptor.structSize = sizeof(Descriptor);
  return descriptor;
}

nvtxMemVirtualRangeDesc_t RangeOf(const void* begin, std::int64_t bytes) {
  nvtxMemVirtualRangeDesc_t range = {};
  range.ptr = begin;
  range.size = static_cast<std::size_t>(bytes);
  return range;
}

// The handles of heaps do not tell whether a tool is attached: a tool may also refuse a heap. So
// this looks at the function that the extension calls.
bool TakesHeaps() {
  NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemInitOnce)();
  const std::intptr_t function =
      NVTX_EXT_MEM_VERSIONED_ID(nvtxExtMemSlots)[NVTX3EXT_CBID_nvtxMemHeapRegister + 1];
  return function != NVTX_EXTENSION_FRESH && function != NVTX_EXTENSION_DISABLED;
}

}  // namespace

const MemoryTool* MemoryTool::Load() {
  return TakesHeaps() ? new MemoryTool(nvtxDomainCreateA("tidepool")) : nullptr;
}

Heap MemoryTool::RegisterHeap(const void* begin, std::int64_t bytes,
                              const std::string& name) const {
  const nvtxMemVirtualRangeDesc_t range = RangeOf(begin, bytes);
  auto heap = Empty<nvtxMemHeapDesc_t>();
  heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  heap.typeSpecificDescSize = sizeof range;
  heap.typeSpecificDesc = &range;
  heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
  heap.message.ascii = name.c_str();
  return nvtxMemHeapRegister(AsDomain(domain_), &heap);
}

void MemoryTool::UnregisterHeap(Heap heap) const {
  nvtxMemHeapUnregister(AsDomain(domain_), static_cast<nvtxMemHeapHandle_t>(heap));
}

void MemoryTool::RegisterRegion(Heap heap, const void* begin, std::int64_t bytes,
                                const std::string& name) const {
  const nvtxMemVirtualRangeDesc_t range = RangeOf(begin, bytes);
  auto regions = Empty<nvtxMemRegionsRegisterBatch_t>();
  regions.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  regions.heap = static_cast<nvtxMemHeapHandle_t>(heap);
  regions.regionCount = 1;
  regions.regionDescElementSize = sizeof range;
  regions.regionDescElements = &range;
  nvtxMemRegionsRegister(AsDomain(domain_), &regions);

  nvtxMemRegionNameDesc_t label = {};
  label.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  label.nameType = NVTX_MESSAGE_TYPE_ASCII;
  label.region.pointer = begin;
  label.name.ascii = name.c_str();
  auto names = Empty<nvtxMemRegionsNameBatch_t>();
  names.regionCount = 1;
  names.regionElementSize = sizeof label;
  names.regionElements = &label;
  nvtxMemRegionsName(AsDomain(domain_), &names);
}

void MemoryTool::UnregisterRegion(const void* begin) const {
  nvtxMemRegionRef_t region = {};
  region.pointer = begin;
  auto regions = Empty<nvtxMemRegionsUnregisterBatch_t>();
  regions.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  regions.refCount = 1;
  regions.refElementSize = sizeof region;
  regions.refElements = &region;
  nvtxMemRegionsUnregister(AsDomain(domain_), &regions);
}

#else

const MemoryTool* MemoryTool::Load() { return nullptr; }
Heap MemoryTool::RegisterHeap(const void*, std::int64_t, const std::string&) const {
  return nullptr;
}
void MemoryTool::UnregisterHeap(Heap) const {}
void MemoryTool::RegisterRegion(Heap, const void*, std::int64_t, const std::string&) const {}
void MemoryTool::UnregisterRegion(const void*) const {}

#endif

// One thread loads the tool: NVTX tests without atomics whether another thread has done it.
const MemoryTool* MemoryTool::Find() {
  static const MemoryTool* const tool = Load();
  return tool;
}

}  // namespace tidepool::nvtx

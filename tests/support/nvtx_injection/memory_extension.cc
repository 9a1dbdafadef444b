// SPDX-License-Identifier: Apache-2.0
// Takes the functions for heaps and regions, and compares the calls with the rules that
// compute-sanitizer documents.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/nvtx_injection/control.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

namespace tidepool::nvtx_injection {
namespace {

struct RegionOfHeap {
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  std::uintptr_t heap = 0;
  std::string name;
};
struct HeapState {
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  std::string name;
};

struct State {
  std::mutex mutex;
  Mode mode = Mode::kTakesAll;
  Seen counts;  // without the heaps
  std::map<std::uintptr_t, HeapState> heaps;
  std::map<std::uintptr_t, RegionOfHeap> regions;

  void Require(bool holds, const char* rule) {
    if (!holds) counts.faults.emplace_back(rule);
  }
};

State& TheState() {
  static auto& state = *new State;
  return state;
}

std::uintptr_t Key(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

template <typename Spans>
bool Overlaps(const Spans& spans, std::uintptr_t begin, std::int64_t bytes) {
  const auto after = spans.lower_bound(begin + static_cast<std::uintptr_t>(bytes));
  return after != spans.begin() &&
         std::prev(after)->first + static_cast<std::uintptr_t>(std::prev(after)->second.bytes) >
             begin;
}

template <typename Descriptor>
void RequireHeader(State& state, const Descriptor& descriptor) {
  state.Require(descriptor.extCompatID == NVTX_EXT_COMPATID_MEM, "extCompatID");
  state.Require(descriptor.structSize == sizeof descriptor, "structSize");
}

nvtxMemHeapHandle_t HeapRegister(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t* heap) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.Require(domain != nullptr, "no domain");
  RequireHeader(state, *heap);
  state.Require(heap->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, "usage of a heap");
  state.Require(heap->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS, "type of a heap");
  state.Require(heap->typeSpecificDescSize == sizeof(nvtxMemVirtualRangeDesc_t), "size of a range");
  state.Require(heap->messageType == NVTX_MESSAGE_TYPE_ASCII, "a heap without a name");
  const auto& range = *static_cast<const nvtxMemVirtualRangeDesc_t*>(heap->typeSpecificDesc);
  ++state.counts.heaps_ever;
  if (state.mode == Mode::kRefusesHeaps) return nullptr;
  const auto bytes = static_cast<std::int64_t>(range.size);
  state.Require(bytes > 0 && range.ptr != nullptr, "an empty heap");
  state.Require(!Overlaps(state.heaps, Key(range.ptr), bytes), "heaps overlap");
  state.heaps[Key(range.ptr)] = {range.ptr, bytes, heap->message.ascii};
  // The address is the handle, as the header says.
  return reinterpret_cast<nvtxMemHeapHandle_t>(const_cast<void*>(range.ptr));
}

void HeapUnregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.Require(state.heaps.erase(Key(heap)) == 1, "no such heap to unregister");
  state.counts.regions_ended_with_heaps += static_cast<std::int64_t>(std::erase_if(
      state.regions, [&](const auto& region) { return region.second.heap == Key(heap); }));
}

void RegionsRegister(nvtxDomainHandle_t, const nvtxMemRegionsRegisterBatch_t* batch) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  RequireHeader(state, *batch);
  state.Require(batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS, "type of a region");
  state.Require(batch->regionDescElementSize == sizeof(nvtxMemVirtualRangeDesc_t),
                "size of a region");
  const auto heap = state.heaps.find(Key(batch->heap));
  state.Require(heap != state.heaps.end(), "a region without a heap");
  const auto* const ranges =
      static_cast<const nvtxMemVirtualRangeDesc_t*>(batch->regionDescElements);
  for (std::size_t i = 0; i < batch->regionCount; ++i) {
    const std::uintptr_t begin = Key(ranges[i].ptr);
    const auto bytes = static_cast<std::int64_t>(ranges[i].size);
    state.Require(bytes > 0, "an empty region");
    state.Require(heap == state.heaps.end() ||
                      (begin >= heap->first &&
                       begin + ranges[i].size <=
                           heap->first + static_cast<std::uintptr_t>(heap->second.bytes)),
                  "a region outside its heap");
    state.Require(!Overlaps(state.regions, begin, bytes), "regions overlap");
    state.regions[begin] = {ranges[i].ptr, bytes, Key(batch->heap), ""};
    ++state.counts.regions_ever;
  }
}

void RegionsUnregister(nvtxDomainHandle_t, const nvtxMemRegionsUnregisterBatch_t* batch) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  RequireHeader(state, *batch);
  state.Require(batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER, "type of a reference");
  state.Require(batch->refElementSize == sizeof(nvtxMemRegionRef_t), "size of a reference");
  for (std::size_t i = 0; i < batch->refCount; ++i) {
    state.Require(state.regions.erase(Key(batch->refElements[i].pointer)) == 1,
                  "no such region to unregister");
    ++state.counts.unregistered_regions;
  }
}

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 49 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void RegionsName(nvtxDomainHandle_t, const nvtxMemRegionsNameBatch_t* batch) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  RequireHeader(state, *batch);
  state.Require(batch->regionElementSize == sizeof(nvtxMemRegionNameDesc_t), "size of a name");
  for (std::size_t i = 0; i < batch->regionCount; ++i) {
    const nvtxMemRegionNameDesc_t& label = batch->regionElements[i];
    state.Require(label.nameType == NVTX_MESSAGE_TYPE_ASCII, "type of a name");
    state.Require(IsName(label.name.ascii), "a name that is not 1 to 49 printable characters");
    const auto region = state.regions.find(Key(label.region.pointer));
    state.Require(region != state.regions.end(), "a name of no region");
    if (region != state.regions.end()) region->second.name = label.name.ascii;
  }
}

template <typename Function>
std::intptr_t Slot(Function* function) {
  return reinterpret_cast<std::intptr_t>(function);
}

}  // namespace

void SetMode(Mode mode) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.mode = mode;
}

Seen Look() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  Seen seen = state.counts;
  for (const auto& [begin, heap] : state.heaps) {
    Heap& copy = seen.heaps.emplace_back();
    copy.begin = heap.begin;
    copy.bytes = heap.bytes;
    copy.name = heap.name;
    for (const auto& [first, region] : state.regions) {
      if (region.heap != begin) continue;
      copy.regions.push_back({region.begin, region.bytes, region.name});
    }
  }
  return seen;
}

void Reset() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.counts = {};
}

extern "C" void NvtxInjectionCount(Counts* counts) {
  const Seen seen = Look();
  *counts = {};
  counts->heaps = static_cast<std::int64_t>(seen.heaps.size());
  counts->regions_ever = seen.regions_ever;
  counts->faults = static_cast<std::int64_t>(seen.faults.size());
  for (const Heap& heap : seen.heaps) {
    counts->regions += static_cast<std::int64_t>(heap.regions.size());
    counts->named += std::ranges::count_if(
        heap.regions, [](const Region& region) { return !region.name.empty(); });
  }
}

// NVTX's header makes its types internal, and with them functions that take them.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtxExtModuleInfo_t* module) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (state.mode == Mode::kRefusesExtension) return 0;
  if (module->moduleId != NVTX_EXT_MODULEID_MEM || state.mode == Mode::kTakesNoFunctions) return 1;
  std::intptr_t* const slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = Slot(&HeapRegister);
  slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = Slot(&HeapUnregister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = Slot(&RegionsRegister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = Slot(&RegionsUnregister);
  slots[NVTX3EXT_CBID_nvtxMemRegionsName] = Slot(&RegionsName);
  return 1;
}

}  // namespace tidepool::nvtx_injection

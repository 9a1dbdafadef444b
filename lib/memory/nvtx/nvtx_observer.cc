// SPDX-License-Identifier: Apache-2.0
// Each range of addresses of a pool is a heap, and each allocation a region of it.
#include "tidepool/nvtx_observer.h"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/memory/nvtx/memory_tool.h"

namespace tidepool {
namespace nvtx {
namespace {

class Observer final : public PoolObserver {
 public:
  Observer(const MemoryTool& tool, const Device& device, PoolObserver* next)
      : tool_(tool),
        heap_name_(ToolName(absl::StrCat("tidepool pool on ", device.name()))),
        next_(next) {}

  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override {
    Register(address, bytes);
    if (next_ != nullptr) next_->Allocate(address, bytes, hint, stream);
  }
  void AllocateIn(std::string_view region, const void* address, std::int64_t bytes, Hint hint,
                  Stream stream) override {
    Register(address, bytes);
    if (next_ != nullptr) next_->AllocateIn(region, address, bytes, hint, stream);
  }
  void Free(const void* address, Stream stream) override {
    if (HeapOf(address) != nullptr) tool_.UnregisterRegion(address);
    if (next_ != nullptr) next_->Free(address, stream);
  }
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override {
    if (next_ != nullptr) next_->Failure(bytes, hint, stream);
  }
  void FailureIn(std::string_view region, std::int64_t bytes, Hint hint, Stream stream) override {
    if (next_ != nullptr) next_->FailureIn(region, bytes, hint, stream);
  }
  void Pause(std::string_view region, SleepMode mode, Stream stream) override {
    if (next_ != nullptr) next_->Pause(region, mode, stream);
  }
  void Resume(std::string_view region, Stream stream) override {
    if (next_ != nullptr) next_->Resume(region, stream);
  }
  void Wait(Stream stream, Stream awaited) override {
    if (next_ != nullptr) next_->Wait(stream, awaited);
  }
  void Mark(std::string_view name) override {
    in_ = " in ";
    in_ += name.substr(0, kMostMark);
    if (next_ != nullptr) next_->Mark(name);
  }

  void AddRange(const void* begin, std::int64_t bytes) override {
    heaps_[Key(begin)] = tool_.RegisterHeap(begin, bytes, heap_name_);
    if (next_ != nullptr) next_->AddRange(begin, bytes);
  }
  // The tool ends the regions that are left together with their heap.
  void RemoveRange(const void* begin) override {
    const auto found = heaps_.find(Key(begin));
    assert(found != heaps_.end());
    if (found->second != nullptr) tool_.UnregisterHeap(found->second);
    heaps_.erase(found);
    if (next_ != nullptr) next_->RemoveRange(begin);
  }

 private:
  static constexpr std::size_t kMostMark = 64;  // longer than a name

  void Register(const void* address, std::int64_t bytes) {
    if (const Heap heap = HeapOf(address); heap != nullptr) {
      tool_.RegisterRegion(heap, address, bytes,
                           ToolName(absl::StrCat("allocation ", count_, in_)));
    }
    ++count_;
  }
  static std::uintptr_t Key(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  // Returns the heap that an allocation lies in; null when the tool refused it. A region outside
  // heaps would change the rights of the whole process.
  Heap HeapOf(const void* address) const {
    const auto after = heaps_.upper_bound(Key(address));
    return after == heaps_.begin() ? nullptr : std::prev(after)->second;
  }

  const MemoryTool& tool_;
  const std::string heap_name_;
  PoolObserver* const next_;
  std::map<std::uintptr_t, Heap> heaps_;  // by first address
  std::int64_t count_ = 0;                // of allocations
  std::string in_;                        // the last mark, as names end with it
};

}  // namespace
}  // namespace nvtx

std::unique_ptr<PoolObserver> MakeNvtxObserver(const Device& device, PoolObserver* next) {
  const nvtx::MemoryTool* const tool = nvtx::MemoryTool::Find();
  if (tool == nullptr) return nullptr;
  return std::make_unique<nvtx::Observer>(*tool, device, next);
}

}  // namespace tidepool

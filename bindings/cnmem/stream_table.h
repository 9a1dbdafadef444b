// SPDX-License-Identifier: Apache-2.0
// Finds the manager of a stream by CUDA's handle, without locks and writes: every call of the
// library begins with it.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STREAM_TABLE_H_
#define TIDEPOOL_BINDINGS_CNMEM_STREAM_TABLE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/cnmem/stream_manager.h"

namespace tidepool::cnmem {

// A hash table with open addressing and linear probing, at most half full. Entries are never
// removed. Outgrown tables are kept, because another thread may be searching them.
class StreamTable {
 public:
  StreamTable() { Grow(16); }

  // Returns the manager of a stream, or null. May run at the same time as all other calls. `native`
  // is not null.
  StreamManager* Find(cudaStream_t native) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (std::size_t i = Home(native);; ++i) {
      const Slot& slot = slots[i & (slots.size() - 1)];
      const cudaStream_t found = slot.native.load(std::memory_order_acquire);
      if (found == native) return slot.manager;
      if (found == nullptr) return nullptr;
    }
  }

  // Adds a stream that is not in the table yet. One call at a time.
  void Add(cudaStream_t native, StreamManager* manager) {
    if (2 * (count_ + 1) > slots_.load(std::memory_order_relaxed)->size()) {
      Grow(2 * slots_.load(std::memory_order_relaxed)->size());
    }
    Insert(*all_.back(), native, manager);
    ++count_;
  }

 private:
  struct Slot {
    std::atomic<cudaStream_t> native = nullptr;  // a reader that sees it also sees the manager
    StreamManager* manager = nullptr;
  };
  using Slots = std::vector<Slot>;

  // Handles are addresses with equal low bits, so the hash takes high bits of a product.
  static std::size_t Home(cudaStream_t native) {
    return (reinterpret_cast<std::uintptr_t>(native) * 0x9E3779B97F4A7C15) >> 40;
  }

  static void Insert(Slots& slots, cudaStream_t native, StreamManager* manager) {
    std::size_t i = Home(native);
    while (slots[i & (slots.size() - 1)].native.load(std::memory_order_relaxed) != nullptr) ++i;
    Slot& slot = slots[i & (slots.size() - 1)];
    slot.manager = manager;
    slot.native.store(native, std::memory_order_release);
  }

  void Grow(std::size_t size) {
    auto larger = std::make_unique<Slots>(size);
    if (!all_.empty()) {
      for (const Slot& slot : *all_.back()) {
        const cudaStream_t native = slot.native.load(std::memory_order_relaxed);
        if (native != nullptr) Insert(*larger, native, slot.manager);
      }
    }
    all_.push_back(std::move(larger));
    slots_.store(all_.back().get(), std::memory_order_release);
  }

  std::atomic<Slots*> slots_ = nullptr;
  std::vector<std::unique_ptr<Slots>> all_;
  std::size_t count_ = 0;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STREAM_TABLE_H_

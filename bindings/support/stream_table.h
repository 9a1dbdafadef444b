// SPDX-License-Identifier: Apache-2.0
// Finds the entry of a stream by its handle, without locks and writes: every call of a binding
// begins with it.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_STREAM_TABLE_H_
#define TIDEPOOL_BINDINGS_SUPPORT_STREAM_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tidepool::bindings {

// A hash table with open addressing and linear probing, at most half full. Entries are never
// removed. Outgrown tables are kept, because another thread may be searching them. A handle is a
// pointer that is not null, such as a cudaStream_t.
template <typename Entry>
class StreamTable {
 public:
  StreamTable() { Grow(16); }

  // Returns the entry of a stream, or null. May run at the same time as all other calls.
  Entry* Find(const void* native) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (std::size_t i = Home(native);; ++i) {
      const Slot& slot = slots[i & (slots.size() - 1)];
      const void* const found = slot.native.load(std::memory_order_acquire);
      if (found == native) return slot.entry;
      if (found == nullptr) return nullptr;
    }
  }

  // Adds a stream that is not in the table yet. One call at a time.
  void Add(const void* native, Entry* entry) {
    if (2 * (count_ + 1) > slots_.load(std::memory_order_relaxed)->size()) {
      Grow(2 * slots_.load(std::memory_order_relaxed)->size());
    }
    Insert(*all_.back(), native, entry);
    ++count_;
  }

 private:
  struct Slot {
    std::atomic<const void*> native = nullptr;  // a reader that sees it also sees the entry
    Entry* entry = nullptr;
  };
  using Slots = std::vector<Slot>;

  // Handles are addresses with equal low bits, so the hash takes high bits of a product.
  static std::size_t Home(const void* native) {
    return (reinterpret_cast<std::uintptr_t>(native) * 0x9E3779B97F4A7C15) >> 40;
  }

  static void Insert(Slots& slots, const void* native, Entry* entry) {
    std::size_t i = Home(native);
    while (slots[i & (slots.size() - 1)].native.load(std::memory_order_relaxed) != nullptr) ++i;
    Slot& slot = slots[i & (slots.size() - 1)];
    slot.entry = entry;
    slot.native.store(native, std::memory_order_release);
  }

  void Grow(std::size_t size) {
    auto larger = std::make_unique<Slots>(size);
    if (!all_.empty()) {
      for (const Slot& slot : *all_.back()) {
        const void* const native = slot.native.load(std::memory_order_relaxed);
        if (native != nullptr) Insert(*larger, native, slot.entry);
      }
    }
    all_.push_back(std::move(larger));
    slots_.store(all_.back().get(), std::memory_order_release);
  }

  std::atomic<Slots*> slots_ = nullptr;
  std::vector<std::unique_ptr<Slots>> all_;
  std::size_t count_ = 0;
};

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_STREAM_TABLE_H_

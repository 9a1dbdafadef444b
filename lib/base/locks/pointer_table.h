// SPDX-License-Identifier: Apache-2.0
// Finds an entry by a pointer, without locks and writes. Calls begin with it: they find the entry
// of a stream by its handle, or of a function by its name.
#ifndef TIDEPOOL_LIB_BASE_LOCKS_POINTER_TABLE_H_
#define TIDEPOOL_LIB_BASE_LOCKS_POINTER_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tidepool::locks {

// A hash table with open addressing and linear probing, at most half full. Entries are never
// removed. Outgrown tables are kept, because another thread may be searching them. No key is null.
template <typename Entry>
class PointerTable {
 public:
  PointerTable() { Grow(16); }

  // Returns the entry of a key, or null. May run at the same time as all other calls.
  Entry* Find(const void* key) const {
    const Slots& slots = *slots_.load(std::memory_order_acquire);
    for (std::size_t i = Home(key);; ++i) {
      const Slot& slot = slots[i & (slots.size() - 1)];
      const void* const found = slot.key.load(std::memory_order_acquire);
      if (found == key) return slot.entry;
      if (found == nullptr) return nullptr;
    }
  }

  // Adds a key that is not in the table yet. One call at a time.
  void Add(const void* key, Entry* entry) {
    if (2 * (count_ + 1) > slots_.load(std::memory_order_relaxed)->size()) {
      Grow(2 * slots_.load(std::memory_order_relaxed)->size());
    }
    Insert(*all_.back(), key, entry);
    ++count_;
  }

 private:
  struct Slot {
    std::atomic<const void*> key = nullptr;  // a reader that sees it also sees the entry
    Entry* entry = nullptr;
  };
  using Slots = std::vector<Slot>;

  // Keys are addresses with equal low bits, so the hash takes high bits of a product.
  static std::size_t Home(const void* key) {
    return (reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15) >> 40;
  }

  static void Insert(Slots& slots, const void* key, Entry* entry) {
    std::size_t i = Home(key);
    while (slots[i & (slots.size() - 1)].key.load(std::memory_order_relaxed) != nullptr) ++i;
    Slot& slot = slots[i & (slots.size() - 1)];
    slot.entry = entry;
    slot.key.store(key, std::memory_order_release);
  }

  void Grow(std::size_t size) {
    auto larger = std::make_unique<Slots>(size);
    if (!all_.empty()) {
      for (const Slot& slot : *all_.back()) {
        const void* const key = slot.key.load(std::memory_order_relaxed);
        if (key != nullptr) Insert(*larger, key, slot.entry);
      }
    }
    all_.push_back(std::move(larger));
    slots_.store(all_.back().get(), std::memory_order_release);
  }

  std::atomic<Slots*> slots_ = nullptr;
  std::vector<std::unique_ptr<Slots>> all_;
  std::size_t count_ = 0;
};

}  // namespace tidepool::locks

#endif  // TIDEPOOL_LIB_BASE_LOCKS_POINTER_TABLE_H_

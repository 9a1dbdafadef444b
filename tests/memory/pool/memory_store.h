// SPDX-License-Identifier: Apache-2.0
// A store of contents in memory. Its calls fail by order.
#ifndef TIDEPOOL_TESTS_MEMORY_POOL_MEMORY_STORE_H_
#define TIDEPOOL_TESTS_MEMORY_POOL_MEMORY_STORE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tidepool/contents_store.h"

namespace tidepool {

// Which call fails next, of all stores that share it: 1 is the next one, 0 none.
struct StoreFault {
  std::int64_t call = 0;
  std::int64_t reads = 0;             // so far
  std::function<void()> during_next;  // runs in the next call, once

  absl::Status Count() {
    if (const std::function<void()> run = std::exchange(during_next, nullptr)) run();
    return call > 0 && --call == 0 ? absl::UnavailableError("the store fails") : absl::OkStatus();
  }
};

class MemoryStore final : public ContentsStore {
 public:
  MemoryStore(std::int64_t block_bytes, StoreFault& fault)
      : block_bytes_(block_bytes), fault_(fault) {}

  std::int64_t block_bytes() const override { return block_bytes_; }
  std::int64_t held_bytes() const override { return static_cast<std::int64_t>(kept_.size()); }

  absl::Status Begin(std::int64_t bytes) override {
    EXPECT_GT(bytes, 0);
    bytes_ = bytes;
    return fault_.Count();
  }
  absl::Status Put(std::int64_t index, absl::Span<const std::byte> block) override {
    EXPECT_EQ(index * block_bytes_, held_bytes());
    EXPECT_EQ(static_cast<std::int64_t>(block.size()),
              std::min(block_bytes_, bytes_ - held_bytes()));
    kept_.insert(kept_.end(), block.begin(), block.end());
    return fault_.Count();
  }
  absl::Status Get(std::int64_t index, absl::Span<std::byte> block) override {
    EXPECT_EQ(held_bytes(), bytes_);
    const std::int64_t begin = index * block_bytes_;
    EXPECT_EQ(static_cast<std::int64_t>(block.size()), std::min(block_bytes_, bytes_ - begin));
    std::copy_n(kept_.begin() + begin, block.size(), block.begin());
    ++fault_.reads;
    return fault_.Count();
  }

 private:
  const std::int64_t block_bytes_;
  StoreFault& fault_;
  std::int64_t bytes_ = 0;
  std::vector<std::byte> kept_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_POOL_MEMORY_STORE_H_

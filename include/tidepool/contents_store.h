// SPDX-License-Identifier: Apache-2.0
// ContentsStore: keeps the contents of a region of a pool that sleeps, for example in a file.
// copies/contents_stores.h has stores for files and for compressed contents.
#ifndef TIDEPOOL_CONTENTS_STORE_H_
#define TIDEPOOL_CONTENTS_STORE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/sleep_mode.h"

namespace tidepool {

// The contents are cut into blocks: each has block_bytes() bytes, and the last one may have fewer.
// A pool calls one function at a time, from threads that pause or resume a region, without a lock
// that requests and frees need. The functions must not call the pool. The destructor drops the
// contents.
class TIDEPOOL_EXPORT ContentsStore {
 public:
  virtual ~ContentsStore() = default;

  // Returns the bytes of a block, always the same and at least 1. The pool takes page-locked memory
  // for two blocks.
  virtual std::int64_t block_bytes() const = 0;
  // Returns the mode that recordings name.
  virtual SleepMode mode() const { return SleepMode::kStore; }
  // Prepares for contents of `bytes` bytes. Called once, first. After an error of Begin or Put the
  // pool drops the store, and the region stays awake.
  virtual absl::Status Begin(std::int64_t bytes) = 0;
  // Keeps a block. Each block comes once, in order from 0.
  virtual absl::Status Put(std::int64_t index, absl::Span<const std::byte> block) = 0;
  // Writes a block to `block`, which has its size. After an error the region sleeps on, and the
  // pool may ask for the same blocks again.
  virtual absl::Status Get(std::int64_t index, absl::Span<std::byte> block) = 0;
  // Returns the bytes that the store holds, wherever it holds them.
  virtual std::int64_t held_bytes() const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_CONTENTS_STORE_H_

// SPDX-License-Identifier: Apache-2.0
// Pools of the C interface for tests.
#ifndef TIDEPOOL_TESTS_BINDINGS_C_FIXTURE_H_
#define TIDEPOOL_TESTS_BINDINGS_C_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_files.h"
#include "tidepool/c_api.h"

namespace tidepool {

// A pool that is destroyed at the end of its scope.
class CPool {
 public:
  explicit CPool(const std::string& options = "device=host") {
    EXPECT_EQ(tidepool_pool_create(options.c_str(), &pool_), TIDEPOOL_OK) << tidepool_last_error();
  }
  ~CPool() {
    if (pool_ == nullptr) return;
    EXPECT_EQ(tidepool_pool_destroy(pool_), TIDEPOOL_OK) << tidepool_last_error();
  }
  CPool(const CPool&) = delete;
  CPool& operator=(const CPool&) = delete;

  tidepool_pool* get() const { return pool_; }
  tidepool_pool* Release() { return std::exchange(pool_, nullptr); }
  void* Allocate(std::size_t bytes, tidepool_stream stream = nullptr) const {
    void* address = nullptr;
    EXPECT_EQ(tidepool_allocate(pool_, bytes, stream, TIDEPOOL_RESIDENT, &address), TIDEPOOL_OK)
        << tidepool_last_error();
    return address;
  }
  void Free(void* address, tidepool_stream stream = nullptr) const {
    EXPECT_EQ(tidepool_free(pool_, address, stream), TIDEPOOL_OK) << tidepool_last_error();
  }
  // Returns the status of an allocation, which is freed again.
  tidepool_status Try(std::size_t bytes, tidepool_stream stream = nullptr) const {
    void* address = nullptr;
    const tidepool_status status =
        tidepool_allocate(pool_, bytes, stream, TIDEPOOL_RESIDENT, &address);
    EXPECT_EQ(address != nullptr, status == TIDEPOOL_OK && bytes > 0);
    if (status == TIDEPOOL_OK) Free(address, stream);
    return status;
  }
  tidepool_stream NewStream() const {
    tidepool_stream stream = nullptr;
    EXPECT_EQ(tidepool_stream_create(pool_, &stream), TIDEPOOL_OK) << tidepool_last_error();
    return stream;
  }
  tidepool_statistics Statistics() const {
    tidepool_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    EXPECT_EQ(tidepool_get_statistics(pool_, &statistics), TIDEPOOL_OK) << tidepool_last_error();
    return statistics;
  }
  std::vector<tidepool_block> Blocks() const {
    std::size_t count = 0;
    EXPECT_EQ(tidepool_get_blocks(pool_, nullptr, 0, &count), TIDEPOOL_OK);
    std::vector<tidepool_block> blocks(count);
    EXPECT_EQ(tidepool_get_blocks(pool_, blocks.data(), count, &count), TIDEPOOL_OK);
    return blocks;
  }

 private:
  tidepool_pool* pool_ = nullptr;
};

// Returns the error of options for which no pool can be made.
inline std::string CreationError(const std::string& options, tidepool_status expected) {
  tidepool_pool* pool = nullptr;
  EXPECT_EQ(tidepool_pool_create(options.c_str(), &pool), expected) << options;
  EXPECT_EQ(pool, nullptr);
  return tidepool_last_error();
}

// Writes a file of the test and returns its path.
inline std::string TestFile(const std::string& name, const std::string& contents) {
  std::string path = TemporaryFile(name);
  std::ofstream(path) << contents;
  return path;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_BINDINGS_C_FIXTURE_H_

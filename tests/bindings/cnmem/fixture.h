// SPDX-License-Identifier: Apache-2.0
// CNMeM's functions on the stand-in for the CUDA runtime.
#ifndef TIDEPOOL_TESTS_BINDINGS_CNMEM_FIXTURE_H_
#define TIDEPOOL_TESTS_BINDINGS_CNMEM_FIXTURE_H_

#include <cnmem.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"

namespace tidepool {

inline constexpr std::size_t kMemory = 64 << 20;  // of each of two devices

// Sets an environment variable for the life of the object.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const std::string name_;
};

// Starts with two unused devices, and expects at the end that only streams are left.
class CnmemFixture : public ::testing::Test {
 protected:
  struct Info {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    friend bool operator==(const Info&, const Info&) = default;
    friend void PrintTo(const Info& info, std::ostream* out) {
      *out << info.free_bytes << " of " << info.total_bytes << " free";
    }
  };

  CnmemFixture() { ConfigureStandIn({}); }
  ~CnmemFixture() override {
    while (cnmemRelease() == CNMEM_STATUS_SUCCESS) {
    }
    ExpectOnlyStreamsAreLive();
    ConfigureStandIn({});
  }

  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static cnmemStatus_t Init(std::size_t bytes, unsigned flags = CNMEM_FLAGS_DEFAULT,
                            std::vector<cudaStream_t> streams = {},
                            std::vector<std::size_t> reserved = {}) {
    cnmemDevice_t device = {};
    device.size = bytes;
    device.numStreams = static_cast<int>(streams.size());
    device.streams = streams.empty() ? nullptr : streams.data();
    device.streamSizes = reserved.empty() ? nullptr : reserved.data();
    return cnmemInit(1, &device, flags);
  }
  static void* Malloc(std::size_t bytes, cudaStream_t stream = nullptr) {
    void* address = nullptr;
    EXPECT_EQ(cnmemMalloc(&address, bytes, stream), CNMEM_STATUS_SUCCESS);
    return address;
  }
  static cnmemStatus_t TryMalloc(std::size_t bytes, cudaStream_t stream = nullptr) {
    void* address = nullptr;
    return cnmemMalloc(&address, bytes, stream);
  }
  static void Free(void* address, cudaStream_t stream = nullptr) {
    EXPECT_EQ(cnmemFree(address, stream), CNMEM_STATUS_SUCCESS);
  }
  static Info GetInfo(cudaStream_t stream = nullptr) {
    Info info;
    EXPECT_EQ(cnmemMemGetInfo(&info.free_bytes, &info.total_bytes, stream), CNMEM_STATUS_SUCCESS);
    return info;
  }
  static std::string State(cudaStream_t stream = nullptr) {
    char* text = nullptr;
    std::size_t size = 0;
    FILE* const file = open_memstream(&text, &size);
    EXPECT_EQ(cnmemPrintMemoryState(file, stream), CNMEM_STATUS_SUCCESS);
    std::fclose(file);
    std::string state(text, size);
    std::free(text);
    return state;
  }
  static std::size_t FreeOnDevice() {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    return free_bytes;
  }
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_BINDINGS_CNMEM_FIXTURE_H_

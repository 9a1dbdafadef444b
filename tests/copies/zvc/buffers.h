// SPDX-License-Identifier: Apache-2.0
// Buffers for tests of the codec: random data, and buffers at the end of accessible memory.
#ifndef TIDEPOOL_TESTS_COPIES_ZVC_BUFFERS_H_
#define TIDEPOOL_TESTS_COPIES_ZVC_BUFFERS_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/copies/zvc/slow_stream.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {

inline std::unique_ptr<ZeroValueCodec> Codec(const ZeroValueOptions& options = {}) {
  auto codec = ZeroValueCodec::Create(options);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return *std::move(codec);
}

// Buffer with an inaccessible page after it or, with `at_begin`, before it.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes, bool at_begin = false) : bytes_(bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (bytes + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    memory_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    auto* const begin = static_cast<std::byte*>(memory_) + page;
    EXPECT_EQ(inner == 0 ? 0 : mprotect(begin, inner, PROT_READ | PROT_WRITE), 0);
    data_ = at_begin ? begin : begin + inner - bytes;
  }
  explicit GuardedBuffer(const slow::Bytes& contents, bool at_begin = false)
      : GuardedBuffer(contents.size(), at_begin) {
    if (!contents.empty()) std::memcpy(data_, contents.data(), contents.size());
  }
  ~GuardedBuffer() { munmap(memory_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  absl::Span<std::byte> span() const { return {data_, bytes_}; }
  slow::Bytes Contents(std::size_t bytes) const { return {data_, data_ + bytes}; }

 private:
  std::size_t bytes_;
  std::size_t mapped_ = 0;
  void* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

// Distribution of the non-zero words.
enum class Values { kRelu, kSigned, kAnyBits, kSame, kFewBits, kSpecial };
inline constexpr Values kAllValues[] = {Values::kRelu, Values::kSigned,  Values::kAnyBits,
                                        Values::kSame, Values::kFewBits, Values::kSpecial};

template <typename Random>
std::uint32_t RandomWord(Values values, std::size_t word_bytes, Random& random) {
  const auto as_word = [word_bytes](float number) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    return word_bytes == 2 ? bits >> 16 : bits;
  };
  std::normal_distribution<float> normal;
  switch (values) {
    case Values::kRelu:
      return as_word(std::abs(normal(random)));
    case Values::kSigned:
      return as_word(normal(random));
    case Values::kAnyBits:
      return static_cast<std::uint32_t>(random());
    case Values::kSame:
      return 0x8001;
    case Values::kFewBits:
      return 0x7000 + static_cast<std::uint32_t>(random() % 5);
    case Values::kSpecial: {
      constexpr std::uint32_t kWords[] = {0x80000000, 0x7fc00001, 0xffc12345,
                                          0x7f800000, 0xff800000, 1};
      const std::uint32_t word = kWords[random() % 6];
      return word_bytes == 2 ? word >> 16 : word;
    }
  }
  return 0;
}

// Returns random words, a share `density` of them not zero.
template <typename Random>
slow::Bytes RandomInput(std::size_t bytes, std::size_t word_bytes, double density, Values values,
                        Random& random) {
  slow::Bytes input(bytes + word_bytes);
  std::bernoulli_distribution is_set(density);
  for (std::size_t at = 0; at < bytes; at += word_bytes) {
    const std::uint32_t word = is_set(random) ? RandomWord(values, word_bytes, random) : 0;
    std::memcpy(input.data() + at, &word, word_bytes);
  }
  input.resize(bytes);
  return input;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_COPIES_ZVC_BUFFERS_H_

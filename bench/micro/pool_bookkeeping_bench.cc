// SPDX-License-Identifier: Apache-2.0
// Claims: a pool's books take at most 100 bytes of host memory for each live block, on one stream
// and on 16; they go back when the blocks are freed; and a pair on one of 16 streams costs at most
// 1.3 times a pair on one stream.
//
// Bytes are those that malloc counts as in use, so they are exact on a busy machine. The times are
// processor time of the thread; the two pools take turns, and a ratio is the median over the turns.
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"

namespace tidepool::bench {
namespace {

constexpr int kStreams = 16;
constexpr int kTurns = 16;
constexpr std::int64_t kPoolBytes = std::int64_t{1} << 40;

double HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

double ProcessorNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Sizes from 512 B to 2 MiB, so that a million blocks fit.
std::vector<std::size_t> SmallSizes() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(9, 21);
  std::vector<std::size_t> sizes(1 << 16);
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(std::exp2(exponent(random)));
  return sizes;
}

// Random replacement of live blocks, each on one of some streams.
class Churn {
 public:
  Churn(int streams, std::size_t live, const std::vector<std::size_t>& sizes)
      : blocks_(live),
        sizes_(sizes),
        host_({.initial_bytes = kPoolBytes, .max_bytes = kPoolBytes}) {
    for (int i = 0; i < streams; ++i) streams_.push_back(host_.NewStream());
    empty_ = HeapBytes();
    for (Block& block : blocks_) block = Take();
  }
  ~Churn() { FreeAll(); }

  // Returns the nanoseconds of a pair.
  double Replace(std::size_t pairs) {
    const double begin = ProcessorNanoseconds();
    for (std::size_t i = 0; i < pairs; ++i) {
      Block& block = blocks_[index_.Below(static_cast<std::uint32_t>(blocks_.size()))];
      host_.pool().Free(block.address, block.stream).IgnoreError();
      block = Take();
    }
    return (ProcessorNanoseconds() - begin) / static_cast<double>(pairs);
  }
  void FreeAll() {
    for (Block& block : blocks_) host_.pool().Free(block.address, block.stream).IgnoreError();
    for (Block& block : blocks_) block = {};
  }
  double empty() const { return empty_; }  // bytes of the heap before the first allocation

 private:
  struct Block {
    void* address = nullptr;
    Stream stream;
  };

  Block Take() {
    const Stream stream = streams_[index_.Below(static_cast<std::uint32_t>(streams_.size()))];
    const std::size_t bytes = sizes_[next_++ & (sizes_.size() - 1)];
    return {host_.pool().Allocate(bytes, stream).value(), stream};
  }

  std::vector<Block> blocks_;
  const std::vector<std::size_t>& sizes_;
  PoolOnHost host_;
  std::vector<Stream> streams_;
  IndexSource index_;
  std::size_t next_ = 0;
  double empty_ = 0;
};

void MeasureBytes(int streams, std::size_t live, const std::vector<std::size_t>& sizes) {
  Churn churn(streams, live, sizes);
  churn.Replace(4 * live);
  const double churned = HeapBytes() - churn.empty();
  churn.FreeAll();
  std::printf("%2d streams %8zu live: %6.1f bytes a live block, %9.0f bytes kept\n", streams, live,
              churned / static_cast<double>(live), HeapBytes() - churn.empty());
  std::fflush(stdout);
}

void MeasureTime(std::size_t live, const std::vector<std::size_t>& sizes) {
  Churn one(1, live, sizes);
  Churn many(kStreams, live, sizes);
  one.Replace(2 * live);
  many.Replace(2 * live);
  std::vector<double> ratios;
  double least_of_one = 1e9;
  double least_of_many = 1e9;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double of_one = one.Replace(50'000);
    const double of_many = many.Replace(50'000);
    ratios.push_back(of_many / of_one);
    least_of_one = std::min(least_of_one, of_one);
    least_of_many = std::min(least_of_many, of_many);
  }
  std::ranges::nth_element(ratios, ratios.begin() + kTurns / 2);
  std::printf("%8zu live: 1 stream %4.0f ns, %d streams %4.0f ns a pair, %4.2f times\n", live,
              least_of_one, kStreams, least_of_many, ratios[kTurns / 2]);
  std::fflush(stdout);
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  namespace bench = tidepool::bench;
  const std::vector<std::size_t> sizes = bench::SmallSizes();
  for (const std::size_t live : {10'000, 100'000, 1'000'000}) {
    bench::MeasureBytes(1, live, sizes);
    bench::MeasureBytes(bench::kStreams, live, sizes);
  }
  for (const std::size_t live : {1'000, 10'000, 100'000, 1'000'000}) {
    bench::MeasureTime(live, sizes);
  }
}

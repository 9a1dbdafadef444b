// SPDX-License-Identifier: Apache-2.0
// One program for CNMeM and for its replacement. It measures the nanoseconds per pair of cnmemFree
// and cnmemMalloc with few, 1,000 and 10,000 live blocks, of all sizes and of one size. It also
// measures the device memory that 16 streams take for their live bytes. It uses only functions of
// CNMeM and CUDA, and touches no memory, so it runs on the stand-in for the CUDA runtime with a
// device of any size. See README.md in bindings/cnmem.
#include <cnmem.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr double kSmallest = 512;
constexpr double kLargest = 64 << 20;

void Check(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "cnmem_bench: %s failed\n", what);
  std::exit(1);
}
#define CHECK(call) Check((call) == 0, #call)

// Sizes with a uniform logarithm, drawn before the measurement.
class Sizes {
 public:
  explicit Sizes(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(std::log2(kSmallest), std::log2(kLargest));
    for (std::size_t& size : sizes_) size = static_cast<std::size_t>(std::exp2(exponent(random)));
  }
  std::size_t Next() { return sizes_[next_++ % sizes_.size()]; }

 private:
  std::vector<std::size_t> sizes_ = std::vector<std::size_t>(1 << 16);
  std::size_t next_ = 0;
};

struct Block {
  void* address = nullptr;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
};

// Frees a random block and allocates another. Stops after the first refused request.
class Replacement {
 public:
  Replacement(std::size_t live, std::vector<cudaStream_t> streams, std::uint64_t seed)
      : sizes_(seed), streams_(std::move(streams)), random_(seed), blocks_(live) {
    for (Block& block : blocks_) Allocate(block);
  }
  ~Replacement() {
    for (const Block& block : blocks_) {
      if (block.address != nullptr) CHECK(cnmemFree(block.address, block.stream));
    }
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void Step() {
    if (is_refused_) return;
    Block& block = blocks_[random_() % blocks_.size()];
    CHECK(cnmemFree(block.address, block.stream));
    live_bytes_ -= block.bytes;
    Allocate(block);
  }
  std::size_t peak_live_bytes() const { return peak_live_bytes_; }
  bool is_refused() const { return is_refused_; }

 private:
  void Allocate(Block& block) {
    block.stream = streams_[streams_.size() == 1 ? 0 : random_() % streams_.size()];
    block.bytes = sizes_.Next();
    block.address = nullptr;
    is_refused_ |= cnmemMalloc(&block.address, block.bytes, block.stream) != CNMEM_STATUS_SUCCESS;
    live_bytes_ += block.bytes;
    peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  }

  Sizes sizes_;
  std::vector<cudaStream_t> streams_;
  std::minstd_rand random_;
  std::vector<Block> blocks_;
  std::size_t live_bytes_ = 0;
  std::size_t peak_live_bytes_ = 0;
  bool is_refused_ = false;
};

void Begin(std::size_t bytes, unsigned flags, std::vector<cudaStream_t>& streams) {
  cnmemDevice_t device = {};
  device.size = bytes;
  device.numStreams = static_cast<int>(streams.size());
  device.streams = streams.data();
  CHECK(cnmemInit(1, &device, flags));
}

// Returns the best of several rounds of about a tenth of a second each.
template <typename Function>
double Nanoseconds(std::int64_t calls, Function function) {
  double best = INFINITY;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < calls; ++i) function();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / static_cast<double>(calls));
  }
  return best;
}

std::size_t FreeOnDevice() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

// Frees a random block and allocates another of the same size.
double NanosecondsOfOneSize(std::size_t live) {
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<void*> blocks(live);
  for (void*& block : blocks) CHECK(cnmemMalloc(&block, kBytes, nullptr));
  std::minstd_rand random(1);
  const double pair = Nanoseconds(20'000, [&] {
    void*& block = blocks[random() % live];
    CHECK(cnmemFree(block, nullptr));
    CHECK(cnmemMalloc(&block, kBytes, nullptr));
  });
  for (void* const block : blocks) CHECK(cnmemFree(block, nullptr));
  return pair;
}

// One stream, in a pool that is large enough.
void MeasurePairs(std::size_t pool_bytes) {
  std::vector<cudaStream_t> none;
  Begin(pool_bytes, CNMEM_FLAGS_CANNOT_GROW, none);
  void* address = nullptr;
  const double empty = Nanoseconds(1'000'000, [&] {
    CHECK(cnmemMalloc(&address, 4096, nullptr));
    CHECK(cnmemFree(address, nullptr));
  });
  std::printf("ns per pair, nothing else live   %10.1f\n", empty);
  for (const std::size_t live : {10, 1'000, 10'000}) {
    Replacement replacement(live, {nullptr}, 1);
    const auto steps = static_cast<std::int64_t>(4 * live);
    for (std::int64_t i = 0; i < steps; ++i) replacement.Step();
    const double pair = Nanoseconds(live <= 10 ? 300'000 : 20'000, [&] { replacement.Step(); });
    Check(!replacement.is_refused(), "an allocation");
    std::printf("ns per pair, %6zu live          %10.1f\n", live, pair);
  }
  for (const std::size_t live : {1'000, 10'000}) {
    std::printf("ns per pair, %6zu live, one size %9.1f\n", live, NanosecondsOfOneSize(live));
  }
  CHECK(cnmemFinalize());
}

constexpr std::size_t kLive = 400;
constexpr int kSteps = 20'000;

struct Served {
  bool is_all = false;
  std::size_t taken_bytes = 0;  // from the device
  std::size_t peak_live_bytes = 0;
};

// Frees every block on its own stream.
Served Serve(std::size_t pool_bytes, unsigned flags, std::size_t stream_count, std::uint64_t seed) {
  std::vector<cudaStream_t> streams(stream_count);
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
  const std::size_t before = FreeOnDevice();
  Begin(pool_bytes, flags, streams);
  Served served;
  {
    Replacement replacement(kLive, streams, seed);
    for (int i = 0; i < kSteps; ++i) replacement.Step();
    served = {!replacement.is_refused(), before - FreeOnDevice(), replacement.peak_live_bytes()};
  }
  CHECK(cnmemFinalize());
  for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  return served;
}

// Measures a pool that starts almost empty and grows.
double GrownRatio(std::size_t stream_count, std::uint64_t seed) {
  const Served served = Serve(512, CNMEM_FLAGS_DEFAULT, stream_count, seed);
  Check(served.is_all, "an allocation");
  return static_cast<double>(served.taken_bytes) / static_cast<double>(served.peak_live_bytes);
}

// Finds the smallest pool that cannot grow and serves all requests, to a hundredth of the peak.
double SmallestRatio(std::size_t stream_count, std::uint64_t seed) {
  const std::size_t peak = Serve(512, CNMEM_FLAGS_DEFAULT, stream_count, seed).peak_live_bytes;
  int too_small = 99;
  int large_enough = 400;
  while (large_enough - too_small > 1) {
    const int hundredths = (large_enough + too_small) / 2;
    const std::size_t bytes = peak / 100 * static_cast<std::size_t>(hundredths);
    if (Serve(bytes, CNMEM_FLAGS_CANNOT_GROW, stream_count, seed).is_all) {
      large_enough = hundredths;
    } else {
      too_small = hundredths;
    }
  }
  return large_enough / 100.0;
}

template <typename Function>
void Print(const char* what, std::size_t stream_count, Function ratio) {
  constexpr int kDraws = 10;
  double sum = 0;
  double worst = 0;
  for (int draw = 1; draw <= kDraws; ++draw) {
    const double one = ratio(stream_count, static_cast<std::uint64_t>(draw));
    sum += one;
    worst = std::max(worst, one);
  }
  std::printf("%s / peak live, %2zu streams: mean of %d draws %.3f, worst %.3f\n", what,
              stream_count, kDraws, sum / kDraws, worst);
}

void MeasureRatios() {
  for (const std::size_t stream_count : {1, 16}) {
    Print("grown pool    ", stream_count, GrownRatio);
    Print("smallest pool ", stream_count, SmallestRatio);
  }
}

}  // namespace

int main() {
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  MeasurePairs(std::min(free_bytes, total_bytes / 8 * 7));
  MeasureRatios();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The request patterns that the placement benchmarks serve, for any engine with Key
// Allocate(std::int64_t bytes) and void Free(Key key). Sizes come from a table that is drawn
// beforehand, so that only the engine is timed.
#ifndef TIDEPOOL_BENCH_SUPPORT_WORKLOADS_H_
#define TIDEPOOL_BENCH_SUPPORT_WORKLOADS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::bench {

inline constexpr std::int64_t kSmallest = 512;
inline constexpr std::int64_t kLargest = std::int64_t{64} << 20;

// Sizes from 512 B to 64 MiB, uniform in their logarithm.
inline std::vector<std::int64_t> LogUniformSizes(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(std::log2(kSmallest), std::log2(kLargest));
  std::vector<std::int64_t> sizes(count);
  for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(std::exp2(exponent(random)));
  return sizes;
}

// A cheap generator for indices: the choice of a victim must not cost as much as the engine.
class IndexSource {
 public:
  std::uint32_t Below(std::uint32_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(((state_ >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15;
};

// `live` blocks; each step frees a random one and allocates another.
template <typename Engine>
class RandomReplacement {
 public:
  using Key = decltype(std::declval<Engine&>().Allocate(0));

  RandomReplacement(Engine& engine, std::size_t live, std::uint64_t seed = 1)
      : engine_(engine), sizes_(LogUniformSizes(1 << 16, seed)) {
    for (std::size_t i = 0; i < live; ++i) keys_.push_back(engine_.Allocate(NextSize()));
    for (std::size_t i = 0; i < 4 * live; ++i) Step();  // reach the steady state
  }
  ~RandomReplacement() {
    for (const Key& key : keys_) engine_.Free(key);
  }

  void Step() {
    Key& victim = keys_[index_.Below(static_cast<std::uint32_t>(keys_.size()))];
    engine_.Free(victim);
    victim = engine_.Allocate(NextSize());
  }

 private:
  std::int64_t NextSize() { return sizes_[next_++ & (sizes_.size() - 1)]; }

  Engine& engine_;
  std::vector<std::int64_t> sizes_;
  std::vector<Key> keys_;
  IndexSource index_;
  std::size_t next_ = 0;
};

// 1,000 live blocks of one size and 1,000 holes of that size, kept apart by small blocks that stay,
// so that the holes neither merge nor run out.
template <typename Engine>
class OneSize {
 public:
  using Key = decltype(std::declval<Engine&>().Allocate(0));
  static constexpr std::int64_t kBytes = std::int64_t{1} << 20;

  explicit OneSize(Engine& engine) : engine_(engine) {
    std::vector<Key> holes;
    for (int i = 0; i < 2000; ++i) {
      (i % 2 == 0 ? keys_ : holes).push_back(engine_.Allocate(kBytes));
      separators_.push_back(engine_.Allocate(kSmallest));
    }
    for (const Key& hole : holes) engine_.Free(hole);
  }
  ~OneSize() {
    for (const Key& key : keys_) engine_.Free(key);
    for (const Key& key : separators_) engine_.Free(key);
  }

  void Step() {
    Key& victim = keys_[index_.Below(1000)];
    engine_.Free(victim);
    victim = engine_.Allocate(kBytes);
  }

 private:
  Engine& engine_;
  std::vector<Key> keys_;
  std::vector<Key> separators_;
  IndexSource index_;
};

// 10,000 blocks of random sizes, freed first in, first out.
template <typename Engine>
class FirstInFirstOut {
 public:
  using Key = decltype(std::declval<Engine&>().Allocate(0));

  explicit FirstInFirstOut(Engine& engine) : engine_(engine), sizes_(LogUniformSizes(1 << 16)) {
    for (int i = 0; i < 10000; ++i) keys_.push_back(engine_.Allocate(sizes_[next_++]));
    for (int i = 0; i < 40000; ++i) Step();
  }
  ~FirstInFirstOut() {
    for (const Key& key : keys_) engine_.Free(key);
  }

  void Step() {
    Key& oldest = keys_[oldest_];
    engine_.Free(oldest);
    oldest = engine_.Allocate(sizes_[next_++ & (sizes_.size() - 1)]);
    if (++oldest_ == keys_.size()) oldest_ = 0;
  }

 private:
  Engine& engine_;
  std::vector<std::int64_t> sizes_;
  std::vector<Key> keys_;
  std::size_t oldest_ = 0;
  std::size_t next_ = 0;
};

// Training steps of a 64-layer network with checkpointing: weights stay; the forward pass keeps the
// output of every eighth layer and drops the others as soon as the next is made; the backward pass
// recomputes one segment at a time and frees its activations and gradients in reverse. One step is
// one allocate + free pair.
template <typename Engine>
class Checkpointing {
 public:
  using Key = decltype(std::declval<Engine&>().Allocate(0));

  explicit Checkpointing(Engine& engine) : engine_(engine) {
    Record();
    keys_.resize(slots_);
    for (int i = 0; i < kLayers; ++i) weights_.push_back(engine_.Allocate(LayerBytes(i) / 4));
  }
  ~Checkpointing() {
    Finish();
    for (const Key& key : weights_) engine_.Free(key);
  }

  void Step() {
    for (bool freed = false; !freed;) freed = Play();
  }

 private:
  static constexpr int kLayers = 64;
  static constexpr int kSegment = 8;

  struct Operation {
    int slot;
    std::int64_t bytes;  // 0: free
  };

  static std::int64_t LayerBytes(int layer) {
    return (std::int64_t{32} << 20 >> (layer / 16)) + std::int64_t{layer % 7} * 4096;
  }
  int Allocate(std::int64_t bytes) {
    operations_.push_back({slots_, bytes});
    return slots_++;
  }
  void Free(int slot) { operations_.push_back({slot, 0}); }

  void Record() {
    std::vector<int> checkpoints;
    int previous = Allocate(LayerBytes(0));
    for (int layer = 0; layer < kLayers; ++layer) {
      const int workspace = Allocate(LayerBytes(layer) / 2);
      const int output = Allocate(LayerBytes(layer));
      Free(workspace);
      if (layer % kSegment == 0) {
        checkpoints.push_back(previous);
      } else {
        Free(previous);
      }
      previous = output;
    }
    int gradient = previous;
    for (int segment = kLayers / kSegment; segment-- > 0;) {
      std::vector<int> activations = {checkpoints[segment]};
      for (int i = 0; i < kSegment; ++i) {
        activations.push_back(Allocate(LayerBytes(segment * kSegment + i)));
      }
      for (int i = kSegment; i-- > 0;) {
        const int layer = segment * kSegment + i;
        const int weight_gradient = Allocate(LayerBytes(layer) / 4);
        const int input_gradient = Allocate(LayerBytes(layer));
        Free(gradient);
        Free(activations[i + 1]);
        Free(weight_gradient);
        gradient = input_gradient;
      }
      Free(activations[0]);
    }
    Free(gradient);
  }

  // Plays one operation; returns whether it was a free.
  bool Play() {
    const Operation operation = operations_[at_];
    if (++at_ == operations_.size()) at_ = 0;
    if (operation.bytes == 0) {
      engine_.Free(keys_[operation.slot]);
      return true;
    }
    keys_[operation.slot] = engine_.Allocate(operation.bytes);
    return false;
  }

  void Finish() {
    while (at_ != 0) Play();
  }

  Engine& engine_;
  std::vector<Operation> operations_;
  int slots_ = 0;
  std::vector<Key> keys_;
  std::vector<Key> weights_;
  std::size_t at_ = 0;
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_WORKLOADS_H_

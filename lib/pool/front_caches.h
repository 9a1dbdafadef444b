// The front caches of a pool: a stream uses the one that its number leads to, as long as no other
// stream does.
#ifndef TIDEPOOL_LIB_POOL_FRONT_CACHES_H_
#define TIDEPOOL_LIB_POOL_FRONT_CACHES_H_

#include <array>
#include <cstddef>

#include "lib/pool/front_cache.h"

namespace tidepool::pool {

class FrontCaches {
 public:
  FrontCache& Of(Stream stream) { return caches_[stream.id % kCaches]; }
  const FrontCache& Of(Stream stream) const { return caches_[stream.id % kCaches]; }

  FrontCache::Counts Sum() const {
    FrontCache::Counts sum;
    for (const FrontCache& cache : caches_) {
      const FrontCache::Counts counts = cache.counts();
      sum.allocations += counts.allocations;
      sum.frees += counts.frees;
      sum.held_bytes += counts.held_bytes;
      sum.held_count += counts.held_count;
    }
    return sum;
  }

  auto begin() { return caches_.begin(); }
  auto end() { return caches_.end(); }

 private:
  static constexpr std::size_t kCaches = 32;

  std::array<FrontCache, kCaches> caches_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_FRONT_CACHES_H_

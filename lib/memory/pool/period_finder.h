// SPDX-License-Identifier: Apache-2.0
// Finds in a pool's requests that they repeat, and where an iteration may begin: where the least is
// live.
//
// Two requests match if their sizes and the live bytes before them are equal. That keeps parts of
// an iteration that look alike, such as equal layers, from being taken for iterations, unless they
// free all that they take.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_PERIOD_FINDER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_PERIOD_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tidepool::pool {

// Not thread-safe.
class PeriodFinder {
 public:
  // Longer periods are not found.
  static constexpr std::size_t kMostRequests = std::size_t{1} << 20;
  // A period is accepted once all of it, and at least this number of requests, have repeated.
  static constexpr std::size_t kFewestRepeated = 64;

  // `live_bytes` are those before the request. O(1) on average.
  void Add(std::int64_t bytes, std::int64_t live_bytes);

  // The requests so far end with two equal periods of this length; 0 if not.
  std::size_t period() const {
    return repeated_ >= distance_ && repeated_ >= kFewestRepeated ? distance_ : 0;
  }
  // How many requests are missing until the next one begins a period, given that there is one: from
  // 0 to less than the period. O(period).
  std::size_t UntilBoundary() const;
  // The signature that a plan for the last period of requests would have. O(period).
  std::uint64_t Signature() const;
  // Forgets all requests.
  void Reset();

  // Return the most requests in a row that repeated earlier ones, since the beginning, and their
  // distance to these.
  std::size_t most_repeated() const { return most_repeated_; }
  std::size_t distance_of_most() const { return distance_of_most_; }

 private:
  struct Request {
    std::int64_t bytes;
    std::int64_t live_bytes;

    bool operator==(const Request&) const = default;
    template <typename Hash>
    friend Hash AbslHashValue(Hash hash, const Request& request) {
      return Hash::combine(std::move(hash), request.bytes, request.live_bytes);
    }
  };

  std::vector<Request> requests_;
  absl::flat_hash_map<Request, std::size_t> last_;  // where each was last
  std::size_t distance_ = 0;                        // to the request that the next one may repeat
  std::size_t repeated_ = 0;                        // requests in a row that did repeat one
  std::size_t most_repeated_ = 0;
  std::size_t distance_of_most_ = 0;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_PERIOD_FINDER_H_

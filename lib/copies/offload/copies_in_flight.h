// SPDX-License-Identifier: Apache-2.0
// The copies of an offloader that are not settled, in the order in which they were queued.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_IN_FLIGHT_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_IN_FLIGHT_H_

#include <algorithm>
#include <list>
#include <vector>

#include "lib/copies/offload/buffers.h"

namespace tidepool::offload {

// The mutex of OffloaderState guards it.
class CopiesInFlight {
 public:
  void Add(const CopyPointer& copy) { ListOf(*copy).push_back(copy); }
  void Remove(const CopyPointer& copy) {
    std::list<CopyPointer>& copies = ListOf(*copy);
    copies.erase(std::find(copies.begin(), copies.end(), copy));
  }

  const std::list<CopyPointer>& ins() const { return ins_; }
  // Returns the copies of both directions.
  std::vector<CopyPointer> All() const;
  // Returns the earliest copy with an end that gives device memory back to the pool, or null.
  CopyPointer FirstLeaving() const;
  // Returns the earliest raw copy out, or the earliest compressed copy out that has ended, or null.
  CopyPointer FirstOut(bool is_compressed) const;

 private:
  std::list<CopyPointer>& ListOf(const BufferCopy& copy) { return copy.is_out ? outs_ : ins_; }

  std::list<CopyPointer> outs_;
  std::list<CopyPointer> ins_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_IN_FLIGHT_H_

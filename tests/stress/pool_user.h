// SPDX-License-Identifier: Apache-2.0
// A thread that uses a pool as programs do. It allocates memory for a stream, lets streams fill and
// check it in their order, and frees it on any stream.
#ifndef TIDEPOOL_TESTS_STRESS_POOL_USER_H_
#define TIDEPOOL_TESTS_STRESS_POOL_USER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/stress/device_faults.h"
#include "tests/stress/live_map.h"
#include "tests/stress/shared_streams.h"
#include "tests/stress/stress.h"
#include "tidepool/pool.h"

namespace tidepool::stress {

// The state that threads of the same pool share.
struct PoolShare {
  HostDevice& device;
  Pool& pool;
  SharedStreams& streams;
  LiveMap& live;
  DeviceFaults& faults;
};

class PoolUser {
 public:
  PoolUser(Worker& worker, const PoolShare& share);
  // All buffers are freed by then.
  ~PoolUser();
  PoolUser(const PoolUser&) = delete;
  PoolUser& operator=(const PoolUser&) = delete;

  std::size_t size() const { return buffers_.size(); }
  // Returns whether there was room. With a deadline it waits for room.
  bool Take(std::int64_t bytes);
  bool TakeBlocking(std::int64_t bytes, absl::Time deadline);
  // Buffers are numbered. The last buffer takes the number of a freed buffer.
  void Free(std::size_t at);
  void FreeAll();
  // Frees the buffer on its own stream, or on another stream.
  void Rewrite(std::size_t at);
  void CheckContents(std::size_t at);
  // Makes calls that the pool has to refuse.
  void Misuse();

 private:
  struct Buffer {
    std::uint8_t* address = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;
    Stream stream;                // its work so far comes after all uses of the buffer,
    std::vector<Stream> readers;  // except work of these streams, which the pool knows of
  };

  Dice& dice() { return worker_.dice(); }
  bool Keep(std::int64_t bytes, Stream stream, const absl::StatusOr<void*>& address);
  // Makes work queued on `stream` from now on wait for the earlier work of `before`. Returns false
  // if `stream` was destroyed.
  bool Order(Stream stream, Stream before);
  // Moves the buffer to another stream, which may have to wait for the buffer's readers.
  void Move(Buffer& buffer);
  void Queue(Buffer& buffer, const std::function<void()>& work);
  std::function<void()> Checks(const Buffer& buffer);
  void ReadBeside(Buffer& buffer);
  // Reports the work on the buffer's stream to the pool, or moves the buffer to `stream`.
  void Hand(Buffer& buffer, Stream stream);

  Worker& worker_;
  PoolShare share_;
  const Event event_;
  std::vector<Buffer> buffers_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_POOL_USER_H_

// A thread that uses a pool as programs do: it takes memory for a stream, lets streams fill and
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

// What threads that use a pool share.
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
  // Everything is freed by then.
  ~PoolUser();
  PoolUser(const PoolUser&) = delete;
  PoolUser& operator=(const PoolUser&) = delete;

  std::size_t size() const { return buffers_.size(); }
  // Whether there was room. With a deadline it waits for that.
  bool Take(std::int64_t bytes);
  bool TakeBlocking(std::int64_t bytes, absl::Time deadline);
  // Buffers are numbered; the last one takes the number of one that is freed.
  void Free(std::size_t at);
  void FreeAll();
  // On the stream that it lies on, or on another.
  void Rewrite(std::size_t at);
  void CheckContents(std::size_t at);
  // What the pool has to refuse.
  void Misuse();

 private:
  struct Buffer {
    std::uint8_t* address = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;
    Stream stream;                // whose work so far comes after all that used the buffer,
    std::vector<Stream> readers;  // but for work of these, which the pool knows of
  };

  Dice& dice() { return worker_.dice(); }
  bool Keep(std::int64_t bytes, Stream stream, const absl::StatusOr<void*>& address);
  // Lets what is queued on `stream` from here on wait for what `before` was given; false when
  // `stream` was destroyed.
  bool Order(Stream stream, Stream before);
  // Brings the buffer to another stream, where it may have to wait for its readers.
  void Move(Buffer& buffer);
  void Queue(Buffer& buffer, const std::function<void()>& work);
  std::function<void()> Checks(const Buffer& buffer);
  void ReadBeside(Buffer& buffer);
  // Makes the pool know of the work on the buffer's stream, or moves it to `stream`.
  void Hand(Buffer& buffer, Stream stream);

  Worker& worker_;
  PoolShare share_;
  const Event event_;
  std::vector<Buffer> buffers_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_POOL_USER_H_

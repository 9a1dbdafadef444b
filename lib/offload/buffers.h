// What an offloader knows of its buffers and of their copies under way.
#ifndef TIDEPOOL_LIB_OFFLOAD_BUFFERS_H_
#define TIDEPOOL_LIB_OFFLOAD_BUFFERS_H_

#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/offload/buffer_memory.h"
#include "lib/offload/event_pool.h"
#include "tidepool/device.h"
#include "tidepool/schedule/offloader.h"

namespace tidepool::offload {

// One way of one buffer. It has a life of its own: the buffer may be freed, or stay, meanwhile.
struct BufferCopy {
  std::int64_t sequence = 0;  // in the order in which they were asked for
  BufferId buffer;
  std::string name;  // of the buffer, as messages have it
  std::int64_t bytes = 0;
  bool is_out = false;
  std::weak_ptr<DeviceMemory> device;
  std::shared_ptr<HostMemory> host;
  // Of a copy out: the copy in that it comes after, while nobody knows how that ends.
  std::shared_ptr<BufferCopy> behind;
  std::vector<Stream> awaited_on;  // streams that were told to wait for it
  bool is_settled = false;         // what it changes is changed
  // Of a copy in: whether Use gave the address to work that comes after it. When the copy fails,
  // the memory stays until that error was told, because such work may still be queued.
  bool is_promised = false;
  std::shared_ptr<DeviceMemory> promised;

  // Raw: on a copy stream, with an event behind it. Without its mark it is marked later. Of a
  // compressed copy in it stands for what that comes behind, all before it among them.
  PooledEvent event;
  bool is_marked = false;

  // Compressed: told by the pipeline, whose streams the pool does not know: so it holds the memory.
  bool is_compressed = false;
  std::shared_ptr<DeviceMemory> held;
  std::shared_ptr<std::latch> arrival;
  bool is_over = false;

  absl::Status result;  // of what is over
};

struct Buffer {
  BufferId id;
  std::string name;
  std::int64_t bytes = 0;
  BufferState state = BufferState::kOnDevice;
  std::shared_ptr<DeviceMemory> device;  // but when it is out
  std::shared_ptr<HostMemory> host;      // when it is out or coming back
  std::shared_ptr<BufferCopy> copy;      // when it is going out or coming back
  std::shared_ptr<BufferCopy> given_up;  // the last copy out that it did not go by
  std::shared_ptr<BufferCopy> failed;    // of which nobody was told
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_BUFFERS_H_

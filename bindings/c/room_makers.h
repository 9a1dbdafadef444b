// SPDX-License-Identifier: Apache-2.0
// The functions of a program that make room before a pool refuses a request.
#ifndef TIDEPOOL_BINDINGS_C_ROOM_MAKERS_H_
#define TIDEPOOL_BINDINGS_C_ROOM_MAKERS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/c_api.h"

namespace tidepool::c_api {

// Thread-safe. No lock is held while a function runs.
class RoomMakers {
 public:
  struct Request {
    std::string_view tag;  // empty: of no region
    std::size_t bytes = 0;
    void* stream = nullptr;
    int attempt = 1;
  };

  // Returns the number of a function for requests in the region of a tag, or for all requests
  // without one.
  absl::StatusOr<std::size_t> Add(std::optional<std::string> tag, tidepool_make_room function,
                                  void* data);
  // Takes a function out, and waits until other threads have left it.
  absl::Status Remove(std::size_t number);
  // Calls the functions for a request until one makes room, and returns whether one did.
  bool MakeRoom(const Request& request);
  // Whether this thread is in a function, of any pool.
  static bool IsInFunction() { return depth_ > 0; }

 private:
  struct Maker {
    std::size_t number = 0;
    std::optional<std::string> tag;
    tidepool_make_room function = nullptr;
    void* data = nullptr;
    bool is_removed = false;
    std::vector<std::thread::id> threads;  // that are in the function
  };

  static thread_local int depth_;  // functions that this thread is in

  std::vector<std::shared_ptr<Maker>> MakersFor(std::string_view tag);
  // Enters a function, unless it was taken out or this thread is in it.
  bool Enter(Maker& maker);
  void Leave(Maker& maker);

  locks::Mutex mutex_;  // guards the makers too
  locks::CondVar was_left_;
  std::vector<std::shared_ptr<Maker>> makers_ ABSL_GUARDED_BY(mutex_);
  std::size_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_ROOM_MAKERS_H_

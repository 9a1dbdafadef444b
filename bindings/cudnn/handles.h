// SPDX-License-Identifier: Apache-2.0
// The handles of cuDNN that the process uses, and the planner of each device.
#ifndef TIDEPOOL_BINDINGS_CUDNN_HANDLES_H_
#define TIDEPOOL_BINDINGS_CUDNN_HANDLES_H_

#include <cudnn.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/options.h"
#include "bindings/cudnn/planner.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/pointer_table.h"

namespace tidepool::cudnn {

// A handle. CuDNN reuses the address of a destroyed handle, and this object with it.
struct HandleState {
  std::atomic<Planner*> planner = nullptr;  // null: destroyed
  locks::Mutex mutex;                       // one convolution of a handle at a time
};

// Thread-safe. Never destroyed: programs call cuDNN until their very end.
class Handles {
 public:
  static Handles& Get();

  // Adds a handle of the current device. The first handle of a device makes its planner.
  void Add(const Functions& functions, cudnnHandle_t handle);
  // Marks a handle as destroyed. The last handle of a device takes its planner along.
  void Remove(cudnnHandle_t handle);
  // Returns a handle, and adds it if it was created elsewhere. Takes no lock for a known one.
  HandleState& Find(const Functions& functions, cudnnHandle_t handle);
  // Returns whether the handle was added and not destroyed since.
  bool IsAlive(cudnnHandle_t handle) const;
  // Counts a plan of a graph on the current device as left to cuDNN, if its workspace exceeds the
  // limit.
  void CountGraphLeft(std::int64_t workspace_bytes);
  // Sets an option for planners that are made later. Returns false for a bad one.
  bool SetOption(std::string_view name, std::string_view value);

 private:
  struct DevicePlanner {
    std::unique_ptr<Planner> planner;
    int handles = 0;
  };

  Handles();
  static void PrintAtExit();

  locks::PointerTable<HandleState> table_;  // read without a lock, changed under mutex_
  mutable locks::Mutex mutex_;
  std::vector<std::unique_ptr<HandleState>> states_ ABSL_GUARDED_BY(mutex_);
  std::map<int, DevicePlanner> planners_ ABSL_GUARDED_BY(mutex_);
  Options options_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_HANDLES_H_

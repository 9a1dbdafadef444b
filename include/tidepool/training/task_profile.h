// SPDX-License-Identifier: Apache-2.0
// Profiles: measured times and workspaces of tasks, and rates of links, in one SQLite file that all
// users share. Needs tidepool::profile, a library of its own, because it links SQLite.
#ifndef TIDEPOOL_TRAINING_TASK_PROFILE_H_
#define TIDEPOOL_TRAINING_TASK_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"

namespace tidepool {

// The machine of a measurement.
struct ProfiledMachine {
  std::string device;   // name of the GPU or host
  std::string library;  // of the kernels, with its version and the driver's
};

// The key of a time. It does not depend on names of tasks, if the layer's parameters are known.
struct ProfileKey {
  ProfiledMachine machine;
  std::string layer;   // operation, pass and parameters of one sample
  std::string layout;  // of tensors; empty: unknown
  std::string types;   // of data and of arithmetic
  std::string algorithm;
  std::int64_t samples = 0;  // the micro-batch; 0: a task without a batch
};
// Returns the key of an algorithm of a task. The layer of a task without parameters is its name and
// the sizes of its data. Thread-safe. O(uses).
TIDEPOOL_EXPORT ProfileKey KeyOf(const TaskGraph& graph, std::size_t task, std::size_t algorithm,
                                 const ProfiledMachine& machine);

struct TaskTime {
  double seconds = 0;  // the median of the runs
  std::int64_t workspace_bytes = 0;
  std::int64_t runs = 0;

  friend bool operator==(const TaskTime&, const TaskTime&) = default;
};

// One direction of a link: a copy takes latency_seconds + bytes / bytes_per_second.
struct LinkTime {
  double latency_seconds = 0;
  double bytes_per_second = 0;

  friend bool operator==(const LinkTime&, const LinkTime&) = default;
};

// A measurement of a layer, without the parts of the key that name the layer.
struct LayerTime {
  std::string algorithm;
  std::int64_t samples = 0;
  TaskTime time;

  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// A file of measurements. Several processes may use one file: SQLite locks it, with a rollback
// journal, which also works on network file systems. One object belongs to one thread at a time.
class TIDEPOOL_EXPORT ProfileStore {
 public:
  // Opens the file, and creates it if there is no such file. InvalidArgument with the path for a
  // file that is no profile, or of a later version.
  static absl::StatusOr<std::unique_ptr<ProfileStore>> Open(const std::filesystem::path& path);
  // Waits at most this long for another process that holds the file. Elsewhere that is 10 seconds.
  static absl::StatusOr<std::unique_ptr<ProfileStore>> Open(const std::filesystem::path& path,
                                                            absl::Duration longest_wait);

  virtual ~ProfileStore() = default;
  ProfileStore(const ProfileStore&) = delete;
  ProfileStore& operator=(const ProfileStore&) = delete;

  // Return the measurement of a key; no value for a key that was not measured. InvalidArgument for
  // a broken file. O(log size).
  virtual absl::StatusOr<std::optional<TaskTime>> Find(const ProfileKey& key) = 0;
  virtual absl::StatusOr<std::optional<LinkTime>> FindLink(const ProfiledMachine& machine,
                                                           CopyDirection direction) = 0;
  // Returns the measurements of all algorithms and micro-batches of a layer, by algorithm and
  // samples. The key's own algorithm and samples do not count. InvalidArgument for a broken file.
  // O(log size + results).
  virtual absl::StatusOr<std::vector<LayerTime>> FindAll(const ProfileKey& key) = 0;
  // Write a measurement, in the place of an older one with the same key. The file has it when the
  // call returns. Unavailable while another process holds the file for the longest wait.
  virtual absl::Status Put(const ProfileKey& key, const TaskTime& time) = 0;
  // Writes all of them or none.
  virtual absl::Status PutAll(const std::vector<std::pair<ProfileKey, TaskTime>>& times) = 0;
  // Adds the measurements of another profile, such as that of another node: all or none. Of two
  // with one key, the one of more runs stays, and of equals this file's own. Returns the number of
  // measurements that changed here. InvalidArgument for a file that is missing or no profile.
  // O(size of the other file log size).
  virtual absl::StatusOr<std::int64_t> Merge(const std::filesystem::path& other) = 0;
  virtual absl::Status PutLink(const ProfiledMachine& machine, CopyDirection direction,
                               const LinkTime& time) = 0;

 protected:
  ProfileStore() = default;
};

// Replaces times of `graph` by those of the store, also of a family's cost model, and returns the
// number of algorithms that the store has. The remaining times stay. Workspaces are the store's,
// and algorithms are sorted by them. Errors are those of Find; then the graph is unchanged.
// Thread-safe for different stores and graphs. O(algorithms x log size).
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> UseProfile(ProfileStore& store,
                                                        const ProfiledMachine& machine,
                                                        TaskGraph& graph);

// Runs `launch` `runs` times (1 or more) after one run to warm up, and returns the median of the
// times that its work takes on `stream`, which has no other work. Errors are those of the device
// and of `launch`.
TIDEPOOL_EXPORT absl::StatusOr<double> MedianSeconds(Device& device, Stream stream, int runs,
                                                     const std::function<absl::Status()>& launch);

struct LinkMeasurement {
  CopyDirection direction = CopyDirection::kFromDevice;
  std::int64_t small_bytes = 4096;
  std::int64_t large_bytes = std::int64_t{64} << 20;
  int runs = 5;
};
// Measures copies of `small_bytes` and `large_bytes` between device and page-locked memory, and
// returns the line through both medians. Allocates `large_bytes` on both sides. InvalidArgument
// unless 0 < small_bytes < large_bytes; other errors are the device's. Thread-safe as far as the
// device is.
TIDEPOOL_EXPORT absl::StatusOr<LinkTime> MeasureLink(Device& device,
                                                     const LinkMeasurement& measurement);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_TASK_PROFILE_H_

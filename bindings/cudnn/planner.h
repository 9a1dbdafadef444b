// SPDX-License-Identifier: Apache-2.0
// The plans of all convolutions of a device.
#ifndef TIDEPOOL_BINDINGS_CUDNN_PLANNER_H_
#define TIDEPOOL_BINDINGS_CUDNN_PLANNER_H_

#include <cudnn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "bindings/cudnn/measurements.h"
#include "bindings/cudnn/options.h"
#include "bindings/cudnn/plan.h"
#include "bindings/cudnn/workspaces.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {

// Virtual algorithms are numbers from this one on, one for each kernel: a layer and a direction.
inline constexpr int kFirstVirtual = 1 << 20;
inline bool IsVirtual(int algorithm) { return algorithm >= kFirstVirtual; }

// The answer to a look-up.
struct LookedUp {
  int algorithm = 0;  // virtual
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // that the caller has to give
  bool is_deterministic = true;
  KernelTable whole = {};  // cuDNN's own algorithms for the whole batch, the fastest first
};

// Thread-safe.
class Planner {
 public:
  Planner(const Functions& functions, const Options& options, int ordinal);
  // Prints the statistics, if they are enabled. Waits for the work that uses workspaces of the
  // pool.
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Measures a convolution, unless it is known, and plans it for a workspace up to `limit_bytes`,
  // or the default limit. Returns nothing where no algorithm fits. A total is divided again for
  // each new kernel, and the time is that of the plan in its part.
  std::optional<LookedUp> LookUp(cudnnHandle_t handle, const Convolution& convolution,
                                 std::uint64_t layer, std::optional<std::int64_t> limit_bytes);
  // Returns the workspace that a caller has to give to a convolution; nothing for an unknown
  // kernel.
  std::optional<std::int64_t> WorkspaceOf(cudnnHandle_t handle, const Convolution& convolution,
                                          int algorithm);
  // Queues a convolution. BAD_PARAM for an unknown kernel or a workspace that is too small for
  // every algorithm.
  cudnnStatus_t Run(const Convolution& convolution, int algorithm, const Call& call);

  // Returns whether the plan that a kernel has within its limit takes the scales and the data of a
  // call.
  bool CanRun(const Convolution& convolution, int algorithm, const Call& call);

  // Returns the most bytes of a workspace of a program's own plan that is left as it is.
  std::int64_t MostOfOwnPlans() const { return options_.uses_pool() ? 0 : options_.limit_bytes; }
  // Counts a plan of a graph that exceeds this: taken over, or left to cuDNN.
  void CountGraph(bool is_taken) { (is_taken ? graphs_ : graphs_left_).fetch_add(1); }
  // A number that no other planner of the process has.
  std::int64_t id() const { return id_; }

  // Tells the planner that a handle has another stream, perhaps with the handle of an older one.
  void ForgetStream(cudaStream_t native);

  TidepoolCudnnStatistics Statistics() const;
  void PrintStatistics() const;
  int ordinal() const { return ordinal_; }
  bool prints_errors() const { return options_.errors; }
  // Forgets the pool of workspaces if the device was reset: its memory is gone.
  void ForgetMemoryAfterReset();

 private:
  // A convolution that was measured.
  struct Shape {
    Convolution convolution;
    std::vector<KernelConfiguration> front;    // by ascending workspace
    std::vector<std::unique_ptr<Plan>> plans;  // by point of the front; null: not made yet
    KernelTable whole;
  };
  struct Kernel {
    Shape* shape = nullptr;
    std::uint64_t layer = 0;
    std::int64_t granted_bytes = 0;  // of workspace
    // kDivision: its part of the total.
    void* segment = nullptr;
    std::int64_t segment_bytes = 0;
    Stream segment_stream;
  };
  using Point = std::optional<std::size_t>;

  Shape& ShapeOf(cudnnHandle_t handle, const Convolution& convolution, std::int64_t limit_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  KernelTable TableOf(cudnnHandle_t handle, const Convolution& convolution,
                      std::int64_t limit_bytes, std::vector<std::int64_t>& sizes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t KernelOf(Shape& shape, std::uint64_t layer, std::int64_t granted_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<std::size_t> FindKernel(const Shape& shape, std::uint64_t layer,
                                        std::int64_t granted_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Kernel* Find(int algorithm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Point PointWithin(const Shape& shape, std::int64_t bytes);
  const Plan* PlanAt(Shape& shape, std::size_t point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Divide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeSegment(Kernel& kernel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWorkspaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Stream> StreamOf(cudnnHandle_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void* SegmentOf(Kernel& kernel, std::int64_t bytes, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  cudnnStatus_t RunWithOwn(Kernel& kernel, Shape& shape, std::size_t point, const Call& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  cudnnStatus_t RunPlan(const Plan& plan, const Call& call, void* workspace, std::size_t bytes);
  void Tell(const std::string& text) const;

  Convolution Sourced(const Convolution& convolution) const;
  Shape& RunnableShape(Shape& shape, std::int64_t most_bytes, const Call& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Functions& functions_;
  const Options options_;
  const int ordinal_;
  const std::int64_t id_;
  mutable locks::Mutex mutex_;
  Measurements measurements_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Convolution, std::unique_ptr<Shape>> shapes_ ABSL_GUARDED_BY(mutex_);
  std::deque<Kernel> kernels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Shape*, std::size_t> last_given_ ABSL_GUARDED_BY(mutex_);
  bool has_run_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Workspaces> workspaces_ ABSL_GUARDED_BY(mutex_);
  bool has_no_workspaces_ ABSL_GUARDED_BY(mutex_) = false;  // taking the memory failed
  absl::flat_hash_map<cudaStream_t, Stream> streams_ ABSL_GUARDED_BY(mutex_);

  std::atomic<std::int64_t> convolutions_ = 0;
  std::atomic<std::int64_t> divided_ = 0;
  std::atomic<std::int64_t> fallbacks_ = 0;
  std::atomic<std::int64_t> changed_ = 0;
  std::atomic<std::int64_t> solves_ = 0;
  std::atomic<std::int64_t> graphs_ = 0;
  std::atomic<std::int64_t> graphs_left_ = 0;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_PLANNER_H_

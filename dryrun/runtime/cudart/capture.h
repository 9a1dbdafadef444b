// SPDX-License-Identifier: Apache-2.0
// Stream capture: work that streams are given becomes the nodes of a graph, and is not queued.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_CAPTURE_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_CAPTURE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

class Runtime;
class StandInDevice;
struct StreamRef;

struct GraphNode {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<cudaError_t(Runtime&, const StreamRef&)> queue;
  std::vector<GraphNode*> dependencies;
};

// A graph, executable as it is. A launch queues the nodes in the order in which they were captured.
struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

// The nodes that the next work of a captured stream depends on.
using Frontier = std::set<GraphNode*>;

// One capture, from its beginning until its end. A stream joins it when it waits for a captured
// event. Captures guards its fields.
struct Capture {
  using StreamName = std::pair<const StandInDevice*, std::uint64_t>;

  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  StreamName origin;
  bool has_blocking_stream = false;
  bool is_valid = true;
  bool has_ended = false;
  std::uintptr_t handle = 0;  // of the graph
  std::shared_ptr<Graph> graph;
  std::map<StreamName, Frontier> streams;
};

// A recording of an event in a capture.
struct CapturedRecord {
  std::shared_ptr<Capture> capture;
  Frontier frontier;
};

// All captures. Thread-safe. Functions that return an optional error return nothing if the call has
// to do with no capture.
class Captures {
 public:
  using Work = std::function<cudaError_t(Runtime&, const StreamRef&)>;

  cudaError_t Begin(Runtime& runtime, const StreamRef& stream, cudaStreamCaptureMode mode);
  cudaError_t End(Runtime& runtime, const StreamRef& stream, cudaGraph_t* graph);

  // Captures work of the stream.
  std::optional<cudaError_t> Add(const StreamRef& stream, cudaGraphNodeType type, Work work);
  // Returns the recording of an event in the stream's capture, or null.
  std::shared_ptr<CapturedRecord> Record(const StreamRef& stream);
  // Lets the stream wait for an event that was last recorded in a capture, or outside of all
  // captures (null).
  std::optional<cudaError_t> Wait(const StreamRef& stream, const CapturedRecord* event);

  // Refuse calls that no capture survives: a query of a captured stream or event, work in the
  // legacy stream during a capture of a blocking stream, and calls that may wait.
  cudaError_t RefuseQuery(const StreamRef& stream);
  cudaError_t RefuseQuery(const CapturedRecord& event);
  cudaError_t RefuseLegacy(const StreamRef& stream);
  // Returns whether RefuseLegacy would refuse nothing.
  bool MayUse(const StreamRef& stream);
  cudaError_t RefuseUnsafe();
  // Refuses a call on all streams of a device during captures, which do not survive it.
  cudaError_t RefuseContext(const StandInDevice& device);

  // Ends the capture that began on a stream, which is destroyed.
  void Abandon(Runtime& runtime, const StreamRef& stream);
  cudaStreamCaptureStatus StatusOf(const StreamRef& stream);
  // Returns the stream's capture, or null.
  std::shared_ptr<Capture> Find(const StreamRef& stream);
  void Clear();

 private:
  // Returns the captures that do not survive work of the stream.
  std::vector<std::shared_ptr<Capture>> EndedByWorkOf(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Capture> Locked(const StreamRef& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  locks::Mutex mutex_;
  std::atomic<int> count_ = 0;  // lets calls without captures pass without the lock
  std::vector<std::shared_ptr<Capture>> active_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_CAPTURE_H_

// SPDX-License-Identifier: Apache-2.0
// Stream capture, and graphs that were captured. A launch queues their work again, one node after
// the other.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/versioned.h"

namespace tidepool::cudart_host {
namespace {

template <typename Handle>
std::uintptr_t NumberOf(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

cudaGraphNode_t HandleOf(GraphNode* node) { return reinterpret_cast<cudaGraphNode_t>(node); }

// Calls `body` with a graph, if it exists.
template <typename Body>
cudaError_t CallWithGraph(const char* function, cudaGraph_t handle, Body body) {
  return Call(function, Needs::kDevice, [&](Runtime& runtime) -> cudaError_t {
    const auto graph = runtime.graphs.Find(NumberOf(handle));
    return graph.has_value() ? body(runtime, *graph) : cudaErrorInvalidValue;
  });
}

// Stores as many nodes as the array has room for. Without an array, stores their number.
template <typename Nodes>
cudaError_t StoreNodes(const Nodes& nodes, cudaGraphNode_t* array, std::size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (array == nullptr) {
    *count = nodes.size();
    return cudaSuccess;
  }
  const std::size_t stored = std::min(*count, nodes.size());
  for (std::size_t i = 0; i < *count; ++i) {
    array[i] = i < stored ? HandleOf(&*nodes[i]) : nullptr;
  }
  *count = stored;
  return cudaSuccess;
}

GraphNode* FindNode(Runtime& runtime, cudaGraphNode_t handle) {
  GraphNode* found = nullptr;
  runtime.graphs.ForEach([&](const std::shared_ptr<Graph>& graph) {
    for (const auto& node : graph->nodes) {
      if (HandleOf(node.get()) == handle) found = node.get();
    }
  });
  return found;
}

cudaError_t Instantiate(const char* function, cudaGraphExec_t* exec, cudaGraph_t handle) {
  return CallWithGraph(function, handle,
                       [&](Runtime& runtime, const std::shared_ptr<Graph>& graph) {
                         if (exec == nullptr) return cudaErrorInvalidValue;
                         *exec = reinterpret_cast<cudaGraphExec_t>(runtime.graph_execs.Add(graph));
                         return cudaSuccess;
                       });
}

// On the clock of events a node begins when those end that it depends on.
cudaError_t QueueAgain(Runtime& runtime, const StreamRef& stream, const Graph& graph) {
  DeviceClock& clock = stream.device->clock();
  const std::int64_t begin =
      stream.of_node != nullptr ? *stream.of_node : clock.EndOf(stream.stream.id, stream.kind);
  std::int64_t last = begin;
  absl::flat_hash_map<const GraphNode*, std::int64_t> ends;
  for (const auto& node : graph.nodes) {
    std::int64_t end = begin;
    for (const GraphNode* dependency : node->dependencies) end = std::max(end, ends[dependency]);
    StreamRef on = stream;
    on.of_node = &end;
    const cudaError_t error = node->queue(runtime, on);
    if (error != cudaSuccess) return error;
    ends[node.get()] = end;
    last = std::max(last, end);
  }
  if (stream.of_node != nullptr) {
    *stream.of_node = last;
  } else {
    clock.Wait(stream.stream.id, stream.kind, last);
  }
  return cudaSuccess;
}

cudaError_t Launch(const char* function, cudaGraphExec_t exec, cudaStream_t handle) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const auto graph = runtime.graph_execs.Find(NumberOf(exec));
    if (!graph.has_value()) return cudaErrorInvalidValue;
    const auto queue = [graph = *graph](Runtime& again, const StreamRef& on) {
      return QueueAgain(again, on, *graph);
    };
    const auto captured = runtime.captures.Add(stream, cudaGraphNodeTypeGraph, queue);
    return captured.has_value() ? *captured : queue(runtime, stream);
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    return runtime.captures.Begin(runtime, stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    return runtime.captures.End(runtime, stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return AskForCapture(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (status == nullptr) return cudaErrorInvalidValue;
    *status = runtime.captures.StatusOf(stream);
    return runtime.captures.MayUse(stream) ? cudaSuccess : cudaErrorStreamCaptureImplicit;
  });
}

cudaError_t cudartHostStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                           unsigned long long* id, cudaGraph_t* graph,
                                           const cudaGraphNode_t** dependencies,
                                           const cudaGraphEdgeData** edges, size_t* count) {
  return CallOnStream(
      "cudaStreamGetCaptureInfo", handle, [&](Runtime& runtime, const StreamRef& stream) {
        if (status == nullptr) return cudaErrorInvalidValue;
        *status = runtime.captures.StatusOf(stream);
        const std::shared_ptr<CapturedRecord> captured = runtime.captures.Record(stream);
        if (captured == nullptr) return cudaSuccess;
        // CUDA keeps the array until the next call on the stream; here, the thread keeps it.
        thread_local std::vector<cudaGraphNode_t> nodes;
        nodes.clear();
        for (GraphNode* node : captured->frontier) nodes.push_back(HandleOf(node));
        if (id != nullptr) *id = captured->capture->id;
        if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(captured->capture->handle);
        if (dependencies != nullptr) *dependencies = nodes.data();
        if (edges != nullptr) *edges = nullptr;
        if (count != nullptr) *count = nodes.size();
        return cudaSuccess;
      });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call(__func__, Needs::kDevice, [&](Runtime&) {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    std::swap(*mode, ThisThread().capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  return Instantiate(__func__, exec, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return Instantiate(__func__, exec, graph);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef&) {
    return runtime.graph_execs.Find(NumberOf(exec)).has_value() ? cudaSuccess
                                                                : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Launch(__func__, exec, stream);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  return CallWithGraph(__func__, handle, [&](Runtime&, const std::shared_ptr<Graph>& graph) {
    return StoreNodes(graph->nodes, nodes, count);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    const GraphNode* const node = FindNode(runtime, handle);
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    *type = node->type;
    return cudaSuccess;
  });
}

cudaError_t cudartHostGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t* nodes,
                                               cudaGraphEdgeData* edges, size_t* count) {
  return Call("cudaGraphNodeGetDependencies", Needs::kDevice, [&](Runtime& runtime) {
    const GraphNode* const node = FindNode(runtime, handle);
    if (node == nullptr) return cudaErrorInvalidValue;
    const cudaError_t error = StoreNodes(node->dependencies, nodes, count);
    if (error == cudaSuccess && nodes != nullptr && edges != nullptr) {
      std::fill_n(edges, *count, cudaGraphEdgeData{});
    }
    return error;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    return runtime.graphs.Remove(NumberOf(graph)).has_value() ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    return runtime.graph_execs.Remove(NumberOf(exec)).has_value() ? cudaSuccess
                                                                  : cudaErrorInvalidValue;
  });
}

}  // extern "C"

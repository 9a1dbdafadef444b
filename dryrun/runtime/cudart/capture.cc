// SPDX-License-Identifier: Apache-2.0
// Follows CUDA's rules of capture, as the documentation of cudaStreamBeginCapture and
// cudaThreadExchangeStreamCaptureMode gives them.
#include "dryrun/runtime/cudart/capture.h"

#include <algorithm>
#include <iterator>

#include "dryrun/runtime/cudart/runtime.h"

namespace tidepool::cudart_host {
namespace {

Capture::StreamName NameOf(const StreamRef& stream) {
  return {stream.device.get(), stream.stream.id};
}

cudaError_t Invalidate(Capture& capture, cudaError_t error) {
  capture.is_valid = false;
  return error;
}

void AddWithAncestors(GraphNode* node, Frontier& found) {
  if (!found.insert(node).second) return;
  for (GraphNode* dependency : node->dependencies) AddWithAncestors(dependency, found);
}

// Returns whether the stream that began the capture depends on all captured work.
bool IsJoined(const Capture& capture) {
  Frontier reached;
  for (GraphNode* node : capture.streams.at(capture.origin)) AddWithAncestors(node, reached);
  return reached.size() == capture.graph->nodes.size();
}

bool Prohibits(const Capture& capture) {
  if (capture.mode == cudaStreamCaptureModeRelaxed) return false;
  return capture.mode == cudaStreamCaptureModeGlobal ||
         capture.thread == std::this_thread::get_id();
}

}  // namespace

std::shared_ptr<Capture> Captures::Locked(const StreamRef& stream) {
  const auto found = std::find_if(active_.begin(), active_.end(), [&](const auto& capture) {
    return capture->streams.contains(NameOf(stream));
  });
  return found == active_.end() ? nullptr : *found;
}

cudaError_t Captures::Begin(Runtime& runtime, const StreamRef& stream, cudaStreamCaptureMode mode) {
  if (stream.kind == StreamKind::kLegacy) return cudaErrorStreamCaptureUnsupported;
  const locks::MutexLock lock(&mutex_);
  if (Locked(stream) != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id_;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = NameOf(stream);
  capture->has_blocking_stream = stream.kind == StreamKind::kBlocking;
  capture->graph = std::make_shared<Graph>();
  capture->handle = runtime.graphs.Add(capture->graph);
  capture->streams[capture->origin];
  active_.push_back(std::move(capture));
  ++count_;
  return cudaSuccess;
}

cudaError_t Captures::End(Runtime& runtime, const StreamRef& stream, cudaGraph_t* graph) {
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> capture = Locked(stream);
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != NameOf(stream)) {
    return Invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  std::erase(active_, capture);
  --count_;
  capture->has_ended = true;
  *graph = nullptr;
  cudaError_t error = cudaSuccess;
  if (!capture->is_valid) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (!IsJoined(*capture)) {
    error = cudaErrorStreamCaptureUnjoined;
  } else {
    *graph = reinterpret_cast<cudaGraph_t>(capture->handle);
  }
  if (error != cudaSuccess) runtime.graphs.Remove(capture->handle);
  return error;
}

std::optional<cudaError_t> Captures::Add(const StreamRef& stream, cudaGraphNodeType type,
                                         Work work) {
  if (count_ == 0) return std::nullopt;
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> capture = Locked(stream);
  if (capture == nullptr) return std::nullopt;
  if (!capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  Frontier& frontier = capture->streams[NameOf(stream)];
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  node->queue = std::move(work);
  node->dependencies.assign(frontier.begin(), frontier.end());
  frontier = {node.get()};
  capture->graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

std::shared_ptr<CapturedRecord> Captures::Record(const StreamRef& stream) {
  if (count_ == 0) return nullptr;
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> capture = Locked(stream);
  if (capture == nullptr) return nullptr;
  return std::make_shared<CapturedRecord>(
      CapturedRecord{capture, capture->streams[NameOf(stream)]});
}

std::optional<cudaError_t> Captures::Wait(const StreamRef& stream, const CapturedRecord* event) {
  if (count_ == 0 && event == nullptr) return std::nullopt;
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> own = Locked(stream);
  if (own != nullptr && !own->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (event == nullptr || event->capture->has_ended) {
    if (own != nullptr) return Invalidate(*own, cudaErrorStreamCaptureIsolation);
    return event == nullptr ? std::nullopt : std::optional(cudaErrorCapturedEvent);
  }
  Capture& its = *event->capture;
  if (own != nullptr && own != event->capture) {
    Invalidate(*own, cudaSuccess);
    return Invalidate(its, cudaErrorStreamCaptureMerge);
  }
  if (stream.kind == StreamKind::kLegacy) return Invalidate(its, cudaErrorStreamCaptureImplicit);
  its.has_blocking_stream |= stream.kind == StreamKind::kBlocking;
  its.streams[NameOf(stream)].insert(event->frontier.begin(), event->frontier.end());
  return cudaSuccess;
}

cudaError_t Captures::RefuseQuery(const StreamRef& stream) {
  if (count_ == 0) return cudaSuccess;
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> capture = Locked(stream);
  return capture == nullptr ? cudaSuccess : Invalidate(*capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t Captures::RefuseQuery(const CapturedRecord& event) {
  const locks::MutexLock lock(&mutex_);
  return Invalidate(*event.capture, cudaErrorCapturedEvent);
}

cudaError_t Captures::RefuseLegacy(const StreamRef& stream) {
  if (count_ == 0) return cudaSuccess;
  const locks::MutexLock lock(&mutex_);
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : EndedByWorkOf(stream)) {
    error = Invalidate(*capture, cudaErrorStreamCaptureImplicit);
  }
  return error;
}

bool Captures::MayUse(const StreamRef& stream) {
  if (count_ == 0) return true;
  const locks::MutexLock lock(&mutex_);
  return EndedByWorkOf(stream).empty();
}

std::vector<std::shared_ptr<Capture>> Captures::EndedByWorkOf(const StreamRef& stream) {
  std::vector<std::shared_ptr<Capture>> captures;
  if (stream.kind != StreamKind::kLegacy) return captures;
  std::copy_if(active_.begin(), active_.end(), std::back_inserter(captures), [&](const auto& it) {
    return it->has_blocking_stream && it->origin.first == stream.device.get();
  });
  return captures;
}

cudaError_t Captures::RefuseUnsafe() {
  if (count_ == 0 || ThisThread().capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const locks::MutexLock lock(&mutex_);
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : active_) {
    if (Prohibits(*capture)) error = Invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t Captures::RefuseContext(const StandInDevice& device) {
  if (count_ == 0) return cudaSuccess;
  const locks::MutexLock lock(&mutex_);
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : active_) {
    if (capture->origin.first != &device) continue;
    error = Invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

void Captures::Abandon(Runtime& runtime, const StreamRef& stream) {
  if (count_ == 0) return;
  const locks::MutexLock lock(&mutex_);
  const std::shared_ptr<Capture> capture = Locked(stream);
  if (capture == nullptr || capture->origin != NameOf(stream)) return;
  std::erase(active_, capture);
  --count_;
  capture->has_ended = true;
  runtime.graphs.Remove(capture->handle);
}

cudaStreamCaptureStatus Captures::StatusOf(const StreamRef& stream) {
  const std::shared_ptr<Capture> capture = Find(stream);
  if (capture == nullptr) return cudaStreamCaptureStatusNone;
  const locks::MutexLock lock(&mutex_);
  return capture->is_valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

std::shared_ptr<Capture> Captures::Find(const StreamRef& stream) {
  if (count_ == 0) return nullptr;
  const locks::MutexLock lock(&mutex_);
  return Locked(stream);
}

void Captures::Clear() {
  const locks::MutexLock lock(&mutex_);
  active_.clear();
  count_ = 0;
}

}  // namespace tidepool::cudart_host

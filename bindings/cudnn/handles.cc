// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/handles.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <utility>

#include "bindings/support/cuda_end.h"

namespace tidepool::cudnn {

Handles& Handles::Get() {
  static auto* const handles = new Handles();
  return *handles;
}

Handles::Handles() : options_(ReadOptions()) { std::atexit(PrintAtExit); }

// Programs often end with live handles.
void Handles::PrintAtExit() {
  Handles& handles = Get();
  const locks::MutexLock lock(&handles.mutex_);
  for (const auto& [ordinal, its] : handles.planners_) {
    if (its.planner != nullptr) its.planner->PrintStatistics();
  }
}

void Handles::Add(const Functions& functions, cudnnHandle_t handle) {
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const locks::MutexLock lock(&mutex_);
  HandleState* state = table_.Find(handle);
  if (state != nullptr && state->planner.load() != nullptr) return;
  DevicePlanner& its = planners_[ordinal];
  if (its.planner == nullptr) its.planner = std::make_unique<Planner>(functions, options_, ordinal);
  ++its.handles;
  if (state == nullptr) {
    states_.push_back(std::make_unique<HandleState>());
    state = states_.back().get();
    state->planner.store(its.planner.get(), std::memory_order_release);
    table_.Add(handle, state);
  } else {
    state->planner.store(its.planner.get(), std::memory_order_release);
  }
}

void Handles::Remove(cudnnHandle_t handle) {
  std::unique_ptr<Planner> last;
  {
    const locks::MutexLock lock(&mutex_);
    HandleState* const state = handle == nullptr ? nullptr : table_.Find(handle);
    if (state == nullptr) return;
    const Planner* const planner = state->planner.exchange(nullptr);
    if (planner == nullptr) return;
    DevicePlanner& its = planners_[planner->ordinal()];
    if (--its.handles == 0) last = std::move(its.planner);
  }
  if (last == nullptr) return;
  if (bindings::HasCudaEnded()) {
    last->PrintStatistics();
    static_cast<void>(last.release());
    return;
  }
  last->ForgetMemoryAfterReset();
}

HandleState& Handles::Find(const Functions& functions, cudnnHandle_t handle) {
  HandleState* state = table_.Find(handle);
  if (state != nullptr) return *state;
  Add(functions, handle);
  return *table_.Find(handle);
}

bool Handles::IsAlive(cudnnHandle_t handle) const {
  const HandleState* const state = handle == nullptr ? nullptr : table_.Find(handle);
  return state != nullptr && state->planner.load(std::memory_order_acquire) != nullptr;
}

void Handles::CountGraphLeft(std::int64_t workspace_bytes) {
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const locks::MutexLock lock(&mutex_);
  const auto found = planners_.find(ordinal);
  Planner* const planner = found == planners_.end() ? nullptr : found->second.planner.get();
  if (planner != nullptr && workspace_bytes > planner->MostOfOwnPlans()) planner->CountGraph(false);
}

bool Handles::SetOption(std::string_view name, std::string_view value) {
  const locks::MutexLock lock(&mutex_);
  for (const CudnnOption& option : CudnnOptions()) {
    if (option.name != name) continue;
    Options changed = options_;
    if (!option.set(value, changed)) return false;
    options_ = std::move(changed);
    return true;
  }
  return false;
}

}  // namespace tidepool::cudnn

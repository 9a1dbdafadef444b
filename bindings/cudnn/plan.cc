// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/plan.h"

#include <algorithm>

namespace tidepool::cudnn {

TensorDescriptor WithBatch(const Functions& functions, const Convolution& convolution,
                           const Convolution::Tensor& tensor, std::int64_t batch) {
  cudnnTensorDescriptor_t raw = nullptr;
  const bool exists = functions.create_tensor(&raw) == CUDNN_STATUS_SUCCESS;
  TensorDescriptor made(exists ? raw : nullptr, functions.destroy_tensor);
  std::array<int, Convolution::kMostDimensions> sizes = tensor.sizes;
  sizes[0] = static_cast<int>(batch);
  if (exists && functions.set_tensor(raw, tensor.type, convolution.dimensions, sizes.data(),
                                     tensor.strides.data()) != CUDNN_STATUS_SUCCESS) {
    made.reset();
  }
  return made;
}

ConvolutionDescriptor WithArithmetic(const Functions& functions, const Convolution& convolution,
                                     cudnnDataType_t compute_type, cudnnMathType_t math) {
  cudnnConvolutionDescriptor_t raw = nullptr;
  const bool exists = functions.create_convolution(&raw) == CUDNN_STATUS_SUCCESS;
  ConvolutionDescriptor made(exists ? raw : nullptr, functions.destroy_convolution);
  if (!exists) return made;
  const bool is_set =
      functions.set_convolution(raw, convolution.dimensions - 2, convolution.pads.data(),
                                convolution.strides.data(), convolution.dilations.data(),
                                convolution.mode, compute_type) == CUDNN_STATUS_SUCCESS &&
      functions.set_math(raw, math) == CUDNN_STATUS_SUCCESS &&
      functions.set_groups(raw, convolution.groups) == CUDNN_STATUS_SUCCESS;
  if (!is_set) made.reset();
  return made;
}

std::unique_ptr<Plan> Plan::Make(const Functions& functions, const Convolution& convolution,
                                 const KernelConfiguration& configuration) {
  std::unique_ptr<Plan> plan(new Plan(functions, convolution, configuration));
  if (!plan->AddSteps()) return nullptr;
  return plan;
}

bool Plan::AddSteps() {
  std::int64_t first_sample = 0;
  for (const KernelPart& part : configuration_.parts) {
    Step step;
    step.first_sample = first_sample;
    step.samples = part.micro_batch;
    first_sample += part.micro_batch;
    if (IsEngine(part.algorithm)) {
      step.engine = &EngineOf(part.algorithm);
      has_engines_ = true;
      steps_.push_back(step);
      continue;
    }
    step.algorithm = Algorithm::Of(part.algorithm).number;
    if (part.micro_batch != convolution_.batch() && !AddTensors(part.micro_batch, step))
      return false;
    if (!AddArithmetic(part, step)) return false;
    steps_.push_back(step);
  }
  return true;
}

bool Plan::AddTensors(std::int64_t samples, Step& step) {
  // Parts of one size and algorithm follow each other.
  const std::size_t at = steps_.size();
  if (at > 0 && steps_.back().engine == nullptr &&
      configuration_.parts[at - 1].micro_batch == samples) {
    step.x = steps_.back().x;
    step.y = steps_.back().y;
    return true;
  }
  for (const bool is_x : {true, false}) {
    tensors_.push_back(
        WithBatch(functions_, convolution_, is_x ? convolution_.x : convolution_.y, samples));
    if (tensors_.back() == nullptr) return false;
    (is_x ? step.x : step.y) = tensors_.back().get();
  }
  return true;
}

bool Plan::AddArithmetic(const KernelPart& part, Step& step) {
  const cudnnMathType_t math = Algorithm::Of(part.algorithm).math;
  const cudnnDataType_t compute_type = ComputeTypeOf(convolution_, part.precision);
  if (math == convolution_.math && compute_type == convolution_.compute_type) return true;
  const std::size_t at = steps_.size();
  if (at > 0 && configuration_.parts[at - 1].algorithm == part.algorithm &&
      configuration_.parts[at - 1].precision == part.precision) {
    step.convolution = steps_.back().convolution;
    return true;
  }
  arithmetics_.push_back(WithArithmetic(functions_, convolution_, compute_type, math));
  step.convolution = arithmetics_.back().get();
  return step.convolution != nullptr;
}

// The first micro-batch of a filter's gradient takes the caller's beta, and the others add to it.
Scales Plan::ScalesAt(const Step& step, const Scales& scales) const {
  const bool adds = convolution_.pass == Pass::kFilter && step.first_sample > 0;
  return {scales.alpha, adds ? 1 : scales.beta};
}

ConvolutionData Plan::DataAt(const Step& step, const Call& call) const {
  ConvolutionData data = call.data;
  const auto advance = [&](char*& its, std::int64_t step_bytes) {
    if (its != nullptr) its += step.first_sample * step_bytes;
  };
  advance(data.x, convolution_.XStepBytes());
  advance(data.y, convolution_.YStepBytes());
  if (fusion_ == nullptr) return data;
  for (std::size_t i = 0; i < fusion_->tensors.size(); ++i) {
    const FusedTensor& tensor = fusion_->tensors[i];
    if (tensor.has_batch) advance(data.fused[i], Convolution::StepBytesIn(tensor.its));
  }
  return data;
}

// Steps of one size, engine and beta share a plan.
Plan::EnginePlans Plan::MakePlans(cudnnHandle_t handle, const Scales& scales) const {
  EnginePlans plans;
  plans.reserve(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.engine == nullptr) {
      plans.push_back(nullptr);
      continue;
    }
    const Scales its = ScalesAt(step, scales);
    const bool is_as_before = i > 0 && steps_[i - 1].engine == step.engine &&
                              steps_[i - 1].samples == step.samples &&
                              ScalesAt(steps_[i - 1], scales) == its;
    plans.push_back(is_as_before ? plans.back()
                                 : EnginePlan::Make(functions_, handle, convolution_, step.samples,
                                                    its, *step.engine));
    if (plans.back() == nullptr ||
        plans.back()->workspace_bytes() > configuration_.workspace_bytes) {
      return {};
    }
  }
  return plans;
}

bool Plan::IsAligned(const Call& call) const {
  const auto alignment = static_cast<std::uintptr_t>(convolution_.alignment);
  const auto is_aligned = [&](const char* data) {
    return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
  };
  return is_aligned(call.data.x) && is_aligned(call.data.w) && is_aligned(call.data.y) &&
         std::ranges::all_of(call.data.fused, is_aligned);
}

const Plan::EnginePlans* Plan::PlansFor(const Call& call) const {
  // A fused convolution has more operations than engines get here.
  if (call.epilogue != nullptr || !IsAligned(call)) return nullptr;
  const bool is_double = convolution_.x.type == CUDNN_DATA_DOUBLE;
  const auto value = [&](const void* scale) {
    return is_double ? *static_cast<const double*>(scale)
                     : static_cast<double>(*static_cast<const float*>(scale));
  };
  const Scales scales = {value(call.alpha), value(call.beta)};
  const locks::MutexLock lock(&mutex_);
  MadePlans& made = engine_plans_[scales];
  // One call of cuDNN may fail, but an engine that refuses is not asked for ever.
  constexpr int kMostRefusals = 3;
  if (made.plans.empty() && made.refusals < kMostRefusals) {
    made.plans = MakePlans(call.handle, scales);
    if (made.plans.empty()) ++made.refusals;
  }
  return made.plans.empty() ? nullptr : &made.plans;
}

bool Plan::CanRun(const Call& call) const { return !has_engines_ || PlansFor(call) != nullptr; }

cudnnStatus_t Plan::Run(const Call& call, void* workspace, std::size_t workspace_bytes) const {
  const EnginePlans* const plans = has_engines_ ? PlansFor(call) : nullptr;
  if (has_engines_ && plans == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const EnginePlan* const plan = plans == nullptr ? nullptr : (*plans)[i].get();
    const cudnnStatus_t status = plan != nullptr
                                     ? plan->Run(call.handle, DataAt(step, call), workspace)
                                     : RunStep(step, call, workspace, workspace_bytes);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Plan::RunStep(const Step& step, const Call& call, void* workspace,
                            std::size_t workspace_bytes) const {
  static constexpr float kOne = 1;
  static constexpr double kOneDouble = 1;
  const Pass pass = convolution_.pass;
  const void* const one = convolution_.x.type == CUDNN_DATA_DOUBLE
                              ? static_cast<const void*>(&kOneDouble)
                              : static_cast<const void*>(&kOne);
  Descriptors its = call.descriptors;
  if (step.x != nullptr) its.x = step.x;
  if (step.y != nullptr) its.y = step.y;
  if (step.convolution != nullptr) its.convolution = step.convolution;
  const ConvolutionData data = DataAt(step, call);
  char* const x = data.x;
  char* const w = data.w;
  char* const y = data.y;
  if (call.epilogue != nullptr) {
    const Epilogue& end = *call.epilogue;
    return functions_.run_fused(call.handle, call.alpha, its.x, x, its.w, w, its.convolution,
                                static_cast<cudnnConvolutionFwdAlgo_t>(step.algorithm), workspace,
                                workspace_bytes, end.alpha, its.y, end.z + (y - call.data.y),
                                end.bias, end.bias_data, end.activation, its.y, y);
  }
  const std::array<void*, 3> of = its.InOrder(pass);
  char* const a = pass == Pass::kData ? w : x;
  char* const b = pass == Pass::kForward ? w : y;
  char* const c = pass == Pass::kForward ? y : pass == Pass::kData ? x : w;
  const bool adds = pass == Pass::kFilter && step.first_sample > 0;
  return functions_.passes[static_cast<std::size_t>(pass)].run(
      call.handle, call.alpha, of[0], a, of[1], b, its.convolution, step.algorithm, workspace,
      workspace_bytes, adds ? one : call.beta, of[2], c);
}

bool Plan::is_deterministic() const {
  return std::all_of(
      configuration_.parts.begin(), configuration_.parts.end(), [](const KernelPart& part) {
        return IsEngine(part.algorithm) ? EngineOf(part.algorithm).is_deterministic()
                                        : Algorithm::Of(part.algorithm).is_deterministic;
      });
}

}  // namespace tidepool::cudnn

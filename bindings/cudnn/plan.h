// SPDX-License-Identifier: Apache-2.0
// A way to run a convolution: micro-batches one after the other, with the descriptors that they
// need.
#ifndef TIDEPOOL_BINDINGS_CUDNN_PLAN_H_
#define TIDEPOOL_BINDINGS_CUDNN_PLAN_H_

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/fusion.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool::cudnn {

// An algorithm of cuDNN, and the arithmetic that it was measured with.
struct Algorithm {
  int number = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool is_deterministic = true;

  // Convert to and from the numbers of kernel tables, which are less than kFirstEngine.
  std::int64_t Encoded() const {
    return number | static_cast<int>(math) << 8 | (is_deterministic ? 1 : 0) << 16;
  }
  static Algorithm Of(std::int64_t encoded) {
    return {static_cast<int>(encoded & 0xff), static_cast<cudnnMathType_t>(encoded >> 8 & 0xff),
            (encoded >> 16 & 1) != 0};
  }
};

using TensorDescriptor = std::unique_ptr<std::remove_pointer_t<cudnnTensorDescriptor_t>,
                                         cudnnStatus_t (*)(cudnnTensorDescriptor_t)>;
using ConvolutionDescriptor = std::unique_ptr<std::remove_pointer_t<cudnnConvolutionDescriptor_t>,
                                              cudnnStatus_t (*)(cudnnConvolutionDescriptor_t)>;

using FilterDescriptor = std::unique_ptr<std::remove_pointer_t<cudnnFilterDescriptor_t>,
                                         cudnnStatus_t (*)(cudnnFilterDescriptor_t)>;

// Returns the type of the arithmetic of an algorithm.
inline cudnnDataType_t ComputeTypeOf(const Convolution& convolution, KernelPrecision precision) {
  return precision == convolution.precision() ? convolution.compute_type : CUDNN_DATA_FLOAT;
}

// Make descriptors of a convolution with another batch, and with another arithmetic. Null if a call
// of cuDNN fails.
TensorDescriptor WithBatch(const Functions& functions, const Convolution& convolution,
                           const Convolution::Tensor& tensor, std::int64_t batch);
ConvolutionDescriptor WithArithmetic(const Functions& functions, const Convolution& convolution,
                                     cudnnDataType_t compute_type, cudnnMathType_t math);

// The end of a fused convolution (cudnnConvolutionBiasActivationForward). `z` has the descriptor of
// y.
struct Epilogue {
  const void* alpha = nullptr;  // of z
  const char* z = nullptr;
  cudnnTensorDescriptor_t bias = nullptr;
  const void* bias_data = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
};

// A convolution that a program asks for.
struct Call {
  cudnnHandle_t handle = nullptr;
  Descriptors descriptors = {};
  ConvolutionData data = {};
  const void* alpha = nullptr;
  const void* beta = nullptr;  // null for a fused one
  void* workspace = nullptr;   // of the caller
  std::size_t workspace_bytes = 0;
  const Epilogue* epilogue = nullptr;  // null: none
};

// Any number of threads may run it, with handles of their own.
class Plan {
 public:
  // Makes the plan of a configuration. Null if a call of cuDNN fails.
  static std::unique_ptr<Plan> Make(const Functions& functions, const Convolution& convolution,
                                    const KernelConfiguration& configuration);

  // Queues all micro-batches in the stream of the handle with this workspace, and waits for
  // nothing. The scales are those of cuDNN. The first micro-batch of a filter's gradient takes the
  // caller's beta, and the others add to it. Returns the first error; then part of the output is
  // undefined.
  // NOT_SUPPORTED, and nothing queued, where CanRun is false.
  cudnnStatus_t Run(const Call& call, void* workspace, std::size_t workspace_bytes) const;

  // Returns whether all engines of the plan take the scales and the data of a call. Makes their
  // plans, which are kept for later calls with these scales.
  bool CanRun(const Call& call) const;

  double seconds() const { return configuration_.seconds; }
  std::int64_t workspace_bytes() const { return configuration_.workspace_bytes; }
  bool is_divided() const { return configuration_.parts.size() > 1; }
  bool is_deterministic() const;
  const KernelConfiguration& configuration() const { return configuration_; }

 private:
  struct Step {
    int algorithm = 0;
    const Engine* engine = nullptr;  // runs in the place of an algorithm
    std::int64_t first_sample = 0;
    std::int64_t samples = 0;
    // Null: the caller's own descriptors.
    cudnnTensorDescriptor_t x = nullptr;
    cudnnTensorDescriptor_t y = nullptr;
    cudnnConvolutionDescriptor_t convolution = nullptr;
  };

  Plan(const Functions& functions, const Convolution& convolution,
       const KernelConfiguration& configuration)
      : functions_(functions),
        convolution_(convolution),
        configuration_(configuration),
        fusion_(FusionOf(convolution.fusion)) {}

  // The plans of engines by step, null for an algorithm.
  using EnginePlans = std::vector<std::shared_ptr<const EnginePlan>>;
  struct MadePlans {
    EnginePlans plans;  // empty: an engine refused
    int refusals = 0;
  };

  // Returns the engines' plans for a call; null where an engine refuses.
  const EnginePlans* PlansFor(const Call& call) const;
  EnginePlans MakePlans(cudnnHandle_t handle, const Scales& scales) const;
  Scales ScalesAt(const Step& step, const Scales& scales) const;
  ConvolutionData DataAt(const Step& step, const Call& call) const;
  bool IsAligned(const Call& call) const;
  cudnnStatus_t RunStep(const Step& step, const Call& call, void* workspace,
                        std::size_t workspace_bytes) const;
  bool AddSteps();
  bool AddTensors(std::int64_t samples, Step& step);
  bool AddArithmetic(const KernelPart& part, Step& step);

  const Functions& functions_;
  const Convolution convolution_;
  const KernelConfiguration configuration_;
  const Fusion* const fusion_;  // null: none
  std::vector<Step> steps_;
  std::vector<TensorDescriptor> tensors_;
  std::vector<ConvolutionDescriptor> arithmetics_;
  bool has_engines_ = false;
  mutable locks::Mutex mutex_;
  mutable std::map<Scales, MadePlans> engine_plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_PLAN_H_

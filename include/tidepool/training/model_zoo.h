// SPDX-License-Identifier: Apache-2.0
// Task graphs of known networks, from the shapes of their layers.
#ifndef TIDEPOOL_TRAINING_MODEL_ZOO_H_
#define TIDEPOOL_TRAINING_MODEL_ZOO_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool {

// The rates of a GPU by its data sheet. The time of a task follows from them:
// seconds = max(operations / (flops_per_second x efficiency), bytes / bytes_per_second) +
// launch_seconds.
// The efficiency depends on the algorithm: 0.4 for implicit-gemm, 0.5 for precomputed-gemm, 0.25
// for winograd and fft (which do fewer operations), 0.8 for other matrix products.
// lib/training/models/cost_model.h, lib/training/models/gpus.cc and the table of GPUs that it
// includes give the sources of these numbers; the first defines an operation. ReadTimes replaces
// the computed times by measured ones.
struct GpuRates {
  std::string name;
  double flops_per_second = 0;  // single precision, matrix units included
  double bytes_per_second = 0;
  double launch_seconds = 0;
  // The link to the host, in each direction: its rate, 0 if unknown, and its name for people.
  double link_bytes_per_second = 0;
  std::string link = {};
  // Operations a second on float16 and bfloat16 numbers; 0: no faster than single precision.
  double float16_flops_per_second = 0;
  double bfloat16_flops_per_second = 0;
  bool has_tensor_float32 = false;  // the rate of single precision is that of TF32
  // The name that the driver gives, and the total that PyTorch prints in its errors; 0: unknown.
  std::string title = {};
  std::int64_t memory_bytes = 0;
  // The memory is that of the host, as CUDA's property `integrated` says: data that moves to the
  // host leaves no room.
  bool is_integrated = false;
};
// Returns the known GPUs: "gtx-750-ti", "gtx-970", "gtx-1080-ti", "titan-x", "k20xm", "k40", "k80"
// (one of the board's two GPUs), "p100" and "a100", and those with a known memory: "t4", "v100",
// "v100-32", "a10g", "a100-40", "a100-80", "l4", "l40s", "h100-pcie", "h100", "h200", "b200",
// "b300", "gb200", "gb300", "gb10", "agx-thor", "agx-orin-64", "rtx-3090", "rtx-4090", "rtx-5090"
// and "rtx-pro-6000".
TIDEPOOL_EXPORT absl::Span<const GpuRates> KnownGpus();
// Reads the rates of a GPU from a JSON file of at most 64 KiB (docs/formats/gpu.md). Errors are
// InvalidArgument with `FILE:LINE: fault, expectation`. Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<GpuRates> ReadGpu(const std::filesystem::path& path);

// The tasks of a layer's backward pass: one, or one for the gradients of data and one for those of
// weights, where the layer has both. Normalisations compute both kinds in one pass over the data,
// and so they always have one task.
enum class BackwardTasks : std::uint8_t { kFused, kSplit };
// The memory of weights' gradients. Resident ones have memory before and after an iteration, as
// weights have, and all updates come at the end. Temporary ones are made by the backward pass of a
// layer, which the update follows at once.
enum class WeightGradients : std::uint8_t { kResident, kTemporary };

// The rule of updates. Besides the weight and its gradient they need nothing, the momentum, or
// Adam's two moments (Kingma and Ba, arXiv:1412.6980).
enum class Optimizer : std::uint8_t { kGradientDescent, kMomentum, kAdam };
// The type of data, weights and gradients. With 16 bits an update changes a float32 copy of each
// weight, and the optimizer's state is float32 (Micikevicius et al., arXiv:1710.03740). Statistics
// of normalisations are float32, and tokens and labels are int32.
enum class Precision : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

struct ModelOptions {
  std::int64_t batch = 0;  // 1 to 2^20
  // Pixels of a side, or tokens of a sequence, up to 2^16. 0: the usual size of the network.
  std::int64_t image = 0;
  std::string gpu = "h200";
  // Rates in the place of those of a known GPU: `gpu` is not used then. All are more than 0 and
  // finite, except that the launch may take no time and the link may be unknown.
  std::optional<GpuRates> rates = std::nullopt;
  // Batch normalisation keeps one tensor instead of its input and its output: its input is computed
  // again from its output, or it is fused with the convolution. Sums of residual blocks are then
  // new tensors; without this option they are computed in place, unless `separate_sums` is true.
  bool fused_batch_normalization = false;
  // Sums of residual blocks are new tensors in any case, and both operands have gradients of their
  // own, as moDNN counts them (Chen et al., DATE 2018).
  bool separate_sums = false;
  // Attention is one task that keeps no scores, but a float32 for each query and head, from which
  // the backward task computes them again (FlashAttention, Dao et al., arXiv:2205.14135). Without
  // this option scores are a tensor of tokens x tokens for each head.
  bool fused_attention = true;
  BackwardTasks backward = BackwardTasks::kSplit;
  WeightGradients weight_gradients = WeightGradients::kResident;
  // The gradient of the first layer's input is computed too, although training does not need it.
  // Papers that count three kernels for each convolution do that: 159 for ResNet-50. The tokens of
  // a language model have no gradient. Only with kSplit.
  bool input_gradient = false;
  Optimizer optimizer = Optimizer::kGradientDescent;
  Precision precision = Precision::kFloat32;
  // Labels, an int32 for each prediction of the loss, are data too.
  bool labels = true;
  // The home of inputs and labels before an iteration, and that of weights, optimizer state and
  // resident gradients of weights: kDevice or kHost.
  DataHome inputs = DataHome::kHost;
  DataHome weights = DataHome::kDevice;
};

// All functions are thread-safe. Case, '-' and '_' in names of models and GPUs do not matter.

// In the order of the table in docs/guide/models.md.
TIDEPOOL_EXPORT std::vector<std::string> KnownModels();
// Returns a valid graph of one iteration: the forward pass, the backward pass, and the updates of
// weights. An update divides the sum of gradients by the whole batch, so sums of sub-batches give
// the same update. The graph names the GPU and its link. InvalidArgument, with the known names, for
// an unknown model or GPU; for options and rates out of range, with the layer that an image is too
// small for; and for tensors beyond the limits of ValidateGraph.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> MakeModel(std::string_view name,
                                                    const ModelOptions& options);
// Returns the family of MakeModel's graphs at any batch; `options.batch` is not used. The zoo's
// costs are its cost model, and the table has `batches`, in ascending order. Errors are those of
// MakeModel at these batches.
TIDEPOOL_EXPORT absl::StatusOr<GraphFamily> MakeModelFamily(std::string_view name,
                                                            const ModelOptions& options,
                                                            absl::Span<const std::int64_t> batches);
// Returns the number of learned weights of a model. For some models it depends on the image.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> ModelParameters(std::string_view name,
                                                             std::int64_t image = 0);
// Returns the usual image size of the model, or its usual number of tokens.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> ModelImage(std::string_view name);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_MODEL_ZOO_H_

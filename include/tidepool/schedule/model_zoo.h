// Task graphs of known networks, from the shapes of their layers.
#ifndef TIDEPOOL_SCHEDULE_MODEL_ZOO_H_
#define TIDEPOOL_SCHEDULE_MODEL_ZOO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/schedule/graph.h"

namespace tidepool {

// What a GPU reaches by its data sheet. Times of tasks follow from it:
//   seconds = max(operations / (flops_per_second x efficiency), bytes / bytes_per_second)
//             + launch_seconds
// where the efficiency is that of the algorithm: 0.4 for implicit-gemm, 0.5 for precomputed-gemm,
// 0.25 for winograd and fft (of fewer operations), 0.8 for other matrix products. Where these come
// from and what counts as an operation is said in lib/models/cost_model.h; measured times take
// their place by ReadTimes.
struct GpuRates {
  std::string_view name;
  double flops_per_second = 0;  // single precision, or what the matrix units do of it
  double bytes_per_second = 0;
  double launch_seconds = 0;
};
// "gtx-970", "gtx-1080-ti", "titan-x", "k40", "p100", "v100", "a100", "h100", "h200".
TIDEPOOL_EXPORT absl::Span<const GpuRates> KnownGpus();

struct ModelOptions {
  std::int64_t batch = 0;  // 1 to 2^20
  // Pixels of a side, or tokens of a sequence, up to 2^16. 0: what the network is known for.
  std::int64_t image = 0;
  std::string gpu = "h200";
  // Batch normalisation that keeps one tensor (it is computed again from its output, or fused with
  // the convolution) instead of its input and its output. Sums of residual blocks are new tensors
  // then, and without it in place.
  bool fused_batch_normalization = false;
};

// All functions are thread-safe. Case, '-' and '_' in names of models and GPUs do not matter.

// In the order of the README's table.
TIDEPOOL_EXPORT std::vector<std::string> KnownModels();
// A valid graph of one iteration: the forward pass, the backward pass, and plain gradient descent,
// each weight's gradient being temporary. Tensors are float32; the labels are left out. The input
// has no gradient.
// InvalidArgument, with what is known, for an unknown model or GPU; for options out of range, with
// the layer that an image is too small for; and for tensors beyond what ValidateGraph allows.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> MakeModel(std::string_view name,
                                                    const ModelOptions& options);
// The weights of a model that are learned, in words. For some models they depend on the image.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> ModelParameters(std::string_view name,
                                                             std::int64_t image = 0);
// The image, or the tokens, that the model is known for.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> ModelImage(std::string_view name);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_MODEL_ZOO_H_

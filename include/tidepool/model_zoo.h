// Task graphs of known networks, from the shapes of their layers.
#ifndef TIDEPOOL_MODEL_ZOO_H_
#define TIDEPOOL_MODEL_ZOO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/graph.h"

namespace tidepool {

// What a GPU reaches in training kernels, of its data sheet. Times of tasks follow from it:
//   seconds = max(operations / flops_per_second, bytes / bytes_per_second) + launch_seconds
struct GpuRates {
  std::string_view name;
  double flops_per_second = 0;  // single precision, or what the matrix units do of it
  double bytes_per_second = 0;
  double launch_seconds = 0;
};
// "gtx-970", "gtx-1080-ti", "titan-x", "v100", "a100", "h100", "h200".
TIDEPOOL_EXPORT absl::Span<const GpuRates> KnownGpus();

struct ModelOptions {
  std::int64_t batch = 0;  // 1 to 2^20
  // Pixels of a side, or tokens of a sequence. 0: what the network is known for.
  std::int64_t image = 0;
  std::string gpu = "h200";
  // Batch normalisation that keeps one tensor (it is computed again from its output, or fused with
  // the convolution) instead of its input and its output.
  bool fused_batch_normalization = false;
};

// In the order of the README's table.
TIDEPOOL_EXPORT std::vector<std::string> KnownModels();
// InvalidArgument, with what is known, for an unknown model or GPU, and for options out of range.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> MakeModel(std::string_view name,
                                                    const ModelOptions& options);
// The weights of a model that are learned, in words.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> ModelParameters(std::string_view name);

}  // namespace tidepool

#endif  // TIDEPOOL_MODEL_ZOO_H_

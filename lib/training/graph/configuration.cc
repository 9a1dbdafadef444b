// SPDX-License-Identifier: Apache-2.0
// Makes configurations (Oyama et al., micro-cuDNN, CLUSTER 2018): micro-batches run in sequence, in
// one workspace.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph.h"

namespace tidepool {

absl::StatusOr<TaskAlgorithm> MakeConfiguration(std::string name,
                                                const std::vector<TaskAlgorithm>& algorithms,
                                                const std::vector<std::int64_t>& samples) {
  if (algorithms.empty() || algorithms.size() != samples.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a configuration of ", algorithms.size(), " algorithms and ", samples.size(),
                     " micro-batches, expected as many of both, and at least one"));
  }
  TaskAlgorithm configuration{.name = std::move(name)};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("a micro-batch of ", samples[i], " samples, expected 1 or more"));
    }
    configuration.seconds += algorithms[i].seconds;
    configuration.workspace_bytes =
        std::max(configuration.workspace_bytes, algorithms[i].workspace_bytes);
    configuration.micro_batches.push_back({algorithms[i].name, samples[i]});
  }
  return configuration;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// The CTC loss. NVIDIA does not publish its workspace; here it has 32-bit numbers for the
// probabilities and for both recursions of Graves et al. (ICML 2006), over the labels and the
// blanks around them.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dryrun/cudnn/descriptors.h"
#include "dryrun/libraries/answers.h"

namespace {

struct Loss {
  int most_labels = 0;
};

// Probabilities have the sizes times, batch, labels.
cudnnStatus_t StoreWorkspace(cudnnTensorDescriptor_t probabilities, std::int64_t labels,
                             std::size_t* bytes) {
  const auto& sizes = probabilities->sizes;
  const std::int64_t states = 2 * labels + 1;
  *bytes =
      static_cast<std::size_t>(std::int64_t{4} * sizes[0] * sizes[1] * (2 * states + sizes[2]));
  return CUDNN_STATUS_SUCCESS;
}

int SetMost(void* loss, int labels) {
  static_cast<Loss*>(loss)->most_labels = labels;
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER int cudnnCreateCTCLossDescriptor(void** made) {
  return tidepool::cudart_host::MakeObject<Loss>(made);
}
TIDEPOOL_ANSWER int cudnnDestroyCTCLossDescriptor(void* loss) {
  return tidepool::cudart_host::DeleteObject<Loss>(loss);
}
TIDEPOOL_ANSWER int cudnnSetCTCLossDescriptor_v8(void* loss, int /*type*/, int /*normalization*/,
                                                 int /*gradient*/, int labels) {
  return SetMost(loss, labels);
}
TIDEPOOL_ANSWER int cudnnSetCTCLossDescriptor_v9(void* loss, int /*type*/, int /*normalization*/,
                                                 int /*gradient*/, int labels) {
  return SetMost(loss, labels);
}

// The lengths lie on the host.
TIDEPOOL_ANSWER cudnnStatus_t cudnnGetCTCLossWorkspaceSize(
    void* /*handle*/, cudnnTensorDescriptor_t probabilities, void* /*gradients*/,
    const int* /*labels*/, const int* label_lengths, const int* /*input_lengths*/,
    int /*algorithm*/, void* /*loss*/, std::size_t* bytes) {
  const int batch = probabilities->sizes[1];
  const int longest = batch > 0 ? *std::max_element(label_lengths, label_lengths + batch) : 0;
  return StoreWorkspace(probabilities, longest, bytes);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(void* /*handle*/, int /*algorithm*/,
                                                              void* loss,
                                                              cudnnTensorDescriptor_t probabilities,
                                                              void* /*gradients*/,
                                                              std::size_t* bytes) {
  return StoreWorkspace(probabilities, static_cast<Loss*>(loss)->most_labels, bytes);
}
